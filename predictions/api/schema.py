"""The OpenAPI document says the same whatever database an installation runs on."""

from __future__ import annotations

from typing import Any

# What Django's backends report of their integer columns; nobody's answer depends on it.
_COLUMN_LIMITS = frozenset({2**15 - 1, 2**31 - 1, 2**63 - 1, -(2**15), -(2**31), -(2**63)})


def drop_column_limits(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular: integers without the limits of a column."""
    _drop(result)
    return result


def _drop(node: Any) -> None:
    if isinstance(node, list):
        for each in node:
            _drop(each)
    if not isinstance(node, dict):
        return
    if node.get("type") == "integer":
        for limit in ("minimum", "maximum"):
            if node.get(limit) in _COLUMN_LIMITS:
                del node[limit]
        if node.get("format") == "int64":
            del node["format"]
    for each in node.values():
        _drop(each)
