"""Candidates of all kinds for a problem on a GPU, ranked by the cost model."""

from __future__ import annotations

import math
from dataclasses import replace

from mdtensor.lower.gpu.base.device_limits import broken_limit
from mdtensor.lower.gpu.base.gpu_kind import GpuKind, Pairs
from mdtensor.lower.gpu.space.gpu_kinds import KINDS, kind_on_gpu
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target


def ranked_on_any_gpu(
    problem: Problem, target: Target, *, general: bool, most: int | None
) -> Pairs:
    """Candidates of all kinds with their estimated seconds, the best first.

    Those beyond `most` may be missing. For a `general` kernel there is but one.
    """
    last = (0.0, gpu_schedule(problem, target))
    if general:
        return [last]
    found: Pairs = []
    asked: set[object] = set()
    for kind in KINDS:
        if kind.candidates not in asked and kind.applies(problem, target):
            asked.add(kind.candidates)
            found += _ranked(kind, problem, target, most)
    return [*sorted(found, key=lambda pair: pair[0]), last]


def _ranked(kind: GpuKind, problem: Problem, target: Target, most: int | None) -> Pairs:
    """A kind's candidates, which may be of other kinds too, with their estimates."""
    if kind.best is not None:
        return kind.best(problem, target, most)
    found = kind.candidates(problem, target)
    return [(estimated_on_gpu(problem, schedule, target), schedule) for schedule in found]


def estimated_on_gpu(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a problem with fixed extents under a schedule."""
    return kind_on_gpu(problem, schedule).cost(problem, schedule, target)


def misfit(problem: Problem, schedule: Schedule, target: Target) -> str:
    """The device limit or rule that a schedule of any kind breaks; empty if it breaks none."""
    return broken_limit(problem, schedule, target, kind_on_gpu(problem, schedule).local)


def gpu_schedule(problem: Problem, target: Target) -> Schedule:
    """A correct default schedule for GPUs: one point a work-item, groups of up to 256."""
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
