"""GPU candidates for problems without a reduction, and their cost.

Neighbouring results are a work-item's, as many as one access moves; points along other dims share
what they read, from registers within a work-item and from the first cache within a group. What
lies across the results goes through local memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.codegen.memory.tile_accesses import lanes_along, nearest_dim
from mdtensor.lower.gpu.base.block_shapes import can_be_staged, kept_order
from mdtensor.lower.gpu.base.device_limits import broken_limit
from mdtensor.lower.gpu.base.gpu_cost import GROUP_START
from mdtensor.lower.gpu.streaming.plane_candidates import plane_candidates
from mdtensor.lower.gpu.streaming.plane_resources import streamed_bytes
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.problem import Problem, Read, Stream
from mdtensor.lower.problem.work import bytes_moved, operations
from mdtensor.lower.schedule.machine_model import GPU_LINE, WARP
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling, tilings_of
from mdtensor.specs import Target

_ITEMS = (128, 256)
_MOST_POINTS = 32  # of a work-item
_MOST_SPAN = 64  # of offsets along a dim; what lies further apart shares nothing
_SIDE = 32  # elements along each side of a tile that is turned
# The constants were fitted to some 860 times of eight computations on an H200; see docs/adr/0010.
# Parts of the bandwidth that the driver promises: of memory, of the cache behind all cores.
MEMORY, L2 = 0.786, 1.69
# Cycles of a core: of an access, of a line that one loads, of lines beyond two that a point stores.
ACCESS, LOADED_LINE, STORED_LINE = 1.98, 0.92, 7.0
INSTRUCTION, INSTRUCTIONS_OF_ITEM = 0.228, 60.0
EVERY_LINE = 0.3  # of the cycles of a line beyond two, for every line that is stored
NORM = 4.2  # how little of the shorter ones of these times hides behind the longest
REGISTERS_OF_POINT, REGISTERS_OF_ITEM = 3.25, 24
LATENCY, BASE, LAST_WAVE = 381e-9, 3.7e-6, 0.464
BLOCKS_OF_PART = (4, 8)
BLOCKS_OF_MARCH = (4, 8, 16, 32, 64)


def point_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid schedules for a problem with fixed extents and no reduction."""
    seen: set[Schedule] = set()
    planes = plane_candidates(problem, target) if _shares(problem) else ()
    for schedule in (*_flat(problem), *_turned(problem), *planes):
        if schedule not in seen and not broken_limit(problem, schedule, target, streamed_bytes):
            seen.add(schedule)
            yield schedule


def _flat(problem: Problem) -> Iterator[Schedule]:
    order = kept_order(problem)
    if not order:
        return
    along, others = order[-1], tuple(reversed(order[:-1]))[:2]
    lanes = max(lanes_of(dtype) for dtype in (*problem.outputs, *problem.inputs))
    chunks = dict.fromkeys((lanes, 2 * lanes, 4 * lanes, 2, 1))
    rows = list(itertools.product((1, 2, 4, 8), repeat=len(others)))
    for points, items, width, others_points in itertools.product(
        chunks, _ITEMS, (WARP, 2 * WARP, 4 * WARP, 8 * WARP), rows
    ):
        if width > items or points * math.prod(others_points) > _MOST_POINTS:
            continue
        registers = {along: points, **dict(zip(others, others_points, strict=True))}
        threads = _work_items(problem, order, registers, width, items)
        near = math.gcd(points, lanes)
        for lead in leads_of(problem, along, near):
            schedule = _schedule(problem, order, registers, threads, {along: near}, lead)
            yield schedule
            if others and registers.get(order[0], 1) <= 2:
                yield from _walking(schedule, order[0])
            if others and shares_along(problem, order[0]):
                yield from _marching(schedule, order[0])


def _walking(schedule: Schedule, d: int) -> Iterator[Schedule]:
    """Candidates whose groups compute several blocks along a dim, to share reads in L1."""
    for blocks in BLOCKS_OF_PART:
        parts = tuple(-(-n // blocks) if e == d else n for e, n in enumerate(schedule.parts))
        yield replace(schedule, parts=parts)


def _marching(schedule: Schedule, d: int) -> Iterator[Schedule]:
    """Candidates with register rotation, where a group computes many blocks along a dim."""
    if schedule.threads[d] > 1:
        return
    for blocks in BLOCKS_OF_MARCH:
        if blocks <= schedule.parts[d]:
            parts = tuple(-(-n // blocks) if e == d else n for e, n in enumerate(schedule.parts))
            yield replace(schedule, parts=parts, march=True)


def _shares(problem: Problem) -> bool:
    return any(shares_along(problem, d) for d in problem.kept)


def shares_along(problem: Problem, d: int) -> bool:
    """Whether nearby points along a dim read the same elements of a stream."""
    for number, stream in enumerate(problem.streams):
        stride = abs(stream.strides[d].constant or 0)
        reads = [read for read in problem.all_reads if read.stream == number]
        found = {as_index(read.offset).constant or 0 for read in reads if not read.computed}
        apart = {abs(one - other) for one in found for other in found if one != other}
        if stride and any(n % stride == 0 and n // stride <= _MOST_SPAN for n in apart):
            return True
    return False


def _work_items(
    problem: Problem, order: Sequence[int], registers: dict[int, int], width: int, items: int
) -> dict[int, int]:
    """Work-items along the dims; up to `width` along the last (contiguous) one."""
    threads: dict[int, int] = {}
    left = items
    for d in reversed(order):
        blocks = -(-problem.extent(d) // registers.get(d, 1))
        most = min(left, width) if d == order[-1] else left
        threads[d] = min(most, 1 << (blocks - 1).bit_length())
        left //= threads[d]
    return threads


def leads_of(problem: Problem, along: int, near: int) -> tuple[int, ...]:
    """Offsets of the first block before a dim's start that align some access.

    `near` is the number of neighbours along the dim that are a work-item's.
    """
    found = {0: None}
    reads = [r for r in problem.all_reads if problem.streams[r.stream].strides[along].constant == 1]
    writes = [w for w in problem.writes if w.strides[along].constant == 1]
    for access in (*writes, *reads):
        offset = as_index(access.offset).constant
        if offset is not None and near > 1:
            found[offset % near] = None
    return tuple(found)[:3]


def _turned(problem: Problem) -> Iterator[Schedule]:
    """Candidates that stage tiles of inputs contiguous across the results (transposes)."""
    order = kept_order(problem)
    if len(order) < 2:
        return
    along = order[-1]
    across = {
        nearest_dim(stream.strides): None
        for number, stream in enumerate(problem.streams)
        if can_be_staged(problem, number)
    }
    for d in across:
        if d in (-1, along):
            continue
        for points, rows in ((4, 1), (4, 2), (1, 4), (1, 8)):
            width = _SIDE // points
            threads = {along: width, d: max(1, 2 * _SIDE // rows)}
            registers = {along: points, d: rows}
            yield _schedule(problem, order, registers, threads, {along: points}, 0, staged_along=d)


def _schedule(
    problem: Problem,
    order: Sequence[int],
    registers: dict[int, int],
    threads: dict[int, int],
    chunks: dict[int, int],
    lead: int,
    staged_along: int = -1,
) -> Schedule:
    dims, along = problem.dims, order[-1]
    staged = tuple(
        "local"
        if staged_along >= 0
        and can_be_staged(problem, n)
        and nearest_dim(stream.strides) == staged_along
        else ""
        for n, stream in enumerate(problem.streams)
    )
    points = tuple(registers.get(d, 1) for d in dims)
    items = tuple(threads.get(d, 1) for d in dims)
    return Schedule(
        asm="gpu",
        parts=tuple(
            -(-(problem.extent(d) + (lead if d == along else 0)) // (points[d] * items[d]))
            for d in dims
        ),
        tiles=(0,) * len(dims),
        threads=items,
        registers=points,
        lane=-1,
        width=1,
        group_order=tuple(order),
        loop_order=tuple(order),
        reduce_order=(),
        staged=staged,
        tail="overlap",
        resident=True,
        chunks=tuple(chunks.get(d, 1) for d in dims),
        padding=tuple(1 if region else 0 for region in staged) if any(staged) else (),
        lead=tuple(lead if d == along else 0 for d in dims) if lead else (),
    )


# ---- costs ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """A warp's cost for its tile: instructions, L1 lines, bytes in flight."""

    instructions: float = 0.0
    lines: float = 0.0
    under_way: float = 0.0

    def __add__(self, other: _Work) -> _Work:
        return _Work(
            self.instructions + other.instructions,
            self.lines + other.lines,
            self.under_way + other.under_way,
        )


def point_estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a schedule without a reduction."""
    frame = Frame(problem, schedule, tilings_of(problem, schedule), {}, aligned=True)
    tilings, items = frame.tilings, math.prod(schedule.threads)
    points = math.prod(schedule.registers)
    groups = math.prod(t.parts.constant or 1 for t in tilings)
    blocks = math.prod(-(-(t.part.constant or 1) // t.block) for t in tilings)
    warps = -(-items // WARP)
    loaded, fetched = _Work(), 0.0
    for number, stream in enumerate(problem.streams):
        reads = [read for read in problem.all_reads if read.stream == number]
        if reads:
            memory = problem.inputs[stream.buffer]
            loaded += _accesses(frame, stream, reads, memory)
            fetched += _footprint(tilings, stream, reads) * memory.itemsize
    stored = _Work()
    for write in problem.writes:
        as_stream, as_read = Stream(write.buffer, write.strides), Read(0, write.offset)
        stored += _accesses(frame, as_stream, [as_read], problem.outputs[write.buffer])
    accesses = loaded.instructions + stored.instructions
    computed = points * operations(*problem.scalar.results)
    scattered = max(0.0, stored.lines - 2 * points) + EVERY_LINE * stored.lines
    each = groups * blocks * warps / target.cores / target.sustained_clock
    core = target.core
    by_registers = int(core.registers // (items * _registers(points)))
    busy = max(1, min(core.groups, core.threads // items, by_registers))
    under_way = loaded.under_way * warps * min(busy * target.cores, groups)
    rate = target.bandwidth * MEMORY
    if problem.streams:  # nothing waits for results to arrive
        rate = min(rate, under_way / LATENCY)
    terms = (
        bytes_moved(problem) / rate,
        groups * fetched / (target.bandwidth * L2),
        each * (loaded.lines * LOADED_LINE + scattered * STORED_LINE),
        each * accesses * ACCESS,
        each * (accesses + computed + INSTRUCTIONS_OF_ITEM) * INSTRUCTION,
    )
    seconds = sum(term**NORM for term in terms) ** (1 / NORM)
    rounds = max(1.0, groups / (busy * target.cores))
    return BASE + max(seconds * (1 + LAST_WAVE / rounds), groups * GROUP_START)


def _registers(points: int) -> float:
    """Estimated registers of a work-item."""
    return max(32, min(255, REGISTERS_OF_ITEM + REGISTERS_OF_POINT * points))


def _accesses(frame: Frame, stream: Stream, reads: Sequence[Read], memory: np.dtype) -> _Work:
    """A warp's cost of reading its tile's elements of a stream."""
    tilings = frame.tilings
    offsets = tuple([as_index(read.offset).constant or 0 for read in reads])
    walks = tuple(
        [
            (stride.constant, tiling.positions(tiling.register))
            for stride, tiling in zip(stream.strides, tilings, strict=True)
            if stride.constant
        ]
    )
    along = nearest_dim(stream.strides)
    lanes = lanes_along(frame, memory, stream.strides)
    phase = -tilings[along].lead if along >= 0 else 0
    elements, accesses = _elements_and_accesses(offsets, walks, lanes, phase)
    lines = _lines(frame, stream, memory.itemsize)
    return _Work(accesses, accesses * lines, elements * memory.itemsize * WARP)


@lru_cache(4096)
def _elements_and_accesses(
    offsets: tuple[int, ...], walks: tuple[tuple[int, tuple[int, ...]], ...], lanes: int, phase: int
) -> tuple[int, int]:
    """The number of distinct elements of some reads over a tile, and of accesses to them."""
    elements: set[int] = set()
    for offset in offsets:
        places = [offset]
        for step, positions in walks:
            places = [place + step * n for place in places for n in positions]
        elements.update(places)
    groups: dict[int, int] = {}
    for element in elements:
        number = (element + phase) // lanes
        groups[number] = groups.get(number, 0) + 1
    wide = sum(2 * count > lanes for count in groups.values())
    single = sum(count for count in groups.values() if 2 * count <= lanes)
    return len(elements), wide + single


def _lines(frame: Frame, stream: Stream, itemsize: int) -> float:
    """Cache lines that a warp touches with one access."""
    left, lines = WARP, 1.0
    for d in reversed(frame.schedule.loop_order):
        tiling = frame.tilings[d]
        lanes = min(left, tiling.threads)
        left = max(1, left // lanes)
        stride = abs(stream.strides[d].constant or 0)
        if lanes > 1 and stride:
            lines *= max(1.0, lanes * min(1.0, stride * tiling.near * itemsize / GPU_LINE))
    return lines


def _footprint(tilings: Sequence[DimTiling], stream: Stream, reads: Sequence[Read]) -> float:
    """Estimated elements of a stream that a group reads; nearby reads share them."""
    used = [(abs(s.constant or 0), t) for s, t in zip(stream.strides, tilings, strict=True)]
    used = sorted(((s, t) for s, t in used if s), key=lambda pair: -pair[0])
    steps = [_steps(as_index(read.offset).constant or 0, [s for s, _ in used]) for read in reads]
    spans = [max(along) - min(along) for along in zip(*steps, strict=True)]
    return math.prod(
        (t.part.constant or t.block) + min(span, _MOST_SPAN)
        for (_, t), span in zip(used, spans, strict=True)
    )


def _steps(offset: int, strides: Sequence[int]) -> list[int]:
    """An offset as a sum of whole strides, the largest first."""
    found: list[int] = []
    for stride in strides:
        step, offset = divmod(offset, stride)
        found.append(step)
    return found
