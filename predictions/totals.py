"""From an epoch to a whole training: epochs, interruptions, the start of the machine, storage.

Works on plain numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

SECONDS_PER_HOUR = 3600
# 365 days of 24 hours over 12: how providers turn a price for a month into one for an hour.
HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True)
class Training:
    """What a training takes beyond its iterations, as far as somebody asked for it.

    Attributes
    ----------
    interruption_percent
        Extra time for work that is done again and for new starts, in percent of the epochs.
    start_minutes
        Minutes from renting a machine to the first iteration, once.
    storage_gib, storage_usd_per_gib_month
        Storage that is kept as long as the training takes.
    """

    epochs: int = 1
    interruption_percent: float = 0.0
    start_minutes: float = 0.0
    storage_gib: float = 0.0
    storage_usd_per_gib_month: float = 0.0

    @property
    def storage_usd_per_hour(self) -> float:
        """What the storage costs while the machine is rented."""
        return self.storage_gib * self.storage_usd_per_gib_month / HOURS_PER_MONTH

    def total_seconds(self, epoch_seconds: float) -> float:
        """Seconds from renting the machine to the end of the last epoch."""
        training = self.epochs * epoch_seconds * (1 + self.interruption_percent / 100)
        return training + 60 * self.start_minutes

    def usd_per_second(self, machine_usd_per_hour: float) -> float:
        """Machine and storage together, for each second of :meth:`total_seconds`."""
        return (machine_usd_per_hour + self.storage_usd_per_hour) / SECONDS_PER_HOUR

    def extras(self) -> list[str]:
        """What the totals hold beyond the epochs, in words; empty where nothing was asked for."""
        parts = []
        if self.interruption_percent:
            parts.append(f"{self.interruption_percent:,.6g} % more time for interruptions")
        if self.start_minutes:
            parts.append(f"{self.start_minutes:,.6g} min to start the machine")
        if self.storage_gib and self.storage_usd_per_gib_month:
            parts.append(
                f"{self.storage_gib:,.6g} GiB of storage at "
                f"${self.storage_usd_per_gib_month:,.6g} per GiB-month"
            )
        return parts
