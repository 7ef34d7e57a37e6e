"""What the ATen operations of a traced network do, for both models of iteration time.

The remainder of a measured device and the estimate from a specification group operations by what
limits them, each in its own way; here is what is the same for both.
"""

from __future__ import annotations

from benchmarking.specs import OperationSpec, Phase

CONVOLUTIONS = frozenset({"convolution", "convolution_backward"})

MATRIX_PRODUCTS = frozenset({"addmm", "mm", "bmm", "baddbmm"})

COPIES = frozenset(
    """cat clone copy_ _to_copy contiguous constant_pad_nd slice_backward select_backward stack
    roll index repeat""".split()
)
"""Operations that only move data."""

VIEWS = frozenset(
    """_unsafe_view alias as_strided chunk detach empty empty_like expand permute select slice
    split split_with_sizes squeeze t transpose unbind unsqueeze view""".split()
)
"""Views and bare allocations: they move no bytes and launch nothing."""


def norm_or_pool(operation: OperationSpec) -> str | None:
    """``norm``, ``norm_backward``, ``pool`` or ``pool_backward``; ``None`` for anything else."""
    backward = "_backward" if operation.phase is Phase.BACKWARD else ""
    if "norm" in operation.name and "linalg" not in operation.name:
        return f"norm{backward}"
    return f"pool{backward}" if "pool" in operation.name else None
