"""A question about one place, and what is known about its iteration times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarking.models import Device, Machine
from benchmarking.specs import Optimizer, Precision
from regression.iteration_points import IterationPoint


@dataclass(frozen=True)
class Place:
    """Where and how a CNN trains; without a machine, any that has the device."""

    device: Device
    machine: Machine | None
    precision: Precision
    optimizer: Optimizer


@dataclass(frozen=True)
class Answer:
    """Points by batch size; ``refusal`` says why a batch size that is missing has none."""

    points: Mapping[int, IterationPoint] = field(default_factory=dict)
    stack_label: str | None = None
    model_version: str = ""
    refusal: str | None = None
