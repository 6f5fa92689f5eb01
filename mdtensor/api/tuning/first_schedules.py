"""The schedules that a search measures first: winners of near shapes, and favourites."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.stored_schedules import adapted_winners, with_schedules
from mdtensor.api.tuning.favourites import favourites
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule

RANKED = {"cpu": 6, "gpu": 24}  # of the cost model's favourites, by kind of device
_HINTS, _NEIGHBOURS = 3, 3


def first_schedules(
    engine: Engine, problem: Problem, ranking: Sequence[tuple[float, Schedule]]
) -> list[Schedule]:
    """The schedules that a search begins with, without duplicates.

    Winners of other environments come first, then those of the nearest shapes, and then what the
    cost model favours.
    """
    hints = engine.store.hints(problem_key(problem), engine.environment)[:_HINTS]
    schedules = [schedule for _, schedule in with_schedules(problem, hints)]
    schedules += near_winners(engine, problem)
    schedules += favourites(ranking, RANKED[engine.target.kind])
    return list(dict.fromkeys(schedules))


def near_winners(engine: Engine, problem: Problem) -> list[Schedule]:
    """The winners of the nearest shapes of a structure, adapted to a problem; none on GPUs."""
    if engine.target.kind != "cpu":
        return []
    several = dict[Schedule, None]()
    for _, schedule in adapted_winners(problem, engine.neighbours(problem), engine.target):
        several[schedule] = None
        if len(several) == _NEIGHBOURS:
            break
    return list(several)
