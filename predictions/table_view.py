"""How the table and the charts are looked at: what of the page's state no row depends on.

It stands in the same query string as the query, so that a link reproduces the view. Programs that
ask for rows pass it over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from urllib.parse import urlencode

from benchmarking.suggestions import quoted
from predictions.option_readers import one_of
from predictions.query import QueryError

TIME_UNITS = ("words", "hours", "seconds")
SPANS = ("total", "epoch")
CHARTS = ("epoch-time", "cost", "time-cost")
SORT_KEYS = (
    "name",
    "batch_size",
    "epoch_seconds",
    "total_seconds",
    "total_cost_usd",
    "memory_mib",
)
MAX_SHOW_LENGTH = 200


@dataclass(frozen=True, slots=True)
class TableView:
    """What was chosen around the table; the defaults are what a link without it shows.

    Attributes
    ----------
    times
        Durations in words, or as plain numbers of hours or seconds.
    per
        Costs of the whole training, or of one epoch.
    sort
        A key of :data:`SORT_KEYS`, with ``-`` before it for descending; empty as asked. It names
        a column that is shown: beside costs of one epoch, the epoch's time takes the place of
        the total.
    show
        Words that a line must hold to be shown.
    reference
        CNN and place (``resnet50@aws-g4dn.xlarge``) that the other lines are compared with.
    chart
        The chart in front; empty for the first one.
    """

    times: str = "words"
    per: str = "total"
    sort: str = ""
    show: str = ""
    reference: str = ""
    chart: str = ""

    def __post_init__(self) -> None:
        if self.per == "epoch" and self.sort_key == "total_seconds":
            # Address and list of sortings would name a column that nobody sees.
            shown = self.sort.replace("total_seconds", "epoch_seconds")
            object.__setattr__(self, "sort", shown)

    def parameters(self) -> list[tuple[str, str]]:
        """Names and values of the query string, in one fixed order, defaults left out."""
        return [
            (each.name, value)
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        ]

    def to_query_string(self) -> str:
        """The view as a URL carries it; :func:`parse_view` turns it back into this view."""
        return urlencode(self.parameters(), safe=",@")

    @property
    def sort_key(self) -> str:
        """The key without its direction."""
        return self.sort.removeprefix("-")

    @property
    def descends(self) -> bool:
        """Whether the largest comes first."""
        return self.sort.startswith("-")


def parse_view(parameters: Mapping[str, Sequence[str]]) -> TableView:
    """Read the view from raw texts by name; empty texts count as not given.

    Raises :class:`QueryError` with one sentence per field that is wrong.
    """
    errors: dict[str, str] = {}
    values: dict[str, str] = {}
    for name, read in _READERS.items():
        texts = {text.strip() for text in parameters.get(name, ()) if text.strip()}
        if len(texts) > 1:
            errors[name] = f"Give {name} once (got {len(texts)} different values)."
        for text in texts:
            try:
                values[name] = read(text)
            except ValueError as error:
                errors[name] = str(error)
    if errors:
        raise QueryError(errors)
    return TableView(**values)


def _read_show(text: str) -> str:
    if len(text) > MAX_SHOW_LENGTH or not text.isprintable():
        raise ValueError(
            f"What the table shows is found by at most {MAX_SHOW_LENGTH} printable characters."
        )
    return " ".join(text.split())


def _read_reference(text: str) -> str:
    slug, at, place = text.partition("@")
    if not (slug and at and place) or len(text) > MAX_SHOW_LENGTH or not text.isprintable():
        raise ValueError(
            "The reference is a CNN and a machine, as in resnet50@aws-g4dn.xlarge "
            f"(got {quoted(text)})."
        )
    return text


_READERS: dict[str, Callable[[str], str]] = {
    "times": one_of("unit of times", TIME_UNITS),
    "per": one_of("span of costs", SPANS),
    "sort": one_of("sorting", (*SORT_KEYS, *(f"-{key}" for key in SORT_KEYS))),
    "show": _read_show,
    "reference": _read_reference,
    "chart": one_of("chart", CHARTS),
}
