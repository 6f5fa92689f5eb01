"""Schedules from rows of the store, validated, for a problem and for near shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar

from mdtensor.autotune.store.rows import TrialRow, WinnerRow
from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

R = TypeVar("R", TrialRow, WinnerRow)

Shaped: TypeAlias = tuple[WinnerRow, tuple[int, ...]]  # a winner and the extents of its problem

_MOST_DIGITS = 18  # of an extent
# Untuned calls take the winner of a shape whose extents are within this factor of theirs, unless
# the cost model expects it to take so many times what its own favourite does; of so many shapes.
NEAR, MARGIN, _TRIED = 2.0, 1.5, 3
# Where the favourite was measured for that shape, the winner is taken if it took so much longer.
CLEARLY_SLOWER = 1.05


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The winner of another shape of a structure, with its extents and their distance.

    The `distance` is the length of the vector of the extents' ratios, in powers of two; `farthest`
    is the greatest of them.
    """

    row: WinnerRow
    extents: tuple[int, ...]
    distance: float
    farthest: float


def with_schedules(problem: Problem, rows: Iterable[R]) -> Iterator[tuple[R, Schedule]]:
    """The rows whose schedules are valid for a problem, each with its schedule."""
    from mdtensor.lower.schedule.rules.valid import validate  # which calls do without

    for row in rows:
        try:
            schedule = Schedule.from_json(row.schedule)
            validate(problem, schedule)
        except LoweringError:
            continue
        yield row, schedule


def of_structure(form: re.Pattern[str], dims: int, rows: Iterable[WinnerRow]) -> list[Shaped]:
    """The winners of a structure's shapes with their extents; `form` matches the problem keys."""
    found: list[Shaped] = []
    for row in rows:
        if (match := form.fullmatch(row.problem)) is not None:
            numbers = match.groups()[:dims]
            if all(len(number) <= _MOST_DIGITS and int(number) > 0 for number in numbers):
                found.append((row, tuple(map(int, numbers))))
    return found


def nearest_first(problem: Problem, winners: Iterable[Shaped]) -> list[Neighbour]:
    """The winners of a problem's structure, sorted by the distance of their shapes."""
    own = [problem.extent(d) for d in problem.dims]
    found: list[Neighbour] = []
    for row, extents in winners:
        ratios = [abs(math.log2(a / b)) for a, b in zip(extents, own, strict=True)]
        found.append(Neighbour(row, extents, math.hypot(*ratios), max(ratios, default=0.0)))
    return sorted(found, key=lambda each: each.distance)


def within_reach(neighbours: Iterable[Neighbour]) -> list[Neighbour]:
    """The neighbours that untuned calls use: near and confirmed ones."""
    return [each for each in neighbours if each.farthest <= math.log2(NEAR) and each.row.confirmed]


def adapted_winners(
    problem: Problem, neighbours: Iterable[Neighbour], target: Target
) -> Iterator[tuple[Neighbour, Schedule]]:
    """Yields the neighbours whose schedules can be adapted to a problem, with the adapted ones."""
    from mdtensor.lower.search.adapted_schedule import adapted

    for each in neighbours:
        try:
            schedule = Schedule.from_json(each.row.schedule)
            made = adapted(problem, schedule, each.extents, target)
        except LoweringError:
            continue
        if made is not None:
            yield each, made


def near_schedule(
    problem: Problem,
    neighbours: Sequence[Neighbour],
    favourite: Schedule,
    seconds: float,
    target: Target,
    trials: Callable[[WinnerRow], Iterable[TrialRow]] = lambda _: (),
) -> Schedule | None:
    """The adapted winner of the nearest shape, if it is expected to beat the favourite.

    The cost model has this `favourite`, and gives it so many `seconds`. Where the near shape's
    `trials` have a schedule that fitted is the favourite, their times decide. Elsewhere the winner
    is taken unless the model expects far more of it. None where there is no such winner.
    """
    from mdtensor.lower.search.candidates import estimated

    for each, schedule in adapted_winners(problem, neighbours[:_TRIED], target):
        if estimated(problem, schedule, target) <= MARGIN * seconds:
            slower = _slowdown(problem, each, favourite, trials(each.row))
            return schedule if slower is None or slower >= CLEARLY_SLOWER else None
    return None


def _slowdown(
    problem: Problem, near: Neighbour, favourite: Schedule, trials: Iterable[TrialRow]
) -> float | None:
    """The time of a problem's favourite over that of the winner, both measured at a near shape.

    Of the winner's times, that of its trial and that of the turns which confirmed it, the longer
    counts. None where either schedule was not measured in the same search.
    """
    from mdtensor.lower.search.adapted_schedule import clamped, tiles_alike

    own = clamped(problem, favourite, tuple(map(problem.extent, problem.dims)))
    won: float | None = None
    found: list[float] = []
    for row in trials:
        if row.seconds is None or row.status != "ok":
            continue
        if row.schedule == near.row.schedule:
            won = max(row.seconds, near.row.seconds)
        with suppress(LoweringError):
            schedule = clamped(problem, Schedule.from_json(row.schedule), near.extents)
            if tiles_alike(schedule, own):
                found.append(row.seconds)
    return min(found) / won if found and won else None
