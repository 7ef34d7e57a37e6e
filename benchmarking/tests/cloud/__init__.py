"""EC2 played on this machine."""

import os
from pathlib import Path

# moto reads this when it is imported: its own images make each region cost 100 MB and a second.
os.environ.setdefault("MOTO_AMIS_PATH", str(Path(__file__).with_name("images.json")))
