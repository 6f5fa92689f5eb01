"""GPU candidates that stream along a dim with prefetched planes, and their cost.

A group has whole rows where a block can hold them, so that what lies beside a block is read along
one side only. What counts most is how many bytes are on their way to all cores together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.gpu.base.block_shapes import kept_order
from mdtensor.lower.gpu.streaming.plane_resources import streamed_bytes
from mdtensor.lower.gpu.streaming.planes import Planes, marched_dim, plane_dim, planes_of
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import bytes_moved, operations
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import MOST_STAGES, Schedule
from mdtensor.lower.schedule.tiling import DimTiling, tilings_of
from mdtensor.specs import Target

# Points of a row, and neighbours among them; points across rows, and work-items along them.
_ALONG = ((1, 1), (2, 2), (4, 2))
_ROWS = ((2, 1), (4, 1), (6, 1), (8, 1), (2, 2), (4, 2), (1, 4), (2, 4))
_ALONG_RUNS = ((1, 1), (2, 2), (4, 4))
_ROWS_OF_RUNS = ((4, 1), (8, 1), (2, 2), (4, 2), (1, 4), (2, 4))
_MOST_ITEMS, _LEAST_ITEMS = 1024, 128  # of a group
# Of a group whose results leave in runs, which all its work-items show before they meet: others
# come to the best times too, but many of them are slow, and no rate tells which.
_MOST_ITEMS_OF_RUNS, _MOST_POINTS_OF_RUNS = 256, 8
_GROUPS = (1, 2, 4, 8, 16)  # that share the dim along which they march
_AT_ONCE = (1, 2, 4)  # groups of a core


@dataclass(frozen=True, slots=True)
class Rates:
    """Throughputs and overheads of schedules that stream along a dim.

    `memory` is the part of the bandwidth that the driver promises. `on_their_way` are the seconds
    of that bandwidth that are best on their way: fewer bytes wait, more are in each other's way;
    `too_few` and `too_many` are what is lost where there are half as many, and twice as many. A
    load from local memory and an instruction take so many cycles of a core; a block has `of_block`
    instructions besides. `last_wave` is what of the last wave of groups, which does not fill all
    cores, costs time.
    """

    memory: float
    on_their_way: float
    too_few: float
    too_many: float
    local_load: float
    instruction: float
    of_block: float
    last_wave: float


# Fitted to some 650 times of two stencils on an H200, and to 240 where results leave in runs, for
# which no work-item waits: see docs/adr/0018.
STORED = Rates(0.915, 1.32e-6, 0.18, 0.25, 1.1, 0.228, 60.0, 0.1)
IN_RUNS = Rates(0.96, 1.95e-6, 0.15, 0.1, 2.4, 0.38, 66.0, 0.18)
L2 = 6.8  # the bandwidth of the cache behind all cores, in that of memory
ODD_RESULTS = 1.12  # where no two results can be stored at once, since rows begin at odd places
FEWEST_GROUPS = 0.9  # of a core, below which the others cannot read as fast
BASE, NORM = 3.7e-6, 4.2
REGISTERS_OF_POINT, REGISTERS_OF_ITEM = 4, 24


def plane_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Candidates for a problem with fixed extents and no reduction; some exceed device limits."""
    yield from _candidates(problem, target, _ALONG, _ROWS, STORED)
    if target.bulk_copies and not _are_odd(problem):
        for schedule in _candidates(problem, target, _ALONG_RUNS, _ROWS_OF_RUNS, IN_RUNS):
            items, points = math.prod(schedule.threads), math.prod(schedule.registers)
            if items <= _MOST_ITEMS_OF_RUNS and points <= _MOST_POINTS_OF_RUNS:
                yield replace(schedule, results="local")


def _candidates(
    problem: Problem,
    target: Target,
    along: Sequence[tuple[int, int]],
    rows: Sequence[tuple[int, int]],
    rates: Rates,
) -> Iterator[Schedule]:
    d = plane_dim(problem)
    order = [e for e in kept_order(problem) if e != d]
    if len(order) < 2:
        return
    for (points, near), (lines, items), parts in itertools.product(along, rows, _GROUPS):
        if 4 * parts > problem.extent(d):
            continue
        for threads in _along(problem.extent(order[-1]), points, _MOST_ITEMS // items):
            registers = {order[-1]: points, order[-2]: lines}
            work_items = {order[-1]: threads, order[-2]: items}
            chunks = {order[-1]: near, order[-2]: lines}
            schedule = _schedule(problem, (d, *order), registers, work_items, chunks, parts)
            if threads * items >= _LEAST_ITEMS:
                for stages in _stages(problem, schedule, target, rates):
                    yield replace(schedule, stages=stages)


def _along(extent: int, points: int, most: int) -> tuple[int, ...]:
    """Candidate work-items along rows: a power of two, or as many as divide rows without a gap."""
    blocks = -(-extent // points)
    rounded = min(most, 1 << (blocks - 1).bit_length())
    is_whole = extent % points == 0 and blocks < min(most + 1, rounded)
    return (rounded, blocks) if is_whole else (rounded,)


def _stages(problem: Problem, schedule: Schedule, target: Target, rates: Rates) -> list[int]:
    """Numbers of stages that keep enough bytes in flight to use the bandwidth."""
    try:
        planes = planes_of(problem, schedule, tilings_of(problem, schedule))
    except LoweringError:
        return []
    groups = math.prod(schedule.parts)
    nbytes = sum(each.size * each.memory.itemsize for each in planes)
    wanted = target.bandwidth * rates.on_their_way / nbytes
    ahead = [wanted / min(groups, most * target.cores) for most in _AT_ONCE]
    found = {math.floor(n) + 1 + more for n in ahead for more in (0, 1)}
    return sorted(stages for stages in found if 2 <= stages <= MOST_STAGES)


def _schedule(
    problem: Problem,
    order: tuple[int, ...],
    registers: dict[int, int],
    threads: dict[int, int],
    chunks: dict[int, int],
    marches: int,
) -> Schedule:
    points = tuple(registers.get(e, 1) for e in problem.dims)
    items = tuple(threads.get(e, 1) for e in problem.dims)
    parts = [-(-problem.extent(e) // (points[e] * items[e])) for e in problem.dims]
    parts[order[0]] = marches
    return replace(
        plain(problem, "gpu"),
        parts=tuple(parts),
        threads=items,
        registers=points,
        chunks=tuple(chunks.get(e, 1) for e in problem.dims),
        group_order=order,
        loop_order=order,
        staged=("local",) * len(problem.streams),
        tail="overlap",
        resident=True,
        march=True,
        stages=2,
    )


def plane_estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a schedule that streams along a dim with prefetched planes."""
    rates = IN_RUNS if schedule.results else STORED
    tilings = tilings_of(problem, schedule)
    planes, d = planes_of(problem, schedule, tilings), marched_dim(schedule, tilings)
    groups = math.prod(t.parts.constant or 1 for t in tilings)
    blocks = tilings[d].part.constant or 1
    nbytes = [each.size * each.memory.itemsize for each in planes]
    spans = [each.last - each.first for each in planes]
    fetched = groups * sum(n * (blocks + span) for n, span in zip(nbytes, spans, strict=True))
    again = groups * sum(n * span for n, span in zip(nbytes, spans, strict=True)) / 4
    busy = min(max(1, _groups_of_core(problem, schedule, target)), groups / target.cores)
    on_way = busy * target.cores * (schedule.stages - 1) * sum(nbytes)
    filled = on_way / (target.bandwidth * rates.on_their_way)
    moved = (bytes_moved(problem) + again) / (target.bandwidth * rates.memory)
    moved += fetched / (target.bandwidth * L2)
    lost = rates.too_few * (1 / filled - 1) if filled < 1 else rates.too_many * (filled - 1)
    moved *= 1 + lost
    moved *= ODD_RESULTS if _are_odd(problem) else 1
    moved *= max(1.0, FEWEST_GROUPS * target.cores / groups)
    warps = -(-math.prod(schedule.threads) // WARP)
    each = groups * blocks * warps / target.cores / target.sustained_clock
    points = math.prod(schedule.registers)
    loads = sum(_local_loads(problem, tilings, each_of, d) for each_of in planes)
    computed = points * (operations(*problem.scalar.results) + 1) + loads + rates.of_block
    terms = (moved, each * loads * rates.local_load, each * computed * rates.instruction)
    seconds = sum(term**NORM for term in terms) ** (1 / NORM)
    waves = groups / (target.cores * max(1, _groups_of_core(problem, schedule, target)))
    idle = math.ceil(waves) / waves - 1 if waves > 1 else 0.0
    return BASE + seconds * (1 + rates.last_wave * idle)


def _are_odd(problem: Problem) -> bool:
    """Whether rows of results start at misaligned addresses."""
    steps = [as_index(write.offset) for write in problem.writes]
    steps += [s for write in problem.writes for s in write.strides if s.constant != 1]
    return any((step.constant or 0) % 2 for step in steps)


def _groups_of_core(problem: Problem, schedule: Schedule, target: Target) -> int:
    """Groups resident on a core at one time (occupancy)."""
    items = math.prod(schedule.threads)
    held = REGISTERS_OF_ITEM + REGISTERS_OF_POINT * math.prod(schedule.registers)
    return min(
        target.core.groups,
        target.core.threads // items,
        target.core.registers // (items * max(32, min(255, held))),
        target.l1_bytes // (streamed_bytes(problem, schedule) + target.core.reserved_bytes),
    )


def _local_loads(problem: Problem, tilings: Sequence[DimTiling], planes: Planes, d: int) -> int:
    """A work-item's loads from local memory per block, in elements."""
    stream = problem.streams[planes.stream]
    elements: set[int] = set()
    for read in problem.all_reads:
        if read.stream == planes.stream:
            places = [as_index(read.offset).constant or 0]
            for stride, tiling in zip(stream.strides, tilings, strict=True):
                steps = [(stride.constant or 0) * n for n in tiling.positions(tiling.register)]
                places = [place + step for place in places for step in steps]
            elements.update(places)
    step = stream.strides[d].constant or 0
    return sum(element + step not in elements for element in elements)
