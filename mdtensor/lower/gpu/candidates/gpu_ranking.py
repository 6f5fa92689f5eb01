"""Candidates of all kinds for a problem on a GPU, ranked by the cost model."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from mdtensor.lower.gpu.candidates.gpu_candidates import ranked_on_gpu
from mdtensor.lower.gpu.candidates.pointwise_candidates import point_estimate, ranked_points
from mdtensor.lower.gpu.candidates.scan_candidates import ranked_scans, scan_estimate
from mdtensor.lower.gpu.candidates.scatter_candidates import ranked_scatters, scatter_estimate
from mdtensor.lower.gpu.cost.gpu_cost import gpu_estimate
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target


def ranked_on_any_gpu(
    problem: Problem, target: Target, *, general: bool, most: int | None
) -> list[tuple[float, Schedule]]:
    """Candidates of all kinds with their estimated seconds, the best first.

    Those beyond `most` may be missing. For a `general` kernel there is but one.
    """
    last = (0.0, gpu_schedule(problem, target))
    if general:
        return [last]
    rank = partial(ranked_on_gpu, most=most) if problem.contracted else ranked_points
    rank = ranked_scans if problem.scanned >= 0 else rank
    found = [*ranked_scatters(problem, target), *rank(problem, target)]
    return [*sorted(found, key=lambda pair: pair[0]), last]


def estimated_on_gpu(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Seconds that a problem with fixed extents takes by a schedule, roughly."""
    if schedule.resident and schedule.scatter:
        return scatter_estimate(problem, schedule, target)
    if schedule.resident and problem.scanned >= 0:
        return scan_estimate(problem, schedule, target)
    by_points = schedule.resident and not problem.contracted
    return (point_estimate if by_points else gpu_estimate)(problem, schedule, target)


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
