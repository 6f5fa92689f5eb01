"""GPU candidates for prefix sums, and their cost.

Where elements along the scan are neighbours, warps lie along it, and groups share it if the other
dims are too few to keep the device busy. Where neighbours lie along another dim, warps lie there,
and some of them share the scan.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.codegen.scan.look_back import WINDOW
from mdtensor.lower.gpu.base.block_shapes import kept_order
from mdtensor.lower.gpu.base.device_limits import broken_limit
from mdtensor.lower.gpu.base.gpu_cost import GROUP_START
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import bytes_moved
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import Target

_MOST_POINTS = 64
_ITEMS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
MEMORY = 0.87  # of the bandwidth that the driver promises
APART = 0.3  # fraction of the shorter of moving and waiting that the longer one does not hide
REGISTERS_OF_ITEM = 28  # besides those of its points
# Seconds: of a launch, of loads and stores of a block, of a warp's turn in it, of looking back at
# all, and at one window.
BASE, BLOCK, TURN, LOOK_BACK, LOOK = 2.2e-6, 1.6e-6, 6e-9, 3e-6, 0.6e-6


def scan_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid cooperative schedules for a scan of fixed extents."""
    seen: set[Schedule] = set()
    beside = any(abs(w.strides[problem.scanned].constant or 0) == 1 for w in problem.writes)
    alone = not problem.kept
    for schedule in _along(problem, target) if beside or alone else _across(problem):
        if schedule not in seen and not broken_limit(problem, schedule, target):
            seen.add(schedule)
            yield schedule


def _along(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Candidates with warps along the scan."""
    d = problem.scanned
    extent = problem.extent(d)
    lanes = max(lanes_of(dtype) for dtype in (*problem.outputs, *problem.inputs))
    kept = kept_order(problem)
    for items, chunks in itertools.product(_ITEMS, (1, 2, 4, 8)):
        if chunks * lanes > _MOST_POINTS:
            continue
        block = items * chunks * lanes
        points = {d: (chunks * lanes, lanes)}
        if block < 2 * extent and items >= WARP:
            yield _schedule(problem, points, {d: items}, 1)
            if target.counts_groups and block < extent:
                yield _schedule(problem, points, {d: items}, -(-extent // block))
        rows = 256 // items
        if kept and rows > 1:
            threads = {d: items, kept[-1]: min(rows, problem.extent(kept[-1]))}
            yield _schedule(problem, points, threads, 1)


def _across(problem: Problem) -> Iterator[Schedule]:
    """Candidates with warps along the contiguous kept dim."""
    d, kept = problem.scanned, kept_order(problem)
    if not kept:
        return
    nearest = kept[-1]
    width = min(WARP, 1 << (problem.extent(nearest) - 1).bit_length())
    for sharing, points, columns in itertools.product((1, 2, 4, 8, 16, 32), (2, 4, 8, 16), (1, 4)):
        threads = {nearest: width, d: sharing}
        if max(sharing, points) > problem.extent(d):
            continue
        registers = {d: (points, points), nearest: (columns, columns)}
        yield _schedule(problem, registers, threads, 1, last=nearest)


def _schedule(
    problem: Problem,
    points: dict[int, tuple[int, int]],
    items: dict[int, int],
    parts: int,
    last: int = -1,
) -> Schedule:
    """A schedule from (points, chunk) and work-items per dim, and parts of the scan."""
    dims, d = problem.dims, problem.scanned
    registers = tuple(points.get(e, (1, 1))[0] for e in dims)
    threads = tuple(items.get(e, 1) for e in dims)
    kept = kept_order(problem)
    return Schedule(
        asm="gpu",
        parts=tuple(
            parts if e == d else -(-problem.extent(e) // (registers[e] * threads[e])) for e in dims
        ),
        tiles=(0,) * len(dims),
        threads=threads,
        registers=registers,
        lane=-1,
        width=1,
        group_order=(*kept, d) if last < 0 else (d, *kept),
        loop_order=kept,
        reduce_order=(d,),
        staged=("",) * len(problem.streams),
        resident=True,
        chunks=tuple(points.get(e, (1, 1))[1] for e in dims),
    )


def scan_estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a cooperative scan."""
    tilings, d = tilings_of(problem, schedule), problem.scanned
    items, points = math.prod(schedule.threads), math.prod(schedule.registers)
    groups = math.prod(t.parts.constant or 1 for t in tilings)
    part = tilings[d].part.constant or 1
    blocks = -(-part // tilings[d].block)
    words = sum(-(-register_dtype(t).itemsize // 4) for t in problem.scalar.result_dtypes)
    registers = max(32, min(255, REGISTERS_OF_ITEM + points * words))
    core = target.core
    busy = min(core.groups, core.threads // items, core.registers // (items * registers))
    busy = max(1, min(busy, -(-groups // target.cores)))
    rounds = -(-groups // (busy * target.cores))
    turns = tilings[d].threads // tilings[d].row
    block = BLOCK + TURN * (turns + busy * points * items / WARP / 2)
    wide = _wide(problem, schedule)
    moving = bytes_moved(problem) / (target.bandwidth * MEMORY * wide)
    waiting = rounds * blocks * block
    work = max(moving, waiting) + APART * min(moving, waiting)
    work = max(work, groups * GROUP_START)
    if not tilings[d].is_split:
        return BASE + work
    return BASE + LOOK_BACK + max(work, groups / WINDOW * LOOK)


def _wide(problem: Problem, schedule: Schedule) -> float:
    """The fraction of accessed cache lines that warps use."""
    used = 1.0
    for access in (*problem.streams, *problem.writes):
        near = [d for d in problem.dims if abs(access.strides[d].constant or 0) == 1]
        if near and schedule.threads[near[0]] * schedule.registers[near[0]] < 8:
            used = min(used, schedule.threads[near[0]] * schedule.registers[near[0]] / 8)
    return used
