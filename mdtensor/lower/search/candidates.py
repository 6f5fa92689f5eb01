"""Schedules worth considering for a problem on a target, ranked by the cost model.

Where untuned calls and searches start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from mdtensor.errors import LoweringError
from mdtensor.lower.cpu.cost.cpu_cost import estimate
from mdtensor.lower.cpu.cpu_candidates import cpu_candidates
from mdtensor.lower.cpu.parallelism import best_division
from mdtensor.lower.gpu.candidates.gpu_candidates import misfit, ranked_on_gpu
from mdtensor.lower.gpu.candidates.pointwise_candidates import point_estimate, ranked_points
from mdtensor.lower.gpu.candidates.scan_candidates import ranked_scans, scan_estimate
from mdtensor.lower.gpu.candidates.scatter_candidates import ranked_scatters, scatter_estimate
from mdtensor.lower.gpu.cost.gpu_cost import gpu_estimate
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import operations
from mdtensor.lower.schedule.default_schedule import plain
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
    pause: Callable[[], None] | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> list[tuple[float, Schedule]]:
    """All candidates with their estimated seconds, the best first.

    On GPUs, where no more than `most` are asked for, those beyond may be missing. `pause` is called
    between candidates by a thread that should leave time to others. On processors there are no
    more candidates once `enough` says so.
    """
    if target.kind == "gpu":
        last = (0.0, gpu_schedule(problem, target))
        if general:
            return [last]
        rank = partial(ranked_on_gpu, most=most) if problem.contracted else ranked_points
        rank = ranked_scans if problem.scanned >= 0 else rank
        found = [*ranked_scatters(problem, target), *rank(problem, target)]
        return [*sorted(found, key=lambda pair: pair[0]), last]
    found: list[tuple[float, Schedule]] = []
    fits = partial(fits_scratch, problem, general=general)
    candidates = _short(problem, cpu_candidates(problem, target, general=general))
    for candidate in candidates if general else _in_turn(problem, candidates):
        if enough():
            break
        if pause is not None:
            pause()
        seconds, groups, schedule = best_division(
            problem, candidate, target, split_reductions, fits, general=general
        )
        if groups > 1 or fits(schedule):
            found.append((seconds, schedule))
    found.sort(key=lambda pair: pair[0])
    return found


def _short(problem: Problem, candidates: Iterator[Schedule]) -> Iterator[Schedule]:
    """Those in whose register tiles not too much is written out: compilers take long for that."""
    operator = () if problem.operator is None else problem.operator.results
    count = operations(*problem.scalar.results) + operations(*operator)
    for candidate in candidates:
        vectors = math.prod(candidate.registers) // candidate.width
        if count <= _FEW_OPERATIONS or vectors == 1 or vectors * count <= _MOST_OPERATIONS:
            yield candidate


def _in_turn(problem: Problem, candidates: Iterator[Schedule]) -> Iterator[Schedule]:
    """The same, and those whose groups scan in turn, once a scanned dim is divided."""
    for candidate in candidates:
        yield candidate
        if problem.scanned >= 0:
            yield replace(candidate, in_turn=True)


def estimated(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Seconds that a problem with fixed extents takes by a schedule, roughly."""
    if target.kind != "gpu":
        return estimate(problem, schedule, target)
    if schedule.resident and schedule.scatter:
        return scatter_estimate(problem, schedule, target)
    if schedule.resident and problem.scanned >= 0:
        return scan_estimate(problem, schedule, target)
    by_points = schedule.resident and not problem.contracted
    return (point_estimate if by_points else gpu_estimate)(problem, schedule, target)


def broken_rule(problem: Problem, schedule: Schedule, target: Target) -> str:
    """What keeps a schedule from running on a device, as far as is known; else an empty string."""
    if target.kind == "gpu":
        return misfit(problem, schedule, target)
    try:
        validate(problem, schedule)
    except LoweringError as error:
        return str(error)
    return ""


def gpu_schedule(problem: Problem, target: Target) -> Schedule:
    """A correct schedule for the GPU family: one point a work-item, blocks of up to 256."""
    base = plain(problem, "gpu")
    threads = [1] * len(problem.extents)
    parts = [1] * len(problem.extents)
    left = min(256, target.max_threads)
    for d in reversed(base.loop_order):
        extent = problem.extents[d].constant or 1 << 20
        threads[d] = min(left, 1 << (max(1, extent) - 1).bit_length())
        left //= threads[d]
        parts[d] = max(1, min(-(-extent // threads[d]), 1 << 16))
    shared = problem.contracted and problem.scanned < 0 and not problem.keeps_order
    if math.prod(threads) == 1 and shared:
        longest = base.reduce_order[-1]
        threads[longest] = min(256, target.max_threads)
    order = (*base.reduce_order, *base.loop_order)
    return replace(base, threads=tuple(threads), parts=tuple(parts), group_order=order)
