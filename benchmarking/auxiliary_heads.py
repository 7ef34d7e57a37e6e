"""Whether a network was traced with the auxiliary heads that it trains with."""

from __future__ import annotations

from benchmarking.models import Architecture

_LOSSES = frozenset({"nll_loss_forward", "nll_loss2d_forward"})


def has_auxiliary_heads(architecture: Architecture) -> bool:
    """Whether an iteration of ``architecture`` trains auxiliary heads.

    Each head has a loss of its own beside the main one. A network that has heads was traced
    without them where the images are too small.
    """
    losses = sum(calls for name, _, calls, *_ in architecture.operations if name in _LOSSES)
    return losses > 1
