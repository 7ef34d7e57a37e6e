"""Networks that train with auxiliary heads, and whether a trace has them."""

from __future__ import annotations

from benchmarking.models import Architecture

WITH_AUXILIARY_HEADS = frozenset({"googlenet", "inception_v3"})


def has_auxiliary_heads(architecture: Architecture) -> bool:
    """Whether an iteration of ``architecture`` trains auxiliary heads.

    They end in a fully connected layer each, so the trace has more than one; it was made without
    them where the images are too small.
    """
    if architecture.slug not in WITH_AUXILIARY_HEADS:
        return False
    fully_connected_layers = sum(
        calls
        for name, phase, calls, *_ in architecture.operations
        if name == "addmm" and phase == "forward"
    )
    return fully_connected_layers > 1
