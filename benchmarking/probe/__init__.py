"""The program that takes the timings, the plan that it reads and the lines that it prints."""

from __future__ import annotations

from pathlib import Path

# Never imported by the site: it is sent to the measured machine and runs there by itself.
PROBE_PATH = Path(__file__).with_name("probe.py")
