"""How a layer is named where DNNMark is used by hand: on the command line, in logs, in file names.

``H-W-C-K-S-P-U``: image height and width, input channels, output channels, kernel, padding, stride;
a last ``-D`` is the dilation. A bias has no place in it, for DNNMark computes none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from benchmarking.probe.checked_fields import CheckedFields, ResultError, shown
from benchmarking.probe.results import read_layer
from benchmarking.specs import ConvolutionSpec

_HYPHENATED = re.compile(r"\d{1,6}(?:-\d{1,6}){6,7}")
_IN_FILE_NAME = re.compile(r"(?:^|_)shape(\d+(?:-\d+){6,7})(?=_|\.)")
_BATCH_SIZE_IN_FILE_NAME = re.compile(r"(?:^|_)bs(\d{1,6})(?=_|\.)")
_ALLOWED = "allowed is H-W-C-K-S-P-U, such as 224-224-3-64-3-1-1"


class LayerNameError(ValueError):
    """This names no layer; the message says what does."""


def layer_of_name(name: str) -> ConvolutionSpec:
    """The layer of ``H-W-C-K-S-P-U[-D]``, without a bias.

    Raises ``LayerNameError`` for anything else, and for a layer that cannot be.
    """
    if not _HYPHENATED.fullmatch(name):
        raise LayerNameError(f"{shown(name)} is no layer; {_ALLOWED}")
    height, width, channels, outputs, kernel, padding, stride, *dilation = map(int, name.split("-"))
    sizes = _square(kernel, padding, stride, dilation[0] if dilation else 1)
    columns = {"in_channels": channels, "in_height": height, "in_width": width} | sizes
    return _checked({**columns, "out_channels": outputs, "groups": 1, "bias": False})


def layer_of_heading(text: str) -> ConvolutionSpec:
    """The layer of a line ``# layer:``, a name or the sizes that our own runs write as JSON.

    Raises ``LayerNameError``.
    """
    if not text.startswith("{"):
        return layer_of_name(text)
    try:
        columns = json.loads(text)
    except (ValueError, RecursionError):
        raise LayerNameError(f"{shown(text)} is no layer; {_ALLOWED}") from None
    return _checked(columns)


def layer_of_configuration(configured: Mapping[str, str]) -> ConvolutionSpec | None:
    """The layer of a configuration that was printed, ``None`` where keys are missing.

    Raises ``LayerNameError`` for a value that is no number.
    """
    columns: dict[str, Any] = {"groups": 1, "bias": False}
    wanted = {"in_channels": "c", "in_height": "h", "in_width": "w", "out_channels": "num_output"}
    for name, keyword in wanted.items():
        columns[name] = configured.get(keyword)
    for name, keyword in (("kernel", "kernel_size"), ("padding", "pad"), ("stride", "stride")):
        for side in ("height", "width"):
            one_side = configured.get(f"{keyword}_{side[0]}")
            columns[f"{name}_{side}"] = configured.get(keyword) if one_side is None else one_side
            columns[f"dilation_{side}"] = "1"
    if None in columns.values():
        return None
    for name, value in columns.items():
        if isinstance(value, str):
            if not re.fullmatch(r"\d{1,7}", value):
                raise LayerNameError(f"the configuration has {shown(value)} for its {name}")
            columns[name] = int(value)
    return _checked(columns)


def layer_of_file_name(file_name: str) -> ConvolutionSpec | None:
    """The layer in a name such as ``..._shape224-224-3-64-3-1-1_...``, ``None`` if it has none.

    Raises ``LayerNameError`` where height and width differ: the programs that write such names do
    not agree on their order.
    """
    match = _IN_FILE_NAME.search(file_name)
    if match is None:
        return None
    layer = layer_of_name(match.group(1))
    if layer.in_height != layer.in_width:
        raise LayerNameError("height and width in the file name differ; say --layer H-W-C-K-S-P-U")
    return layer


def batch_size_of_file_name(file_name: str) -> int | None:
    """The batch size in a name such as ``..._bs64_...``, ``None`` where there is none."""
    match = _BATCH_SIZE_IN_FILE_NAME.search(file_name)
    return int(match.group(1)) or None if match else None


def _square(kernel: int, padding: int, stride: int, dilation: int) -> dict[str, int]:
    sizes = {"kernel": kernel, "padding": padding, "stride": stride, "dilation": dilation}
    return {f"{name}_{side}": size for name, size in sizes.items() for side in ("height", "width")}


def _checked(columns: dict[str, Any]) -> ConvolutionSpec:
    try:
        return read_layer(CheckedFields({"layer": columns}, 1))
    except ResultError as error:
        raise LayerNameError(error.reason) from None
