"""Candidates for general GPU kernels, whose extents and strides are run-time values.

Their loads are of single elements, since strides that are names say nothing of alignment, and what
lies on borders is tested. They serve while a kernel with constants is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.lower.gpu.base.block_shapes import blocked
from mdtensor.lower.gpu.base.device_limits import broken_limit
from mdtensor.lower.gpu.scan.scan_candidates import scan_candidates
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# Points and work-items by rows and columns, elements of a reduction tile, work-items that share a
# reduction. Groups share those of the most work-items only: a second kernel combines their results,
# one by one.
_MOST_SHARING = 256
_BLOCKS = (
    ((4, 4), (16, 16), 16, 1),
    ((4, 4), (1, 2), 4, 32),
    ((1, 1), (8, 1), 4, 32),
    ((1, 1), (1, 1), 4, _MOST_SHARING),
)
_GROUPS_OF_CORE = 4  # that share reductions, where results are fewer
_ITEMS_OF_SCAN = 256


def general_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Candidates for the structure of a problem, in parts that suit this problem."""
    if problem.scanned >= 0:
        for schedule in scan_candidates(problem, target):
            if math.prod(schedule.threads) == _ITEMS_OF_SCAN and not schedule.splits(problem):
                yield schedule
        return
    if not problem.contracted:
        return
    for points, items, depth, sharing in _BLOCKS:
        if sharing > 1 and problem.keeps_order:
            continue
        schedule = blocked(problem, points, items, depth, sharing)
        try:
            validate(problem, schedule)
        except LoweringError:
            continue
        if broken_limit(problem, schedule, target):
            continue
        yield in_parts(problem, schedule, target)
        if sharing == _MOST_SHARING:
            split = replace(schedule, parts=_all_parts(problem, schedule))
            yield in_parts(problem, split, target)


def in_parts(problem: Problem, schedule: Schedule, target: Target) -> Schedule:
    """The schedule with its dims divided into parts that suit a problem.

    Kept dims are divided as far as there are blocks; reduced dims only where the schedule has them
    in parts, and as far as cores have nothing to do else.
    """
    blocks = [-(-problem.extent(d) // schedule.block(d)) for d in problem.dims]
    left = _GROUPS_OF_CORE * target.cores // math.prod(blocks[d] for d in problem.kept)
    parts = list(blocks)
    for d in problem.dims:
        if problem.reduced[d]:
            parts[d] = 1 if schedule.parts[d] == 1 else max(1, min(blocks[d], left))
            left //= parts[d]
    return replace(schedule, parts=tuple(parts))


def _all_parts(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """A schedule's parts, with 0 for the longest reduced dim, which may be split."""
    longest = max(problem.contracted, key=problem.extent)
    return tuple(0 if d == longest else p for d, p in enumerate(schedule.parts))
