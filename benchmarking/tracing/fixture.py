"""Traced networks as a compact JSON file, written and read without torch.

A convolution layer appears once, in a table that all networks share; a network refers to it by
its row. One row is one line, so that a change of the file can be read. The layout::

    {"schema": 1, "source": "torchvision", "versions": {"torch": "2.14.1", ...},
     "convolution_columns": ["in_channels", ...],   # the fields of ConvolutionSpec, bias as 0 or 1
     "convolutions": [[3, 224, 224, 64, 7, 7, ...], ...],
     "operation_names": ["_log_softmax", ...],
     "networks": [{"slug": ..., "convolutions": [[row, count, needs_input_gradient], ...],
                   "operations": [[name, phase, calls, bytes_per_example, bytes_fixed,
                                   multiply_adds_per_example], ...], ...}, ...]}

``phase`` is 0, 1, 2 for forward, backward, optimizer. A path that ends in ``.gz`` is compressed.
The reader trusts nothing: the same layout is what people upload for a network of their own.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from benchmarking.specs import (
    ConvolutionSpec,
    ConvolutionUse,
    OperationSpec,
    Phase,
    TracedNetwork,
)
from benchmarking.tracing.errors import FixtureError

SCHEMA = 1

_LAYER_COLUMNS = tuple(column.name for column in fields(ConvolutionSpec))
_PHASES = tuple(Phase)
_PHASE_NUMBERS = {phase: number for number, phase in enumerate(_PHASES)}
_SCALARS = (
    "slug",
    "family",
    "image_size",
    "parameters",
    "parameter_tensors",
    "multiply_adds",
    "saved_bytes_per_example",
    "saved_bytes_fixed",
    "saved_bytes_amp_per_example",
    "saved_bytes_amp_fixed",
    "minimum_batch_size",
    "note",
)

_SLUG = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_OPERATION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")
_LARGEST_EXTENT = 1_000_000
_LARGEST_COUNT = 1_000_000
_LARGEST_AMOUNT = 10**18
_LARGEST_ROWS = 200_000
_LARGEST_FILE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class TracedFile:
    """A file of traced networks, and what traced them."""

    networks: tuple[TracedNetwork, ...]
    source: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def dump_traced_networks(
    networks: Iterable[TracedNetwork],
    path: Path | str,
    *,
    source: str = "",
    versions: Mapping[str, str] | None = None,
) -> None:
    """Write networks to a file, sorted by slug and image size; equal input gives equal bytes."""
    text = format_traced_networks(networks, source=source, versions=versions)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)


def format_traced_networks(
    networks: Iterable[TracedNetwork],
    *,
    source: str = "",
    versions: Mapping[str, str] | None = None,
) -> str:
    """The text of a file of traced networks."""
    ordered = sorted(networks, key=lambda network: (network.slug, network.image_size))
    layers = sorted({use.layer for network in ordered for use in network.convolutions})
    names = sorted({operation.name for network in ordered for operation in network.operations})
    layer_rows = {layer: row for row, layer in enumerate(layers)}
    name_rows = {name: row for row, name in enumerate(names)}
    head = {
        "schema": SCHEMA,
        "source": source,
        "versions": dict(sorted((versions or {}).items())),
        "convolution_columns": _LAYER_COLUMNS,
        "operation_names": names,
    }
    lines = [f"{json.dumps(key)}: {_compact(value)}" for key, value in head.items()]
    lines.append(_array("convolutions", [[int(value) for value in astuple(la)] for la in layers]))
    rows = [_network_row(network, layer_rows, name_rows) for network in ordered]
    lines.append(_array("networks", rows))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load_traced_networks(path: Path | str) -> list[TracedNetwork]:
    """Read the networks of a file; raises ``FixtureError`` as :func:`load_traced_file`."""
    return list(load_traced_file(path).networks)


def load_traced_file(path: Path | str) -> TracedFile:
    """Read a file of traced networks.

    Raises ``FixtureError`` with one line that names the file and the place if it cannot be
    read, is truncated, has another schema, or holds a value that is not allowed.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return parse_traced_networks(data.decode())
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FixtureError(f"{path}: cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        raise FixtureError(f"{path}: is not UTF-8 text") from error
    except FixtureError as error:
        raise FixtureError(f"{path}: {error}") from error


def parse_traced_networks(text: str) -> TracedFile:
    """Read the text of a file of traced networks; raises ``FixtureError``."""
    if len(text) > _LARGEST_FILE_BYTES:
        raise FixtureError(f"is larger than {_LARGEST_FILE_BYTES // 2**20} MiB")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except FixtureError:
        raise
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise FixtureError(f"is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise FixtureError("must hold one JSON object")
    schema = document.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        raise FixtureError(f"has schema {schema!r}, this version reads schema {SCHEMA}")
    if document.get("convolution_columns") != list(_LAYER_COLUMNS):
        raise FixtureError(f"convolution_columns must be {', '.join(_LAYER_COLUMNS)}")
    layers = [
        _layer(row, f"convolutions[{number}]")
        for number, row in enumerate(_list(document, "convolutions"))
    ]
    names = [
        _text(name, f"operation_names[{number}]", _OPERATION_NAME)
        for number, name in enumerate(_list(document, "operation_names"))
    ]
    versions = document.get("versions")
    if not isinstance(versions, dict):
        raise FixtureError("versions must be an object")
    networks = [
        _network(row, layers, names, f"networks[{number}]")
        for number, row in enumerate(_list(document, "networks"))
    ]
    if not networks:
        raise FixtureError("networks is empty")
    seen = {(network.slug, network.image_size) for network in networks}
    if len(seen) != len(networks):
        raise FixtureError("a network appears twice at the same image size")
    return TracedFile(
        networks=tuple(networks),
        source=_text(document.get("source"), "source"),
        versions={
            _text(key, "versions"): _text(value, f"versions.{key}")
            for key, value in versions.items()
        },
    )


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def _array(key: str, rows: list[Any]) -> str:
    return f"{json.dumps(key)}: [\n" + ",\n".join(_compact(row) for row in rows) + "\n]"


def _short(value: float) -> float:
    return int(value) if value == int(value) else value


def _network_row(
    network: TracedNetwork, layer_rows: Mapping[ConvolutionSpec, int], name_rows: Mapping[str, int]
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key in _SCALARS:
        value = getattr(network, key)
        row[key] = _short(value) if isinstance(value, float) else value
    row["convolutions"] = [
        [layer_rows[use.layer], use.count, int(use.needs_input_gradient)]
        for use in network.convolutions
    ]
    row["operations"] = [
        [
            name_rows[operation.name],
            _PHASE_NUMBERS[operation.phase],
            operation.calls,
            _short(operation.bytes_per_example),
            _short(operation.bytes_fixed),
            _short(operation.multiply_adds_per_example),
        ]
        for operation in network.operations
    ]
    return row


def _refuse_constant(name: str) -> float:
    raise FixtureError(f"holds {name}; numbers must be finite")


def _list(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key)
    if not isinstance(value, list):
        raise FixtureError(f"{key} must be a list")
    if len(value) > _LARGEST_ROWS:
        raise FixtureError(f"{key} has {len(value)} rows; at most {_LARGEST_ROWS} are allowed")
    return value


def _row(value: Any, length: int, place: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise FixtureError(f"{place} must be a list of {length} values")
    return value


def _text(value: Any, place: str, pattern: re.Pattern[str] | None = None) -> str:
    if not isinstance(value, str) or len(value) > 300:
        raise FixtureError(f"{place} must be a text of at most 300 characters")
    if pattern is not None and not pattern.fullmatch(value):
        raise FixtureError(f"{place} is {value[:80]!r}, which is no allowed name")
    return value


def _integer(value: Any, place: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise FixtureError(f"{place} must be a whole number from {low} to {high}")
    return value


def _amount(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FixtureError(f"{place} must be a number")
    if not 0 <= value <= _LARGEST_AMOUNT:
        raise FixtureError(f"{place} must be from 0 to {_LARGEST_AMOUNT:.0e}")
    return float(value)


def _layer(row: Any, place: str) -> ConvolutionSpec:
    values = _row(row, len(_LAYER_COLUMNS), place)
    settings: dict[str, Any] = {}
    for column, value in zip(_LAYER_COLUMNS, values, strict=True):
        low = 0 if column in ("padding_height", "padding_width", "bias") else 1
        high = 1 if column == "bias" else _LARGEST_EXTENT
        settings[column] = _integer(value, f"{place}.{column}", low, high)
    settings["bias"] = bool(settings["bias"])
    layer = ConvolutionSpec(**settings)
    if layer.in_channels % layer.groups or layer.out_channels % layer.groups:
        raise FixtureError(f"{place}: {layer.groups} groups do not divide its channels")
    if layer.out_height < 1 or layer.out_width < 1:
        raise FixtureError(f"{place}: its kernel does not fit its input")
    return layer


def _network(
    row: Any, layers: list[ConvolutionSpec], names: list[str], place: str
) -> TracedNetwork:
    if not isinstance(row, dict):
        raise FixtureError(f"{place} must be an object")
    expected = {*_SCALARS, "convolutions", "operations"}
    if missing := sorted(expected - row.keys()):
        raise FixtureError(f"{place} lacks {', '.join(missing)}")
    if unknown := sorted(row.keys() - expected):
        raise FixtureError(f"{place} has unknown keys: {', '.join(map(str, unknown))[:200]}")
    slug = _text(row["slug"], f"{place}.slug", _SLUG)
    place = f"{slug} ({place})"
    return TracedNetwork(
        slug=slug,
        family=_text(row["family"], f"{place}: family", _SLUG),
        image_size=_integer(row["image_size"], f"{place}: image_size", 1, _LARGEST_EXTENT),
        parameters=_integer(row["parameters"], f"{place}: parameters", 1, _LARGEST_AMOUNT),
        parameter_tensors=_integer(
            row["parameter_tensors"], f"{place}: parameter_tensors", 1, _LARGEST_COUNT
        ),
        multiply_adds=_integer(row["multiply_adds"], f"{place}: multiply_adds", 0, _LARGEST_AMOUNT),
        saved_bytes_per_example=_amount(
            row["saved_bytes_per_example"], f"{place}: saved_bytes_per_example"
        ),
        saved_bytes_fixed=_amount(row["saved_bytes_fixed"], f"{place}: saved_bytes_fixed"),
        saved_bytes_amp_per_example=_amount(
            row["saved_bytes_amp_per_example"], f"{place}: saved_bytes_amp_per_example"
        ),
        saved_bytes_amp_fixed=_amount(
            row["saved_bytes_amp_fixed"], f"{place}: saved_bytes_amp_fixed"
        ),
        convolutions=tuple(
            _use(use, layers, f"{place}: convolutions[{number}]")
            for number, use in enumerate(_list(row, "convolutions"))
        ),
        operations=tuple(
            _operation(operation, names, f"{place}: operations[{number}]")
            for number, operation in enumerate(_list(row, "operations"))
        ),
        minimum_batch_size=_integer(
            row["minimum_batch_size"], f"{place}: minimum_batch_size", 1, 2
        ),
        note=_text(row["note"], f"{place}: note"),
    )


def _use(row: Any, layers: list[ConvolutionSpec], place: str) -> ConvolutionUse:
    layer, count, needs_input_gradient = _row(row, 3, place)
    return ConvolutionUse(
        layer=layers[_integer(layer, f"{place}[0]", 0, len(layers) - 1)],
        count=_integer(count, f"{place}[1]", 1, _LARGEST_COUNT),
        needs_input_gradient=bool(_integer(needs_input_gradient, f"{place}[2]", 0, 1)),
    )


def _operation(row: Any, names: list[str], place: str) -> OperationSpec:
    name, phase, calls, per_example, fixed, multiply_adds = _row(row, 6, place)
    return OperationSpec(
        name=names[_integer(name, f"{place}[0]", 0, len(names) - 1)],
        phase=_PHASES[_integer(phase, f"{place}[1]", 0, len(_PHASES) - 1)],
        calls=_integer(calls, f"{place}[2]", 1, _LARGEST_COUNT),
        bytes_per_example=_amount(per_example, f"{place}[3]"),
        bytes_fixed=_amount(fixed, f"{place}[4]"),
        multiply_adds_per_example=_amount(multiply_adds, f"{place}[5]"),
    )
