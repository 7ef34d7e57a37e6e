"""The three answers of a forecast in words: fastest, cheapest, best trade-off, for each CNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarking.models import Machine
from predictions.advice import Advice, Candidate, Pick, advise
from predictions.display import (
    EN_DASH,
    format_duration,
    format_duration_range,
    format_usd,
    format_usd_range,
    listed,
    relative_error,
)
from predictions.rows import Forecast, ForecastRow, Series

MAX_NAMED_EQUALS = 2


@dataclass(frozen=True, slots=True)
class Card:
    """One answer; ``place`` is empty where nothing may win, and ``why`` then says why not."""

    title: str
    why: str
    place: str = ""
    batch_size: int | None = None
    figure: str = ""
    interval: str = ""
    other_figure: str = ""
    row: ForecastRow | None = None
    equal_batch_sizes: tuple[int, ...] = ()
    equal_places: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The answer as the API gives it: the winning row, its equals, and why."""
        return {
            "row": self.row.to_json() if self.row else None,
            "equal_batch_sizes": list(self.equal_batch_sizes),
            "equal_places": list(self.equal_places),
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """The three cards of one CNN, what was compared, and the advice they put into words."""

    architecture: str
    cards: tuple[Card, Card, Card]
    candidates: tuple[Candidate, ...]
    advice: Advice
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The three answers and the Pareto front, from fast to cheap, as the API gives them."""
        fastest, cheapest, trade_off = self.cards
        return {
            "architecture": self.architecture,
            "fastest": fastest.to_json(),
            "cheapest": cheapest.to_json(),
            "trade_off": trade_off.to_json(),
            "front": [
                {
                    "place": candidate.place,
                    "batch_size": candidate.batch_size,
                    "total_seconds": candidate.seconds,
                    "total_cost_usd": candidate.usd,
                }
                for candidate in self.advice.front
            ],
            "remarks": list(self.remarks),
        }


def make_answers(forecast: Forecast) -> list[Answer]:
    """One answer for each CNN of the query, in the order asked."""
    return [
        _answer(slug, [series for series in forecast.series if series.rows[0].architecture == slug])
        for slug in forecast.query.architectures
    ]


def candidates_of(series: Series) -> list[Candidate]:
    """The rows of one CNN in one place as advice compares them.

    A retired machine, a price without a date and a batch that may not fit win nothing.
    """
    machine = series.place.machine
    retired = machine is not None and machine.availability == Machine.Availability.RETIRED
    dated = series.price is not None and series.price.first_day is not None
    return [
        _candidate(row, series, may_win=not retired and series.is_safe(row), dated=dated)
        for row in series.answered
    ]


def _candidate(row: ForecastRow, series: Series, may_win: bool, dated: bool) -> Candidate:
    assert row.batch_size is not None and row.total_seconds is not None and row.source
    low, high = series.total_interval(row)
    usd = row.total_cost_usd
    return Candidate(
        place=series.label,
        device=series.place.device.slug,
        source=row.source,
        batch_size=row.batch_size,
        seconds=row.total_seconds,
        seconds_low=row.total_seconds * low,
        seconds_high=row.total_seconds * high,
        usd=usd,
        usd_low=None if usd is None else usd * low,
        usd_high=None if usd is None else usd * high,
        memory_mib=row.memory_mib,
        may_win=may_win,
        may_win_on_cost=may_win and dated,
    )


def _answer(slug: str, series: Sequence[Series]) -> Answer:
    candidates = tuple(candidate for one in series for candidate in candidates_of(one))
    advice = advise(candidates)
    # A machine may have the name of its device: with the same times, the machine has a price.
    machines_last = sorted(series, key=lambda one: one.place.machine is not None)
    by_label = {one.label: one for one in machines_last}
    return Answer(
        architecture=slug,
        cards=(
            _fastest_card(advice.fastest, by_label),
            _cheapest_card(advice.cheapest, by_label),
            _trade_off_card(advice, by_label),
        ),
        candidates=candidates,
        advice=advice,
        remarks=tuple(_remarks(series)),
    )


def _remarks(series: Sequence[Series]) -> list[str]:
    """What takes no part in the answers, and why."""
    retired = [
        one.label
        for one in series
        if one.place.machine
        and one.place.machine.availability == Machine.Availability.RETIRED
        and one.answered
    ]
    undated = [one.label for one in series if one.price and one.price.first_day is None]
    remarks = []
    if retired:
        remarks.append(f"{listed(retired)} can no longer be rented and wins nothing.")
    if undated:
        remarks.append(f"The price of {listed(undated)} has no date and wins nothing.")
    return remarks


def _fastest_card(pick: Pick | None, by_label: dict[str, Series]) -> Card:
    if pick is None:
        return Card("Fastest", "No machine here can be told a time. The rows below say why.")
    winner = pick.winner
    error = relative_error(winner.seconds, winner.seconds_low, winner.seconds_high)
    equals = [
        f"{rival.place} at {format_duration(rival.seconds, error)}" for rival in pick.equal_places
    ]
    return _card(
        "Fastest",
        pick,
        by_label,
        figure=format_duration(winner.seconds, error),
        interval=format_duration_range(winner.seconds_low, winner.seconds_high, error),
        other_figure=_cost_text(winner),
        why=" ".join(
            filter(None, [within_error(equals), _batch_reason(pick, by_label[winner.place])])
        ),
    )


def _cheapest_card(pick: Pick | None, by_label: dict[str, Series]) -> Card:
    if pick is None:
        return Card("Cheapest", "No dated price is known for these machines in this region.")
    winner = pick.winner
    error = relative_error(winner.seconds, winner.seconds_low, winner.seconds_high)
    equals = [f"{rival.place} at {format_usd(rival.usd, error)}" for rival in pick.equal_places]
    return _card(
        "Cheapest",
        pick,
        by_label,
        figure=format_usd(winner.usd, error),
        interval=format_usd_range(winner.usd_low, winner.usd_high, error),
        other_figure=format_duration(winner.seconds, error),
        why=" ".join(filter(None, [within_error(equals), _price_reason(by_label[winner.place])])),
    )


def _trade_off_card(advice: Advice, by_label: dict[str, Series]) -> Card:
    pick = advice.trade_off
    if pick is None or advice.fastest is None:
        return Card("Best trade-off", "It takes a time and a dated price to weigh them.")
    winner = pick.winner
    error = relative_error(winner.seconds, winner.seconds_low, winner.seconds_high)
    return _card(
        "Best trade-off",
        pick,
        by_label,
        figure=f"{format_duration(winner.seconds, error)} · {format_usd(winner.usd, error)}",
        interval=format_usd_range(winner.usd_low, winner.usd_high, error),
        other_figure="",
        why=_trade_off_reason(winner, advice.fastest.winner, advice.cheapest),
    )


def _card(
    title: str,
    pick: Pick,
    by_label: dict[str, Series],
    *,
    figure: str,
    interval: str,
    other_figure: str,
    why: str,
) -> Card:
    winner = pick.winner
    rows = by_label[winner.place].answered
    return Card(
        title=title,
        why=why,
        place=winner.place,
        batch_size=winner.batch_size,
        figure=figure,
        interval=interval,
        other_figure=other_figure,
        row=next(row for row in rows if row.batch_size == winner.batch_size),
        equal_batch_sizes=pick.equal_batch_sizes,
        equal_places=tuple(rival.place for rival in pick.equal_places),
    )


def _cost_text(winner: Candidate) -> str:
    if winner.usd is None:
        return "no price known"
    error = relative_error(winner.seconds, winner.seconds_low, winner.seconds_high)
    return format_usd(winner.usd, error)


def within_error(equals: Sequence[str]) -> str:
    """What the intervals cannot tell apart from a winner, as a sentence; empty for nothing."""
    if not equals:
        return ""
    named = list(equals[:MAX_NAMED_EQUALS])
    if len(equals) > MAX_NAMED_EQUALS:
        named.append(f"{len(equals) - MAX_NAMED_EQUALS} more")
    return f"Or {listed(named)}: the same within the error."


def _batch_reason(pick: Pick, series: Series) -> str:
    """Why this batch size: what lies within the error, the next jump, the end of memory."""
    size = pick.winner.batch_size
    parts = []
    first, last = _equal_run(pick, series)
    if first < last:
        parts.append(f"batch sizes {first} {EN_DASH} {last} are the same within the error")
    later_jumps = [jump for jump in series.jumps if jump > size]
    if later_jumps:
        parts.append(f"time per example jumps up at {min(later_jumps)}")
    if series.largest_batch is not None and series.largest_batch < 4 * size:
        parts.append(f"memory ends at {series.largest_batch}")
    if not parts:
        return "No other batch size here is as fast."
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _equal_run(pick: Pick, series: Series) -> tuple[int, int]:
    """The first and last of the neighbouring batch sizes that are the same within the error."""
    sizes = [row.batch_size for row in series.answered if row.batch_size is not None]
    first = last = sizes.index(pick.winner.batch_size)
    while first > 0 and sizes[first - 1] in pick.equal_batch_sizes:
        first -= 1
    while last + 1 < len(sizes) and sizes[last + 1] in pick.equal_batch_sizes:
        last += 1
    return sizes[first], sizes[last]


def _price_reason(series: Series) -> str:
    machine, price = series.place.machine, series.price
    if machine is None or price is None:
        return ""
    if price.notional:
        return "Its price is notional: that of a comparable machine."
    if machine.device_count > 1:
        return f"Uses 1 of {machine.device_count} GPUs; you pay for all {machine.device_count}."
    return "Least money for the whole training, at any batch size."


def _trade_off_reason(winner: Candidate, fastest: Candidate, cheapest: Pick | None) -> str:
    if (winner.place, winner.batch_size) == (fastest.place, fastest.batch_size):
        same = cheapest is not None and cheapest.winner == winner
        return (
            "Both the fastest and the cheapest."
            if same
            else "The fastest; anything cheaper loses more time than it saves money."
        )
    slower = winner.seconds / fastest.seconds - 1
    text = (
        f"{100 * slower:.0f} % slower than the fastest"
        if slower >= 0.005
        else "As fast as the fastest"
    )
    if winner.usd is not None and fastest.usd:
        text += f" for {100 * winner.usd / fastest.usd:.0f} % of its cost"
    return f"{text}."
