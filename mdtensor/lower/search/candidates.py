"""Candidate schedules of a problem on a target, ranked by the cost model.

Untuned calls and searches start from them. First calls on processors load no GPU modules.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import itemgetter

from mdtensor.errors import LoweringError
from mdtensor.lower.cpu.cost.cpu_cost import least_seconds
from mdtensor.lower.cpu.cpu_candidates import cpu_candidates
from mdtensor.lower.cpu.parallelism import best_division
from mdtensor.lower.kinds import kind_of
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import operations
from mdtensor.lower.schedule.rules.scratch_rules import fits_scratch
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# Of points that are never too many for a register tile, and of all points of a larger one.
_FEW_OPERATIONS, _MOST_OPERATIONS = 32, 512


def ranked(
    problem: Problem,
    target: Target,
    *,
    split_reductions: bool = True,
    general: bool = False,
    most: int | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> list[tuple[float, Schedule]]:
    """All candidates with their estimated seconds, the best first.

    Where no more than `most` are asked for, those beyond may be missing: on processors, candidates
    are estimated in the order of lower bounds, arithmetic and loads alone, until that many take
    less than the next bound. On processors there are no more candidates once
    `enough`, which is asked before each of them, says so.
    """
    if target.kind == "gpu":
        from mdtensor.lower.gpu.space.gpu_ranking import ranked_on_any_gpu

        return ranked_on_any_gpu(problem, target, general=general, most=most)
    fits = partial(fits_scratch, problem, general=general)
    candidates = _short(problem, cpu_candidates(problem, target, general=general))
    found: list[tuple[float, int, Schedule]] = []
    best: list[float] = []  # the least seconds, as many as are asked for, in order
    for least, place, candidate in _by_promise(
        candidates if general else _in_turn(problem, candidates),
        None if most is None else partial(least_seconds, problem, target=target, general=general),
    ):
        if enough() or (len(best) == most and best[-1] < least):
            break
        seconds, groups, schedule = best_division(
            problem, candidate, target, split_reductions, fits, general=general
        )
        if groups > 1 or fits(schedule):
            found.append((seconds, place, schedule))
            if most is not None:
                insort(best, seconds)
                del best[most:]
    found.sort(key=itemgetter(0, 1))
    return [(seconds, schedule) for seconds, _, schedule in found]


def _by_promise(
    candidates: Iterator[Schedule],
    least: Callable[[Schedule], float] | None,
) -> Iterable[tuple[float, int, Schedule]]:
    """Triples of lower bound in seconds, place and candidate, the least bound first.

    Where no bound is given, they come one by one in the order in which they are made.
    """
    if least is None:
        return ((0.0, place, candidate) for place, candidate in enumerate(candidates))
    bounds = [(least(candidate), n, candidate) for n, candidate in enumerate(candidates)]
    bounds.sort(key=itemgetter(0, 1))
    return bounds


def _short(problem: Problem, candidates: Iterator[Schedule]) -> Iterator[Schedule]:
    """Candidates without those whose unrolled register tiles take long to compile."""
    operator = () if problem.operator is None else problem.operator.results
    count = operations(*problem.scalar.results) + operations(*operator)
    for candidate in candidates:
        vectors = math.prod(candidate.registers) // candidate.width
        if count <= _FEW_OPERATIONS or vectors == 1 or vectors * count <= _MOST_OPERATIONS:
            yield candidate


def _in_turn(problem: Problem, candidates: Iterator[Schedule]) -> Iterator[Schedule]:
    """Candidates, each followed by its variant of a chained scan if the problem is a scan."""
    for candidate in candidates:
        yield candidate
        if problem.scanned >= 0:
            yield replace(candidate, in_turn=True)


def estimated(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a problem with fixed extents under a schedule."""
    return kind_of(problem, schedule).cost(problem, schedule, target)


def broken_rule(problem: Problem, schedule: Schedule, target: Target) -> str:
    """The rule or device limit that a schedule is known to break; "" if none."""
    if target.kind == "gpu":
        from mdtensor.lower.gpu.space.gpu_ranking import misfit

        return misfit(problem, schedule, target)
    try:
        validate(problem, schedule)
    except LoweringError as error:
        return str(error)
    return ""
