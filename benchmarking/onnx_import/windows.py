"""Padding of windows that move over images, as ONNX describes it."""

from __future__ import annotations

import math

from benchmarking.onnx_import.errors import OnnxError
from benchmarking.onnx_import.graph import Node

Pads = tuple[int, int, int, int]
"""Top, left, bottom, right, as ONNX orders them."""


def window_pads(
    node: Node,
    size: tuple[int, ...],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
) -> Pads:
    """Pads in pixels, from the node's own or from its rule; sizes are height and width."""
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        pads = node.attributes.get("pads", (0, 0, 0, 0))
        if len(pads) != 4:
            raise OnnxError(
                f"Only two-dimensional operators on images are covered; pads has {len(pads)} "
                "values.",
                code="not_two_dimensional",
            )
        return (int(pads[0]), int(pads[1]), int(pads[2]), int(pads[3]))
    if mode == "VALID":
        return (0, 0, 0, 0)
    before, after = [], []
    for extent, window, stride, dilation in zip(size, kernel, strides, dilations):
        reach = dilation * (window - 1) + 1
        total = max(0, (math.ceil(extent / stride) - 1) * stride + reach - extent)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return (before[0], before[1], after[0], after[1])
