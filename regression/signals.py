"""News that goes up to the floor above."""

from __future__ import annotations

from django.dispatch import Signal

# Sent after a new model was committed; keyword arguments device_id and stack_id.
models_trained = Signal()
