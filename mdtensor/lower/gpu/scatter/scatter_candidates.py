"""GPU candidates for cooperative scatters, and their cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.gpu.base.block_shapes import kept_order
from mdtensor.lower.gpu.base.device_limits import broken_limit, part_counts
from mdtensor.lower.gpu.base.gpu_cost import BASE, SECOND_KERNEL
from mdtensor.lower.gpu.scatter.cooperative_scatter import LOCAL_BYTES, atomic_operations
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scatter_pattern import selected, selection_of
from mdtensor.lower.problem.work import bytes_moved
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import Target

_ITEMS = (128, 256, 512, 1024)
_CHUNKS = (1, 2, 4)
_GROUPS_OF_CORE = (1, 2, 4)
MEMORY = 0.87
# A cycle, where elements select points at random, by the most bytes that one combines. Those of 8
# are loops of comparing and exchanging, those of 4 one instruction, of which no times are known.
ATOMICS_OF_CORE = {4: 4.0, 8: 1.0}
# Times as long where more than 512 work-items of a group combine, or fewer than 1024 of a core.
MANY_ITEMS, FEW_ITEMS = 1.2, 1.2
LATENCY = 800e-9  # of global memory, seconds
ACCESS_BYTES, LOADS_AHEAD = 16, 2.0  # accesses that a work-item has under way


def can_scatter_together(problem: Problem) -> bool:
    """Whether work-items can combine into a copy in local memory by atomic operations."""
    selection = selection_of(problem)
    if selection is None or problem.keeps_order or problem.operator is None:
        return False
    held = sum(register_dtype(dtype).itemsize for dtype in problem.operator.dtypes)
    small = problem.extent(selection.dim) * held <= LOCAL_BYTES
    return small and bool(atomic_operations(problem.operator))


def scattered_dim(problem: Problem) -> int:
    """The reduced dim that work-items and groups share."""
    return max(problem.contracted, key=problem.extent)


def scatter_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid cooperative scatters for a problem with fixed extents; none for other problems."""
    selection = selection_of(problem)
    if selection is None or not can_scatter_together(problem):
        return
    longest = scattered_dim(problem)
    lanes = max(lanes_of(dtype) for dtype in problem.inputs)
    kept = kept_order(problem)
    others = math.prod(problem.extent(d) for d in kept if d != selection.dim)
    for items, chunks, groups in itertools.product(_ITEMS, _CHUNKS, _GROUPS_OF_CORE):
        most = min(problem.extent(longest), max(1, groups * target.cores // others))
        parts = max(n for n in part_counts(target) if n <= most)
        registers = tuple(chunks * lanes if d == longest else 1 for d in problem.dims)
        schedule = Schedule(
            asm="gpu",
            parts=tuple(
                parts
                if d == longest
                else 1
                if problem.reduced[d] or d == selection.dim
                else problem.extent(d)
                for d in problem.dims
            ),
            tiles=(0,) * len(problem.dims),
            threads=tuple(items if d == longest else 1 for d in problem.dims),
            registers=registers,
            lane=-1,
            width=1,
            group_order=(*kept, *problem.contracted),
            loop_order=kept,
            reduce_order=problem.contracted,
            staged=("",) * len(problem.streams),
            scatter=True,
            resident=True,
            chunks=tuple(lanes if d == longest else 1 for d in problem.dims),
        )
        if not broken_limit(problem, schedule, target):
            yield schedule


def scatter_estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a cooperative scatter."""
    items, tilings = math.prod(schedule.threads), tilings_of(problem, schedule)
    groups = math.prod(tiling.parts.constant or 1 for tiling in tilings)
    selection = selected(problem)
    elements = math.prod(problem.extent(d) for d in problem.dims if d != selection.dim)
    busy = min(target.core.threads // items, -(-groups // target.cores))
    under_way = busy * min(groups, target.cores) * items * ACCESS_BYTES * LOADS_AHEAD
    reading = bytes_moved(problem) / min(target.bandwidth * MEMORY, under_way / LATENCY)
    clock = target.sustained_clock
    assert problem.operator is not None
    most = max(register_dtype(dtype).itemsize for dtype in problem.operator.dtypes)
    combining = elements / (target.cores * ATOMICS_OF_CORE[most] * clock)
    combining *= MANY_ITEMS if items > 512 else 1.0
    combining *= FEW_ITEMS if busy * items < 1024 else 1.0
    points = problem.extent(selection.dim) * groups / target.cores / items
    return BASE + max(reading, combining) + SECOND_KERNEL + points * 4 / clock
