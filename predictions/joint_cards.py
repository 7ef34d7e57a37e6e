"""Where to train all CNNs of a comparison, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from predictions.advice import JointPick, Together, advise_together
from predictions.cards import Answer, Card, within_error
from predictions.display import (
    format_duration,
    format_duration_range,
    format_usd,
    format_usd_range,
    listed,
    relative_error,
)

MAX_NAMED_CNNS = 4
NO_PLACE = "No machine here has an answer for every CNN."
NO_PRICE = "No machine here has a dated price and an answer for every CNN."


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """Three cards for all CNNs together, with the picks that they put into words."""

    architectures: tuple[str, ...]
    cards: tuple[Card, Card, Card]
    picks: tuple[JointPick | None, JointPick | None, JointPick | None]

    def to_json(self) -> dict[str, Any]:
        """The three places as the API gives them."""
        fastest, cheapest, trade_off = (
            self._place_json(card, pick) for card, pick in zip(self.cards, self.picks)
        )
        return {
            "architectures": list(self.architectures),
            "fastest": fastest,
            "cheapest": cheapest,
            "trade_off": trade_off,
        }

    def _place_json(self, card: Card, pick: JointPick | None) -> dict[str, Any]:
        winner = pick.winner if pick else None
        sizes = [part.batch_size for part in winner.parts] if winner else []
        return {
            "place": winner.place if winner else None,
            "total_seconds": winner.seconds if winner else None,
            "total_cost_usd": winner.usd if winner else None,
            "batch_sizes": dict(zip(self.architectures, sizes)),
            "equal_places": list(card.equal_places),
            "why": card.why,
        }


def make_joint_answer(answers: Sequence[Answer]) -> JointAnswer | None:
    """The one machine for all CNNs that were answered; ``None`` where there is only one CNN."""
    if len(answers) < 2:
        return None
    slugs = tuple(answer.architecture for answer in answers)
    advice = advise_together([answer.candidates for answer in answers])
    return JointAnswer(
        architectures=slugs,
        cards=(
            _card("Fastest for all", advice.fastest, slugs, NO_PLACE),
            _card("Cheapest for all", advice.cheapest, slugs, NO_PRICE),
            _card("Best trade-off for all", advice.trade_off, slugs, NO_PRICE),
        ),
        picks=(advice.fastest, advice.cheapest, advice.trade_off),
    )


def _card(title: str, pick: JointPick | None, slugs: Sequence[str], nothing: str) -> Card:
    if pick is None:
        return Card(title, nothing)
    winner = pick.winner
    time, cost = _time_text(winner), _cost_text(winner)
    time_range, cost_range = _ranges(winner)
    by_cost = title.startswith("Cheapest")
    equals = [
        f"{one.place} at {_cost_text(one) if by_cost else _time_text(one)}"
        for one in pick.equal_places
    ]
    sizes = [f"{slug} at batch {part.batch_size}" for slug, part in zip(slugs, winner.parts)]
    if len(sizes) > MAX_NAMED_CNNS:
        sizes[MAX_NAMED_CNNS:] = [f"{len(sizes) - MAX_NAMED_CNNS} more"]
    return Card(
        title=title,
        why=" ".join(filter(None, [within_error(equals), f"{listed(sizes)}."])),
        place=winner.place,
        figure=cost if by_cost else time,
        interval=cost_range if by_cost else time_range,
        other_figure=time if by_cost else cost,
        equal_places=tuple(one.place for one in pick.equal_places),
    )


def _error(winner: Together) -> float:
    return relative_error(winner.seconds, winner.seconds_low, winner.seconds_high)


def _time_text(winner: Together) -> str:
    return format_duration(winner.seconds, _error(winner))


def _cost_text(winner: Together) -> str:
    return "no price known" if winner.usd is None else format_usd(winner.usd, _error(winner))


def _ranges(winner: Together) -> tuple[str, str]:
    error = _error(winner)
    return (
        format_duration_range(winner.seconds_low, winner.seconds_high, error),
        format_usd_range(winner.usd_low, winner.usd_high, error),
    )
