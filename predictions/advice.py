"""Which batch size and machine to take: fastest, cheapest, and the best trade-off.

Works on plain numbers. A winner is named only as far as the intervals allow: whatever cannot be
told apart from it is named beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

# Below this rise of the time per example from one batch size to the next, it is noise.
JUMP_RATIO = 1.12

# Forecasts of one CNN on one device are wrong in much the same way at every batch size. So far may
# the ratio of two of them be off: natural logarithm, and more of it for each doubling between the
# batch sizes. 80 % of the ratios lay within on CNNs, for estimates on devices, that were left out
# (regression/ratio_errors.py, docs/method.md). What is measured shares no error.
RATIO_ERRORS = {
    "benchmark+regression": (0.04, 0.01),
    "interpolated": (0.04, 0.01),
    "estimated": (0.01, 0.09),
}

# How much machines with one device differ at the same batch size: what processes differ by.
MACHINE_VARIATION = 1.05

# What is compared, from seconds and US dollars.
_Measure = Callable[[float, float], float]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to train one CNN to the end, with its 80 % interval.

    ``place`` names the machine or device, ``device`` what does the work there, ``source`` where
    the time comes from; costs are ``None`` where there is no price.
    ``may_win`` is false for a machine that cannot be rented any more, ``may_win_on_cost`` also
    for a price without a date, and both for a batch that does not fit.
    """

    place: str
    device: str
    source: str
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

    @property
    def basis(self) -> tuple[tuple[str, str], ...]:
        """What its error comes from; candidates with the same have it in common."""
        return ((self.device, self.source),)


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


class Measured(Protocol):
    """What can be compared by time and cost: one training, or several one after the other."""

    @property
    def place(self) -> str: ...
    @property
    def basis(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def seconds_low(self) -> float: ...
    @property
    def seconds_high(self) -> float: ...
    @property
    def usd(self) -> float | None: ...
    @property
    def usd_low(self) -> float | None: ...
    @property
    def usd_high(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Together:
    """All CNNs of a comparison in one place, one after the other, each at its best batch size.

    ``parts`` holds each CNN's candidate, in the order of the comparison. The ends of the interval
    are the sums of the parts' ends: errors on one device are much alike.
    """

    place: str
    parts: tuple[Candidate, ...]

    @property
    def basis(self) -> tuple[tuple[str, str], ...]:
        """What the parts' errors come from."""
        return tuple(basis for part in self.parts for basis in part.basis)

    @property
    def seconds(self) -> float:
        """Time of all trainings."""
        return sum(part.seconds for part in self.parts)

    @property
    def seconds_low(self) -> float:
        """Low end of the time."""
        return sum(part.seconds_low for part in self.parts)

    @property
    def seconds_high(self) -> float:
        """High end of the time."""
        return sum(part.seconds_high for part in self.parts)

    @property
    def usd(self) -> float | None:
        """Cost of all trainings; ``None`` where one of them has no price."""
        return _sum_or_none([part.usd for part in self.parts])

    @property
    def usd_low(self) -> float | None:
        """Low end of the cost."""
        return _sum_or_none([part.usd_low for part in self.parts])

    @property
    def usd_high(self) -> float | None:
        """High end of the cost."""
        return _sum_or_none([part.usd_high for part in self.parts])


@dataclass(frozen=True, slots=True)
class JointPick:
    """One place for all CNNs, and the places that the intervals cannot tell apart from it."""

    winner: Together
    equal_places: tuple[Together, ...]


@dataclass(frozen=True, slots=True)
class JointAdvice:
    """The one place for all CNNs; each ``None`` where no place has an answer for every CNN."""

    fastest: JointPick | None
    cheapest: JointPick | None
    trade_off: JointPick | None


def advise_together(candidates_of_cnns: Sequence[Sequence[Candidate]]) -> JointAdvice:
    """Compare places for training all CNNs, one after the other.

    Which CNN is cheapest says nothing, for they do not learn the same: what can be compared over
    CNNs is where to train all of them. Only places count in which every CNN may win.
    """
    quick = _together(candidates_of_cnns, lambda candidate: candidate.may_win)
    priced = _together(
        candidates_of_cnns,
        lambda candidate: (
            candidate.may_win and candidate.may_win_on_cost and candidate.usd is not None
        ),
    )
    return JointAdvice(
        fastest=_joint_pick(quick, _seconds),
        cheapest=_joint_pick(priced, _usd),
        trade_off=_joint_pick(priced, _seconds_times_usd),
    )


def _together(
    candidates_of_cnns: Sequence[Sequence[Candidate]], may_win: Callable[[Candidate], bool]
) -> list[Together]:
    # In one place the fastest batch size is the cheapest too: a price is one for an hour.
    best_of_cnns = [
        _best_of_places([candidate for candidate in candidates if may_win(candidate)])
        for candidates in candidates_of_cnns
    ]
    first = best_of_cnns[0] if best_of_cnns else {}
    return [
        Together(place, tuple(best[place] for best in best_of_cnns))
        for place in first
        if all(place in best for best in best_of_cnns)
    ]


def _best_of_places(candidates: Sequence[Candidate]) -> Mapping[str, Candidate]:
    best: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda one: _rank(one, _seconds)):
        best.setdefault(candidate.place, candidate)
    return best


def _joint_pick(places: Sequence[Together], measure: _Measure) -> JointPick | None:
    if not places:
        return None
    winner, *others = sorted(places, key=lambda one: (_value(one, measure), one.place))
    return JointPick(
        winner,
        tuple(one for one in others if _is_equal(one, winner, measure, MACHINE_VARIATION)),
    )


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
        key=lambda candidate: (candidate.seconds, _usd_of(candidate), candidate.batch_size),
    )
    front: list[Candidate] = []
    for candidate in ordered:
        if not front or _usd_of(candidate) < _usd_of(front[-1]):
            front.append(candidate)
    return tuple(front)


def find_jumps(batch_sizes: Sequence[int], iteration_ms: Sequence[float | None]) -> dict[int, int]:
    """The batch sizes that take clearly longer per example than the next smaller one, with that.

    ``batch_sizes`` ascend; points without a time are passed over. Such jumps come from a change
    of algorithm, so the smaller batch size is the better choice.
    """
    known = [(size, ms) for size, ms in zip(batch_sizes, iteration_ms) if ms is not None]
    return {
        size: smaller
        for (smaller, smaller_ms), (size, ms) in pairwise(known)
        if is_slower_per_example(size, ms, smaller, smaller_ms)
    }


def is_slower_per_example(size: int, ms: float, smaller: int, smaller_ms: float) -> bool:
    """Whether an iteration of ``size`` takes clearly longer per example than one of ``smaller``."""
    return ms / size > JUMP_RATIO * smaller_ms / smaller


def _pick(candidates: Sequence[Candidate], measure: _Measure) -> Pick | None:
    if not candidates:
        return None
    winner, *rivals = sorted(candidates, key=lambda candidate: _rank(candidate, measure))
    equals = [
        winner,
        *(
            rival
            for rival in rivals
            if _is_equal(rival, winner, measure, _shared_factor(rival, winner))
        ),
    ]
    best_elsewhere: dict[str, Candidate] = {}
    for equal in equals:
        if equal.place != winner.place:
            best_elsewhere.setdefault(equal.place, equal)
    return Pick(
        winner=winner,
        equal_batch_sizes=tuple(
            sorted({equal.batch_size for equal in equals if equal.place == winner.place})
        ),
        equal_places=tuple(best_elsewhere.values()),
    )


def _is_equal(rival: Measured, winner: Measured, measure: _Measure, shared: float) -> bool:
    """Whether nobody can say that ``rival`` is worse than ``winner``.

    Their intervals overlap, and where the errors of both have one origin, they differ by no more
    than the factor ``shared``, within which such forecasts differ among themselves.
    """
    if _low(rival, measure) > _high(winner, measure):
        return False
    if rival.basis != winner.basis:
        return True
    return measure(rival.seconds / shared, _usd_of(rival) / shared) <= _value(winner, measure)


def _shared_factor(rival: Candidate, winner: Candidate) -> float:
    """How far two candidates of one basis may differ by error alone."""
    if rival.place != winner.place:
        return MACHINE_VARIATION
    error, per_doubling = RATIO_ERRORS.get(winner.source, (math.inf, 0.0))
    doublings = abs(math.log2(rival.batch_size / winner.batch_size))
    return math.exp(error + per_doubling * doublings)


def _rank(candidate: Candidate, measure: _Measure) -> tuple[float, float, int, str]:
    # Where an input pipeline bounds them, many batch sizes take the same time: the cheaper one,
    # then the smaller one, is the better answer.
    usd = _usd_of(candidate)
    value = measure(candidate.seconds, usd)
    return (value, usd, candidate.batch_size, candidate.place)


def _sum_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _usd_of(one: Measured) -> float:
    return math.inf if one.usd is None else one.usd


def _value(one: Measured, measure: _Measure) -> float:
    return measure(one.seconds, _usd_of(one))


def _low(one: Measured, measure: _Measure) -> float:
    return measure(one.seconds_low, _usd_of(one) if one.usd_low is None else one.usd_low)


def _high(one: Measured, measure: _Measure) -> float:
    return measure(one.seconds_high, _usd_of(one) if one.usd_high is None else one.usd_high)


def _seconds(seconds: float, _usd: float) -> float:
    return seconds


def _usd(_seconds: float, usd: float) -> float:
    return usd


def _seconds_times_usd(seconds: float, usd: float) -> float:
    """Time times cost: the least of it is where one per cent less time costs one per cent more.

    Scaling time (another number of epochs) or cost (another currency) does not move it.
    """
    return seconds * usd
