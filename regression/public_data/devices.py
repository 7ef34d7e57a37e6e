"""The catalogue's devices as specifications, straight from the fixture: no database needed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from benchmarking.specs import DeviceKind, DeviceSpec

DEVICES_FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "catalogue" / "devices.json"


def load_device_specs(path: Path = DEVICES_FIXTURE) -> dict[str, DeviceSpec]:
    """Specifications by slug, of every device of a catalogue file."""
    names = {field.name for field in dataclasses.fields(DeviceSpec)}
    specs = {}
    for row in json.loads(path.read_text(encoding="utf-8")):
        values = {name: value for name, value in row.items() if name in names}
        values["kind"] = DeviceKind(values["kind"])
        specs[row["slug"]] = DeviceSpec(**values)
    return specs
