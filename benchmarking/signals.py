"""News that goes up to the floors above, which benchmarking itself knows nothing of."""

from __future__ import annotations

from django.dispatch import Signal

# Sent after the transaction that stored new timings; keyword argument machine_id.
timings_stored = Signal()
