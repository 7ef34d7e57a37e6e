"""Which batch size and machine to take: fastest, cheapest, and the best trade-off.

Works on plain numbers. A winner is named only as far as the intervals allow: whatever cannot be
told apart from it is named beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# Below this rise of the time per example from one batch size to the next, it is noise.
JUMP_RATIO = 1.12


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to train one CNN to the end, with its 80 % interval.

    ``place`` names the machine or device; costs are ``None`` where there is no price.
    ``may_win`` is false for a machine that cannot be rented any more, ``may_win_on_cost`` also
    for a price without a date, and both for a batch that does not fit.
    """

    place: str
    batch_size: int
    seconds: float
    seconds_low: float
    seconds_high: float
    usd: float | None = None
    usd_low: float | None = None
    usd_high: float | None = None
    memory_mib: float | None = None
    may_win: bool = True
    may_win_on_cost: bool = True


@dataclass(frozen=True, slots=True)
class Pick:
    """A winner and what its interval cannot tell apart from it.

    ``equal_batch_sizes`` are those of the winner's own place, its own included;
    ``equal_places`` holds the best candidate of each other place, best first.
    """

    winner: Candidate
    equal_batch_sizes: tuple[int, ...]
    equal_places: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """The three answers for one CNN (``None`` where nothing may win) and the Pareto front.

    ``front`` goes from fast to cheap: whatever is not on it is beaten in both.
    """

    fastest: Pick | None
    cheapest: Pick | None
    trade_off: Pick | None
    front: tuple[Candidate, ...]


def advise(candidates: Sequence[Candidate]) -> Advice:
    """Compare the ways to train one CNN."""
    quick = [candidate for candidate in candidates if candidate.may_win]
    priced = [
        candidate for candidate in quick if candidate.may_win_on_cost and candidate.usd is not None
    ]
    front = pareto_front(priced)
    return Advice(
        fastest=_pick(quick, _seconds),
        cheapest=_pick(priced, _usd),
        trade_off=_pick(priced, _seconds_times_usd),
        front=front,
    )


def pareto_front(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The priced candidates that no other one equals or beats in both time and cost, fast first."""
    ordered = sorted(
        (candidate for candidate in candidates if candidate.usd is not None),
        key=lambda candidate: (candidate.seconds, _usd(candidate)[1], candidate.batch_size),
    )
    front: list[Candidate] = []
    for candidate in ordered:
        if not front or _usd(candidate)[1] < _usd(front[-1])[1]:
            front.append(candidate)
    return tuple(front)


def find_jumps(batch_sizes: Sequence[int], iteration_ms: Sequence[float | None]) -> set[int]:
    """The batch sizes that take clearly longer per example than the next smaller one.

    ``batch_sizes`` ascend; points without a time are passed over. Such jumps come from a change
    of algorithm, so the smaller batch size is the better choice.
    """
    known = [(size, ms) for size, ms in zip(batch_sizes, iteration_ms) if ms is not None]
    if len(known) < 2:
        return set()
    sizes = np.array([size for size, _ in known])
    per_example = np.array([ms for _, ms in known]) / sizes
    rises = per_example[1:] > JUMP_RATIO * per_example[:-1]
    return {int(size) for size in sizes[1:][rises]}


_Triple = tuple[float, float, float]


def _pick(
    candidates: Sequence[Candidate],
    measure: Callable[[Candidate], _Triple],
) -> Pick | None:
    if not candidates:
        return None
    winner = min(candidates, key=lambda candidate: _rank(candidate, measure))
    _, _, winner_high = measure(winner)
    within = [rival for rival in candidates if measure(rival)[0] <= winner_high]
    best_elsewhere: dict[str, Candidate] = {}
    for rival in sorted(within, key=lambda candidate: _rank(candidate, measure)):
        if rival.place != winner.place:
            best_elsewhere.setdefault(rival.place, rival)
    return Pick(
        winner=winner,
        equal_batch_sizes=tuple(
            sorted({rival.batch_size for rival in within if rival.place == winner.place})
        ),
        equal_places=tuple(best_elsewhere.values()),
    )


def _rank(
    candidate: Candidate, measure: Callable[[Candidate], _Triple]
) -> tuple[float, float, int, str]:
    # Where an input pipeline bounds them, many batch sizes take the same time: the cheaper one,
    # then the smaller one, is the better answer.
    usd = candidate.usd if candidate.usd is not None else float("inf")
    return (measure(candidate)[1], usd, candidate.batch_size, candidate.place)


def _seconds(candidate: Candidate) -> _Triple:
    return (candidate.seconds_low, candidate.seconds, candidate.seconds_high)


def _usd(candidate: Candidate) -> _Triple:
    usd = candidate.usd if candidate.usd is not None else float("inf")
    low = candidate.usd_low if candidate.usd_low is not None else usd
    high = candidate.usd_high if candidate.usd_high is not None else usd
    return (low, usd, high)


def _seconds_times_usd(candidate: Candidate) -> _Triple:
    """Time times cost: the least of it is where one per cent less time costs one per cent more.

    Scaling time (another number of epochs) or cost (another currency) does not move it.
    """
    seconds, usd = _seconds(candidate), _usd(candidate)
    return (seconds[0] * usd[0], seconds[1] * usd[1], seconds[2] * usd[2])
