"""Check the catalogue."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchmarking.catalogue.checking import check_catalogue


class Command(BaseCommand):
    help = (
        "Prints counts, and exits with 1 if a machine lacks a device with usable memory, a source, "
        "or a price (or the reason why none is known), or if a device lacks a sourced value."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        check = check_catalogue()
        for name, number in check.counts.items():
            self.stdout.write(f"{number:6d} {name}")
        if check.problems:
            for problem in check.problems:
                self.stderr.write(problem)
            raise CommandError(f"{len(check.problems)} problems in the catalogue", returncode=1)
        self.stdout.write("The catalogue is complete.")
