"""Abort conditions of a search, those of 002, section 5.6.1; `&` and `|` combine them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial

from mdtensor.dataclass import dataclass
from mdtensor.errors import TuningError


@dataclass(slots=True)
class Progress:
    """The progress of a search: seconds, and the best cost after each evaluation."""

    space_size: int
    elapsed: float = 0.0
    best: list[float] = field(default_factory=list[float])
    at: list[float] = field(default_factory=list[float])

    def add(self, cost: float, elapsed: float) -> None:
        """Add an evaluation; an invalid configuration costs infinity."""
        self.best.append(min(cost, self.best[-1] if self.best else math.inf))
        self.at.append(elapsed)
        self.elapsed = elapsed

    @property
    def evaluations(self) -> int:
        """The number of configurations evaluated."""
        return len(self.best)

    @property
    def cost(self) -> float:
        """The lowest cost so far; infinity before there is any."""
        return self.best[-1] if self.best else math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """An abort condition; `&` requires both of two, `|` either.

    Any function of a `Progress` can be one.

    >>> duration(minutes=10) | evaluations(500) & cost_reached(1e-3)
    (duration(600 s) | (evaluations(500) & cost_reached(0.001)))
    >>> Condition("forty and no better", lambda p: p.evaluations >= 40 and p.cost > 1)
    forty and no better
    """

    text: str
    holds: Callable[[Progress], bool]

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self} & {other})", partial(_hold, all, (self, other)))

    def __or__(self, other: Condition) -> Condition:
        return Condition(f"({self} | {other})", partial(_hold, any, (self, other)))

    def __repr__(self) -> str:
        return self.text


def duration(seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0) -> Condition:
    """Abort after a time; the evaluation under way is finished."""
    total = _positive(seconds + 60 * minutes + 3600 * hours, "a duration")
    return Condition(f"duration({total:g} s)", partial(_is_past, total))


def evaluations(count: int) -> Condition:
    """Abort after `count` evaluations, invalid configurations included."""
    most = _positive(count, "a number of evaluations")
    return Condition(f"evaluations({count})", partial(_is_counted, most))


def fraction(share: float) -> Condition:
    """Abort when this share of the space, in (0, 1], is evaluated."""
    if not 0 < share <= 1:
        raise TuningError(f"a fraction of a space lies in (0, 1], not {share!r}")
    text = f"fraction({share:g})"
    return Condition(text, partial(_is_shared, share))


def cost_reached(cost: float) -> Condition:
    """Abort when a configuration costs `cost` or less."""
    return Condition(f"cost_reached({cost:g})", partial(_is_cheap, cost))


def speedup(
    factor: float, *, seconds: float | None = None, evaluations: int | None = None
) -> Condition:
    """Abort when the last seconds, or evaluations, improved the best by less than `factor`.

    Nothing is lost before the first valid configuration is found.

    >>> progress = Progress(1000)
    >>> for cost in (9.0, 4.0, 3.9, 3.9): progress.add(cost, progress.elapsed + 1)
    >>> speedup(1.1, evaluations=2).holds(progress), speedup(1.1, evaluations=3).holds(progress)
    (True, False)
    """
    if (seconds is None) == (evaluations is None):
        raise TuningError(
            "a speed-up is lost over seconds or over evaluations",
            hint="speedup(1.05, seconds=30) or speedup(1.05, evaluations=50)",
        )
    if not 1 < factor < math.inf:
        raise TuningError(f"a speed-up is a factor above 1, not {factor!r}")
    if evaluations is not None:
        last = int(_positive(evaluations, "a number of evaluations"))
        text = f"speedup({factor:g}, {last} evaluations)"
        return Condition(text, partial(_is_lost_after, last, factor))
    span = _positive(seconds or 0.0, "a duration")
    return Condition(f"speedup({factor:g}, {span:g} s)", partial(_is_lost_within, span, factor))


# Functions of modules: unlike closures, they can be pickled.


def _hold(
    of: Callable[[Iterable[bool]], bool], conditions: Sequence[Condition], progress: Progress
) -> bool:
    return of(condition.holds(progress) for condition in conditions)


def _is_past(seconds: float, progress: Progress) -> bool:
    return progress.elapsed >= seconds


def _is_counted(count: float, progress: Progress) -> bool:
    return progress.evaluations >= count


def _is_shared(share: float, progress: Progress) -> bool:
    return progress.evaluations >= share * progress.space_size


def _is_cheap(cost: float, progress: Progress) -> bool:
    return progress.cost <= cost


def _is_lost_after(last: int, factor: float, progress: Progress) -> bool:
    return _lost(progress, progress.evaluations - last, factor)


def _is_lost_within(seconds: float, factor: float, progress: Progress) -> bool:
    return _lost(progress, bisect_right(progress.at, progress.elapsed - seconds), factor)


def _lost(progress: Progress, before: int, factor: float) -> bool:
    """Whether evaluations after the first `before` improved the best by less than `factor`."""
    if before <= 0 or progress.best[before - 1] == math.inf:
        return False
    # Nothing is better than no cost at all.
    return progress.best[before - 1] < factor * progress.cost or progress.cost == 0


def _positive(number: float, what: str) -> float:
    if not number > 0:
        raise TuningError(f"{what} is greater than 0, not {number!r}")
    return number
