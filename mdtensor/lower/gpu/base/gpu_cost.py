"""Cost model of schedules on GPUs, for ranking only.

The constants were fitted to some 2,400 measured schedules of contractions and reductions on an
H200, all with resident accumulators (docs/adr/0007 and 0015); of others it knows little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mdtensor.dataclass import dataclass
from mdtensor.lower.gpu.base.gpu_arithmetic import ALONE, MUCH, cycles_of_point
from mdtensor.lower.gpu.base.gpu_resources import (
    REGISTERS,
    WIDE,
    chunk_of,
    held_by,
    lies_as_source,
    read_by_steps,
    tile_elements,
)
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.problem.problem import Problem, Stream
from mdtensor.lower.problem.scatter_pattern import selection_of
from mdtensor.lower.schedule.machine_model import GPU_LINE, WARP
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import Target

# Instructions for a copy of 16 bytes, for one that is transposed through registers, and for the
# address of a stream's tile where several dims are reduced.
COPY, TURNED_COPY, TURN = 7.0, 20.0, 20.0
# Slow-down by register bank conflicts, as a fraction of the multiply-adds; where a row takes
# several steps in turn, only the first multiply-add of each row has one.
IN_ONE_BANK = 0.125
# Cycles of a core per wide load of a warp from local memory, per line loaded from global memory,
# and per line copied to local memory.
LOCAL_LOAD, LINE_LOAD, COPIED_LINE = 2.6, 1.1, 1.0
WIDE_LINES = 4.0  # lines that a wide load of a warp touches at least
# Fraction of the shorter of arithmetic, local and global loads that does not overlap the longest,
# with one warp per scheduler.
NOT_HIDDEN = 0.57
# Cycles of a step that one warp alone cannot hide: per local load, and in any case.
LOAD_OF_ONE_WARP, STEP = 0.6, 31.0
# Cycles per staged tile, per tile that is read where it is, of a tree's level, and of a group; per
# tile that was under way while others were computed with.
STAGED_TILE, DIRECT_TILE, LEVEL, GROUP = 507.0, 1810.0, 228.0, 3080.0
AWAITED_TILE = 120.0
POINT_OF_LEVEL = 0.1  # of a level, for each point that a work-item holds
LATENCY = 867e-9  # of global memory, seconds
# Accesses, of so many bytes, that a work-item has under way: at most, and where tiles are staged.
LOADS_AHEAD, COPIES_AHEAD, ACCESS_BYTES = 5.0, 4.0, 16
BASE, SECOND_KERNEL = 2.2e-6, 3.25e-6
GROUP_START = 0.6e-9  # seconds from the start of a group to that of the next
# Of a last group: until it has counted itself, and bytes of results that it combines a second.
COUNTING, COMBINED_BY_GROUP = 1.3e-6, 50e9
# Of a cluster, whose groups begin together: what that takes beyond counting them.
BEGIN_TOGETHER = 1e-6
# Fraction of min(arithmetic, memory traffic) that does not overlap the other with one group per
# core; n groups divide it by n ** GROUPS_APART.
NOT_MOVED, GROUPS_APART = 0.3, 0.3
# Contiguous bytes per warp below which stores slow down as (WRITTEN / bytes) ** SCATTERED; unstaged
# loads slow down as (GPU_LINE / bytes) ** READ_APART.
WRITTEN, SCATTERED, READ_APART = 64, 0.75, 0.5
STORES = 0.75  # of the bandwidth, for what is stored
AGAIN = 0.05  # of the bytes that groups read again, those that come from memory


@dataclass(frozen=True, slots=True)
class _Shape:
    """Numbers of a schedule: work-items, warps, groups, points, steps and tiles."""

    items: int
    warps: int
    groups: int
    points: int
    sharing: int
    steps: float
    tiles: float


def gpu_estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a reduction's schedule."""
    problem = schedule.computed(problem)
    shape = _shape(problem, schedule)
    on_core = _groups_on_core(problem, schedule, target, shape)
    busy = min(on_core, -(-shape.groups // target.cores))
    rounds = -(-shape.groups // (target.cores * busy))
    cycles = rounds * _cycles_of_group(problem, schedule, target.core.schedulers, shape, busy)
    computing = cycles / target.sustained_clock
    moving = _transfer(problem, schedule, target, shape, busy)
    longest, shortest = max(computing, moving), min(computing, moving)
    apart = NOT_MOVED / busy**GROUPS_APART
    return longest + apart * shortest + BASE + _combining_groups(problem, schedule)


def _copied_lines(problem: Problem, schedule: Schedule) -> float:
    """Cache lines that a group touches for its staged tiles.

    Where neighbours in memory lie along a dim of which the group has few points, there are many.
    """
    tilings, found = tilings_of(problem, schedule), 0.0
    for n, stream in enumerate(problem.streams[: problem.finish_streams]):
        if not schedule.staged[n]:
            continue
        elements, run = 1.0, 1
        for d in problem.dims:
            if stream.uses(d):
                length = tilings[d].part.constant or 1 if problem.reduced[d] else tilings[d].block
                elements *= min(length, problem.extent(d))
                if abs(stream.strides[d].constant or 0) == 1:
                    at_once = tilings[d].tile or length if problem.reduced[d] else length
                    run = max(run, min(at_once, problem.extent(d)))
        found += elements / min(run, GPU_LINE // problem.inputs[stream.buffer].itemsize)
    return found


def least_seconds(problem: Problem, schedule: Schedule, target: Target) -> float:
    """A lower bound of a schedule's seconds: one point per work-item and cycle.

    The dim of a problem that is scattered is not walked through.
    """
    selection = selection_of(problem) if schedule.scatter else None
    walked = [d for d in problem.dims if selection is None or d != selection.dim]
    points = math.prod(problem.extent(d) for d in walked)
    groups = math.prod(t.parts.constant or 1 for t in tilings_of(problem, schedule))
    at_once = min(
        groups * math.prod(schedule.threads), target.cores * WARP * target.core.schedulers
    )
    return points / at_once / target.clock


def _combining_groups(problem: Problem, schedule: Schedule) -> float:
    """Seconds for combining the partial results of groups that share a reduction."""
    parts = math.prod(schedule.parts[d] for d in problem.contracted)
    if parts == 1:
        return 0.0
    if not (schedule.last_group or schedule.cluster):
        return SECOND_KERNEL
    points = math.prod(-(-problem.extent(d) // schedule.parts[d]) for d in problem.kept)
    held = sum(register_dtype(t).itemsize for t in problem.scalar.result_dtypes)
    together = BEGIN_TOGETHER if schedule.cluster else 0.0
    return COUNTING + together + parts * points * held / COMBINED_BY_GROUP


def _shape(problem: Problem, schedule: Schedule) -> _Shape:
    tilings = tilings_of(problem, schedule)
    items = math.prod(schedule.threads)
    sharing = math.prod(schedule.threads[d] for d in problem.contracted)
    parts = (t.part.constant or 1 for d, t in enumerate(tilings) if problem.reduced[d])
    steps = math.prod(parts) / sharing
    at_once = math.prod(schedule.registers[d] for d in problem.contracted)
    if any(schedule.staged):
        lengths = (tilings[d].tile or tilings[d].part.constant or 1 for d in problem.contracted)
        at_once = math.prod(lengths)
    return _Shape(
        items,
        -(-items // WARP),
        math.prod(t.parts.constant or 1 for t in tilings),
        math.prod(schedule.registers[d] for d in problem.kept),
        sharing,
        steps,
        steps / at_once,
    )


def _groups_on_core(problem: Problem, schedule: Schedule, target: Target, shape: _Shape) -> int:
    core, (held, local) = target.core, held_by(problem, schedule)
    registers = max(32, min(REGISTERS, held)) * shape.warps * WARP
    return max(
        1,
        min(
            core.registers // registers,
            core.threads // (shape.warps * WARP),
            target.l1_bytes // (local + core.reserved_bytes),
            core.groups,
        ),
    )


def _cycles_of_group(
    problem: Problem, schedule: Schedule, schedulers: int, shape: _Shape, busy: int
) -> float:
    """Cycles of a group from start to end, with `busy` groups on its core."""
    warps = busy * shape.warps
    local = direct = 0.0
    for n, stream in enumerate(problem.streams[: problem.finish_streams]):
        loads, wide = _loads(problem, schedule, n)
        if schedule.staged[n]:
            local += loads
        elif any(stream.uses(d) for d in problem.contracted):  # others are read before the loops
            direct += loads * max(WIDE_LINES if wide else 1.0, _lines(problem, schedule, stream))
    a_point = cycles_of_point(problem)
    arithmetic = shape.points * a_point
    by_steps = read_by_steps(problem, schedule)
    if by_steps >= 0:
        rows = [schedule.registers[d] for d in problem.kept if problem.streams[by_steps].uses(d)]
        arithmetic *= (1 + math.prod(rows) / shape.points) / (1 + IN_ONE_BANK)
    parts = (
        arithmetic * max(ALONE if a_point > MUCH else 1.0, warps / schedulers),
        local * warps * LOCAL_LOAD,
        direct * warps * LINE_LOAD,
        _copied_lines(problem, schedule) / shape.steps * busy * COPIED_LINE,
    )
    apart = NOT_HIDDEN * schedulers / max(schedulers, warps)
    together = max(parts) + apart * (sum(parts) - max(parts))
    step = max(together, arithmetic + local * LOAD_OF_ONE_WARP + STEP)
    tile = STAGED_TILE if any(schedule.staged) else DIRECT_TILE
    if schedule.stages > 1:
        tile = AWAITED_TILE
    cycles = shape.steps * step + shape.tiles * tile / busy + GROUP
    if len(problem.contracted) > 1:
        cycles += shape.tiles * _copies(problem, schedule) * max(1.0, warps / schedulers)
    if shape.sharing > 1:
        cycles += LEVEL * math.log2(shape.sharing) * (1 + shape.points * POINT_OF_LEVEL)
    return cycles


def _copies(problem: Problem, schedule: Schedule) -> float:
    """Instructions by which a work-item copies one tile of every stream."""
    tilings, found = tilings_of(problem, schedule), 0.0
    for n, region in enumerate(schedule.staged):
        if region:
            own = tile_elements(problem, schedule, tilings, n) / math.prod(schedule.threads)
            strides = problem.streams[n].strides
            along = any(problem.reduced[d] and s.constant == 1 for d, s in enumerate(strides))
            turned = along and not lies_as_source(schedule, n)
            found += own / WIDE * (TURNED_COPY if turned else COPY) + TURN
    return found


def _loads(problem: Problem, schedule: Schedule, number: int) -> tuple[float, bool]:
    """A work-item's loads of a stream per step, and whether they are wide."""
    stream = problem.streams[number]
    own = math.prod(schedule.registers[d] for d in problem.kept if stream.uses(d))
    if number == read_by_steps(problem, schedule):
        wide = True
    elif schedule.staged[number]:
        kept = [d for d in problem.kept if stream.uses(d)]
        wide = any(chunk_of(schedule, d) >= 4 for d in kept or schedule.reduce_order[-1:])
    else:
        near = [d for d in problem.dims if stream.strides[d].constant == 1]
        wide = bool(near) and chunk_of(schedule, near[0]) >= 4 and problem.extent(near[0]) % 4 == 0
    return own / (4 if wide else 1), wide


def _lines(problem: Problem, schedule: Schedule, stream: Stream) -> float:
    """Cache lines that a warp touches with one load."""
    left, lines = WARP, 1.0
    itemsize = problem.inputs[stream.buffer].itemsize
    for d in reversed(_numbered(problem, schedule)):
        lanes = min(left, schedule.threads[d])
        left = max(1, left // lanes)
        if lanes > 1 and stream.uses(d):
            apart = abs(stream.strides[d].constant or GPU_LINE) * chunk_of(schedule, d) * itemsize
            lines *= max(1.0, lanes * min(1.0, apart / GPU_LINE))
    return lines


def _side_by_side(
    problem: Problem, schedule: Schedule, strides: Sequence[Index], itemsize: int
) -> int:
    """Contiguous bytes that a warp accesses at once, one line at most."""
    lanes, run = _lanes_of_warp(problem, schedule), 1
    for stride, d in sorted((abs(s.constant or 0), d) for d, s in enumerate(strides)):
        if stride == run:
            run *= min(lanes[d] * min(4, chunk_of(schedule, d)), problem.extent(d))
    return min(GPU_LINE, run * itemsize)


def _lanes_of_warp(problem: Problem, schedule: Schedule) -> list[int]:
    """Work-items of a warp along every dim."""
    if schedule.warp:
        return list(schedule.warp)
    lanes, left = [1] * len(problem.extents), WARP
    for d in reversed(_numbered(problem, schedule)):
        lanes[d] = min(left, schedule.threads[d])
        left = max(1, left // lanes[d])
    return lanes


def _numbered(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """The dims in the order in which work-items are numbered, the last one fastest."""
    kept, reduced = schedule.loop_order, schedule.reduce_order
    if schedule.group_order and problem.reduced[schedule.group_order[-1]]:
        return (*kept, *reduced)
    return (*reduced, *kept)


def _transfer(
    problem: Problem, schedule: Schedule, target: Target, shape: _Shape, busy: int
) -> float:
    """Seconds of memory traffic, limited by bandwidth or by the loads in flight."""
    total = direct = 0.0
    for n, stream in enumerate(problem.streams):
        own = math.prod(problem.extent(d) for d in problem.dims if stream.uses(d))
        again = math.prod(schedule.parts[d] for d in problem.kept if not stream.uses(d))
        itemsize = problem.inputs[stream.buffer].itemsize
        loaded = own * itemsize * (1 + (again - 1) * AGAIN)
        if not schedule.staged[n]:
            run = _side_by_side(problem, schedule, stream.strides, itemsize)
            loaded *= (GPU_LINE / run) ** READ_APART if again == 1 else 1.0
        total += loaded
        if n < problem.finish_streams and not schedule.staged[n]:
            direct += _loads(problem, schedule, n)[0]
    unrolled = math.prod(schedule.registers[d] for d in problem.contracted)
    ahead = min(LOADS_AHEAD, max(1.0, direct * unrolled / 2)) if direct else COPIES_AHEAD
    under_way = busy * min(target.cores, shape.groups) * shape.items * ACCESS_BYTES * ahead
    results = math.prod(problem.extent(d) for d in problem.kept)
    written = results * sum(problem.outputs[write.buffer].itemsize for write in problem.writes)
    parts = math.prod(schedule.parts[d] for d in problem.contracted)
    written *= 1 if parts == 1 else 2 * parts
    stored = (
        _side_by_side(problem, schedule, w.strides, problem.outputs[w.buffer].itemsize)
        for w in problem.writes
    )
    written *= max(1.0, WRITTEN / min(stored)) ** SCATTERED
    rate = min(target.bandwidth, under_way / LATENCY)
    return total / rate + written / (STORES * target.bandwidth)
