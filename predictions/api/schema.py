"""Hooks of drf-spectacular: what the OpenAPI document says of every endpoint alike."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from predictions.problems import CONTENT_TYPE

# What Django's backends report of their integer columns; nobody's answer depends on it.
_COLUMN_LIMITS = frozenset({2**15 - 1, 2**31 - 1, 2**63 - 1, -(2**15), -(2**31), -(2**63)})


def drop_column_limits(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Integers without the limits of a column: the document is the same on every database."""
    _drop(result)
    return result


def declare_refusals(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Say of each operation which problem documents it may answer with, and when."""
    for path, operations in result["paths"].items():
        for operation in operations.values():
            responses = operation["responses"]
            refusals = {*_refusals_of(path, operation), *(responses.keys() & _WHEN.keys())}
            responses |= {
                status: {"$ref": f"#/components/responses/{_name(status)}"} for status in refusals
            }
            operation["responses"] = dict(sorted(responses.items()))
    result["components"]["responses"] = {_name(status): _refusal(status) for status in _WHEN}
    return result


_WHEN = {
    "400": "A value is wrong or unknown: `errors` says which, and what may have been meant.",
    "401": "No token, or one that nobody has.",
    "403": "For operators only.",
    "404": "Nothing of that name.",
    "406": "An answer in another form than JSON was asked for.",
    "409": "It cannot be done now: `detail` says which limit or state forbids it.",
    "413": "The file is too large.",
    "415": "What was sent has another media type than is read.",
    "422": "The Idempotency-Key was used for something else.",
    "429": "Too many requests from this address.",
    "500": "Something broke on the server's side: `error_id` stands in its log.",
}


def _name(status: str) -> str:
    return HTTPStatus(int(status)).name.title().replace("_", "")


def _refusal(status: str) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": _WHEN[status],
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status == "429":
        response["headers"] = {
            "Retry-After": {
                "description": "Seconds after which to try again.",
                "schema": {"type": "integer"},
            }
        }
    return response


def _refusals_of(path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from ("400", "406", "429", "500")
    if "{" in path:
        yield "404"
    # An empty requirement among the others lets everybody in.
    if {} not in operation.get("security", [{}]):
        yield from ("401", "403")


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
