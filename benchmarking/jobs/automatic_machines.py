"""Whether the catalogue has the machines that automatic benchmarks are told to launch.

The settings are read before there is a database, so that a mistyped machine shows itself here:
``script/server`` refuses to start, ``manage.py check --database default`` and a log line of each
automatic launch name it, and ``/metrics`` counts it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from benchmarking.models import Machine
from benchmarking.suggestions import did_you_mean

SETTING = "AUTOMATIC_BENCHMARK_MACHINES"


@dataclass(frozen=True, slots=True)
class WrongMachines:
    """Why nothing will be launched for some of the setting's machines, a sentence for each.

    ``unknown`` are of names that no machine has, ``retired`` of machines that nobody rents out
    any more.
    """

    unknown: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them."""
        return self.unknown + self.retired


def wrong_machines() -> WrongMachines:
    """Compare the setting with the catalogue; nothing is wrong while that is not loaded."""
    names = settings.AUTOMATIC_BENCHMARK_MACHINES
    if not names:
        return WrongMachines()
    availability = dict(Machine.objects.values_list("slug", "availability"))
    if not availability:
        return WrongMachines()
    current = [slug for slug, kind in availability.items() if kind == Machine.Availability.CURRENT]
    return WrongMachines(
        unknown=tuple(
            f"{SETTING} must be machines of the catalogue such as aws-g4dn.xlarge; {name!r} is "
            f"none{did_you_mean(name, current)}"
            for name in names
            if name not in availability
        ),
        retired=tuple(
            f"{SETTING} must be machines that can still be rented; {name!r} is retired"
            for name in names
            if availability.get(name) == Machine.Availability.RETIRED
        ),
    )
