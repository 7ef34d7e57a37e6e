"""A machine's price over time as a plotly figure, in words, and as lines of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarking.models import Price
from predictions.chart_layout import figure_layout
from predictions.chart_traces import SERIES_COLOURS
from predictions.charts import Chart
from predictions.display import format_exact_usd

DASH_OF_KIND = {Price.Kind.ON_DEMAND: "solid", Price.Kind.SPOT: "dash"}
SYMBOL_OF_KIND = {Price.Kind.ON_DEMAND: "circle", Price.Kind.SPOT: "diamond"}
MAX_DESCRIBED = 4


@dataclass(frozen=True, slots=True)
class PriceSeries:
    """The dated quotations of one kind in one region, oldest first, and how they are drawn."""

    kind: str
    region: str
    quotations: tuple[Price, ...]
    colour: int

    @property
    def label(self) -> str:
        """As in ``spot, us-east-1``."""
        return f"{Price.Kind(self.kind).label.lower()}, {self.region}"

    @property
    def is_spot(self) -> bool:
        """Drawn with a dashed line and diamonds."""
        return self.kind == Price.Kind.SPOT

    @property
    def has_history(self) -> bool:
        """Whether it was quoted for more than one day."""
        return self.quotations[0].first_day != self.quotations[-1].first_day


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """Quotations newest first; ``chart`` is ``None`` where there is no line to draw, and
    ``summary`` then says why.
    """

    quotations: tuple[Price, ...]
    chart: Chart | None
    summary: str
    legend: tuple[PriceSeries, ...]
    figures: dict[str, Any]


def make_price_history(quotations: Sequence[Price]) -> PriceHistory:
    """What a machine's page shows of its quotations, which come newest first."""
    series = _series_of(quotations)
    undated = sum(price.first_day is None for price in quotations)
    if not any(each.has_history for each in series):
        return PriceHistory(tuple(quotations), None, _why_no_chart(series, undated), (), {})
    chart = Chart(
        slug="prices",
        tab="Prices",
        title="Price of an hour over time",
        summary=_summary(series, undated),
        figure=_figure(series),
    )
    figures = {
        "charts": {chart.slug: chart.figure},
        "hover": [[_hover_text(price) for price in each.quotations] for each in series],
    }
    return PriceHistory(tuple(quotations), chart, chart.summary, tuple(series), figures)


def _series_of(quotations: Sequence[Price]) -> list[PriceSeries]:
    grouped: dict[tuple[str, str], list[Price]] = defaultdict(list)
    for price in reversed(quotations):
        if price.first_day is not None:
            grouped[price.kind, price.region].append(price)
    return [
        PriceSeries(kind, region, tuple(prices), number % SERIES_COLOURS + 1)
        for number, ((kind, region), prices) in enumerate(sorted(grouped.items()))
    ]


def _figure(series: Sequence[PriceSeries]) -> dict[str, Any]:
    # With margins of its own choice plotly changes the dates, then the margins, and so on.
    fixed = {"automargin": False}
    layout = figure_layout(
        {"type": "date", "title": {"text": "date of the quotation"}} | fixed,
        {"title": {"text": "US dollars an hour"}, "tickprefix": "$", "rangemode": "tozero"} | fixed,
    )
    layout["margin"] = {"l": 68, "r": 16, "t": 8, "b": 48}
    return {"data": [_trace(each, number) for number, each in enumerate(series)], "layout": layout}


def _trace(series: PriceSeries, number: int) -> dict[str, Any]:
    kind = Price.Kind(series.kind)
    colour = f"@series-{series.colour}"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": series.label,
        "x": [price.first_day.isoformat() for price in series.quotations if price.first_day],
        "y": [float(price.usd_per_hour) for price in series.quotations],
        # A step: a price holds until somebody quotes another one.
        "line": {"width": 1.8, "color": colour, "dash": DASH_OF_KIND[kind], "shape": "hv"},
        "marker": {"size": 8, "color": colour, "symbol": SYMBOL_OF_KIND[kind]},
        "text": number,
        "hovertemplate": f"<b>{series.label}</b><br>%{{text}}<extra></extra>",
    }


def _hover_text(price: Price) -> str:
    notional = ", notional" if price.notional else ""
    return f"{format_exact_usd(float(price.usd_per_hour))} an hour{notional}\nas of {price.as_of}"


def _summary(series: Sequence[PriceSeries], undated: int) -> str:
    parts = [_described(each) for each in series[:MAX_DESCRIBED]]
    if len(series) > MAX_DESCRIBED:
        parts.append(f"{len(series) - MAX_DESCRIBED} more lines are in the legend")
    if undated:
        parts.append(f"{_quotations(undated)} without a date in the table only")
    return f"{'. '.join(parts)}."


def _described(series: PriceSeries) -> str:
    first, last = series.quotations[0], series.quotations[-1]
    name = f"{Price.Kind(series.kind).label} in {series.region}"
    before, after = float(first.usd_per_hour), float(last.usd_per_hour)
    if not series.has_history:
        return f"{name}: {format_exact_usd(after)}, quoted once ({last.as_of})"
    if len({price.usd_per_hour for price in series.quotations}) == 1:
        return f"{name}: {format_exact_usd(after)} from {first.as_of} to {last.as_of}"
    change = 100 * (after / before - 1)
    direction = f"{abs(change):.0f} % {'less' if change < 0 else 'more'}"
    return (
        f"{name}: {format_exact_usd(before)} ({first.as_of}), then "
        f"{format_exact_usd(after)} ({last.as_of}), {direction}"
    )


def _why_no_chart(series: Sequence[PriceSeries], undated: int) -> str:
    if not series:
        return f"{_quotations(undated)} without a date: nobody knows when the price held."
    if len(series) > 1:
        return "Each kind and region was quoted on one day only: a chart needs two."
    price = series[0].quotations[-1]
    return (
        f"{format_exact_usd(float(price.usd_per_hour))} an hour {price.get_kind_display().lower()} "
        f"in {price.region}, as of {price.as_of}: the only day with a price, so there is no "
        "history to draw yet."
    )


def _quotations(count: int) -> str:
    return f"{count} quotation{'' if count == 1 else 's'}"
