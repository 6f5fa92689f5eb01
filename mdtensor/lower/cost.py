"""The cost model: an estimate of a schedule's run time, from the target's facts alone.

It ranks schedules, so that an untuned call is good and a search starts near the best; it promises
no times. Per register tile it takes the slowest of arithmetic, loads and the latency of the
accumulators; per level of the memory hierarchy, the bytes that the loops around the largest
working set that fits must bring in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mdtensor.lower.index import as_index
from mdtensor.lower.problem import Problem, Stream
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.selection import selection_of
from mdtensor.specs import Target
from mdtensor.translate.scalar import Expr

# Cycles on a current core; what matters is their ratio.
LATENCY = 4.0
LOADS_PER_CYCLE = 2.0
GATHER_PER_ELEMENT = 0.8
LOOP_OVERHEAD = 1.0
SCATTER = 3.0
TILE_OVERHEAD = 12.0
SPILL = 2.0
# Bytes per cycle and core, from L2, L3 and main memory.
BYTES_PER_CYCLE = (32.0, 14.0, 9.0)
# Cycles per element that is staged.
VECTOR_COPY, SCALAR_COPY, FAR_COPY = 0.4, 1.5, 8.0
# Vector loads, of which some touch two lines of the cache, and those of which most do.
LOAD, CROSSING, CROWDED = 1.5, 2.0, 1.3
PAGE = 2048
LINE = 64
# Of the shorter of computing and waiting for memory, what does not hide behind the other; less
# where what is read at several places is asked for ahead. And the cycles of asking for a line:
# where every element is read once, processors fetch ahead as well by themselves.
APART, APART_AHEAD, ASKING = 0.3, 0.15, 1.0
# Vectors that each of the narrower ones costs that a peeled row has before and behind.
PEELED = 0.6
# A way of L1, how many there are, and what a load costs that finds its line pushed out.
WAY_BYTES, WAYS, CONFLICT = 4096, 8, 6.0
INLINE_LAUNCH = 1.5e-6
# Reducing the parts of a scan, of the time that the scan itself takes.
TOTALS_OF_SCAN = 0.5
GROUP_OVERHEAD = 0.4e-6


@dataclass(frozen=True, slots=True)
class Shape:
    """Numbers per dim that the model works with."""

    extents: tuple[int, ...]
    registers: tuple[int, ...]
    tiles: tuple[int, ...]
    parts: tuple[int, ...]


def estimate(
    problem: Problem, schedule: Schedule, target: Target, *, general: bool = False
) -> float:
    """Estimated seconds of a problem with fixed extents.

    `general` is for a kernel with run-time extents, which computes what is left of a dim in tiles
    of powers of two.
    """
    shape = _shape(problem, schedule)
    hertz = target.rate * 4 / target.vector_bytes
    if schedule.scatter:
        cycles = _scattering(problem, schedule, shape)
        transfer = bytes_moved(problem) / BYTES_PER_CYCLE[-1]
    else:
        cycles = _arithmetic(problem, schedule, target, shape, general)
        transfer = _memory(problem, schedule, target, shape)
    packing = _staging(problem, schedule, shape)
    apart = APART
    if schedule.ahead:
        moved = bytes_moved(problem)
        cycles += ASKING * moved / LINE
        apart = APART_AHEAD if moved > target.l2_bytes and reads_around(problem) else APART
    work = max(cycles, transfer) + apart * min(cycles, transfer) + packing
    groups = math.prod(shape.parts)
    if schedule.inline or groups == 1:
        launch = INLINE_LAUNCH if schedule.inline else target.launch_seconds
        return work / hertz + launch
    rounds = -(-groups // target.cores)
    seconds = work / hertz * rounds / groups + target.launch_seconds
    seconds += groups * GROUP_OVERHEAD / target.cores
    if not any(shape.parts[d] > 1 for d in problem.contracted):
        return seconds
    # The totals of groups are one more kernel; groups that scan read all elements once more.
    again = TOTALS_OF_SCAN * work / hertz * rounds / groups if problem.scanned >= 0 else 0.0
    return seconds + again + target.launch_seconds


def _shape(problem: Problem, schedule: Schedule) -> Shape:
    extents = tuple(problem.extent(d) for d in problem.dims)
    blocks = [schedule.registers[d] * schedule.threads[d] for d in problem.dims]
    parts: list[int] = []
    tiles: list[int] = []
    for d, extent in enumerate(extents):
        count = -(-extent // blocks[d])
        part = -(-count // max(1, schedule.parts[d])) * blocks[d]
        parts.append(-(-extent // part))
        tile = -(-schedule.tiles[d] // blocks[d]) * blocks[d]
        tiles.append(min(part, extent) if not tile or tile >= part else tile)
    return Shape(extents, tuple(schedule.registers), tuple(tiles), tuple(parts))


def operations(*exprs: Expr) -> int:
    """Number of different arithmetic operations in expressions that are computed together."""
    return sum(expr.op != "cast" for expr in _nodes(*exprs))


def _nodes(*exprs: Expr) -> set[Expr]:
    """The different operations in expressions, casts too."""
    found: set[Expr] = set()

    def visit(expr: Expr) -> None:
        if expr.args and expr not in found:
            found.add(expr)
            for arg in expr.args:
                visit(arg)

    for expr in exprs:
        visit(expr)
    return found


def _fused(nodes: set[Expr]) -> int:
    """How many of the operations are sums that take a product, which are one instruction with it.

    A sum takes one product, and products that several operations take are computed once.
    """
    taken = {
        next(arg for arg in expr.args if arg.op == "mul")
        for expr in nodes
        if expr.op in ("add", "sub") and expr.dtype.kind == "f"
        if any(arg.op == "mul" for arg in expr.args)
    }
    return len(taken)


def _per_point(problem: Problem) -> float:
    nodes = _nodes(*problem.scalar.results)
    count = sum(expr.op != "cast" for expr in nodes) - _fused(nodes)
    if problem.operator is None:
        return max(1.0, count)
    combining = operations(*(problem.operator.in_order or problem.operator.results))
    fused = problem.scalar.results[0].dtype.kind == "f" and problem.operator.name == "add"
    return max(1.0, count + combining - (min(count, combining) if fused else 0))


def _arithmetic(
    problem: Problem, schedule: Schedule, target: Target, shape: Shape, general: bool
) -> float:
    lane, width = schedule.lane, schedule.width
    itemsize = max(dtype.itemsize for dtype in problem.scalar.result_dtypes)
    per_vector = max(1.0, width * itemsize / target.vector_bytes)
    vectors = shape.registers[lane] // width if lane >= 0 else 1
    points = math.prod(shape.registers[d] for d in problem.kept if d != lane)
    unrolled = math.prod(shape.registers[d] for d in problem.contracted if d != lane)
    step = _step(problem, schedule, shape, points, vectors, per_vector)
    accumulators = points * vectors * per_vector * len(problem.scalar.results)
    spilled = accumulators + vectors * per_vector + 1 - target.vector_registers
    if spilled > 0:
        step += SPILL * spilled
    if problem.contracted:
        step = max(step, LATENCY / max(1, unrolled if accumulators < 1 else 1))
        step += LOOP_OVERHEAD / unrolled
    steps = 1.0
    for d in problem.contracted:
        extent, register = shape.extents[d], shape.registers[d]
        if d == lane:
            steps *= extent // register + (extent % register) / width * 0.6
            steps += extent % width * 0.5
        else:
            steps *= extent
    tiles = 1.0
    for d in problem.kept:
        tiles *= _tiles_along(d, lane, width, shape, schedule, general)
    finish = points * vectors * (1 if _writes_vectors(problem, lane) else width)
    if problem.scanned >= 0:
        steps, step = steps * _scan_step(problem, schedule, step, finish), 1.0
        finish = 0.0
    elif lane in problem.contracted:
        finish = points * (vectors + 14)
    passes = math.prod(-(-shape.extents[d] // shape.tiles[d]) for d in problem.contracted)
    finish = (finish + TILE_OVERHEAD) * passes * (1.5 if passes > 1 else 1.0)
    return tiles * (steps * step + finish)


def _scan_step(problem: Problem, schedule: Schedule, step: float, stores: float) -> float:
    """Cycles of one step of a scan, which waits for the one before and writes its result."""
    combining = 1.0
    if problem.operator is not None:
        combining = float(operations(*problem.operator.results))
    inside = 0.0
    if schedule.lane == problem.scanned:
        inside = 2.0 * math.log2(schedule.width) * combining
    return max(step + inside, LATENCY * combining) + stores


def _scattering(problem: Problem, schedule: Schedule, shape: Shape) -> float:
    """Cycles for going to a place in memory for every element, and for all copies of the places."""
    selection = selection_of(problem)
    assert selection is not None
    elements = math.prod(n for d, n in enumerate(shape.extents) if d != selection.dim)
    copies = math.prod(shape.registers[d] * shape.parts[d] for d in problem.contracted)
    places = math.prod(shape.extents[d] for d in problem.kept) * copies
    waiting = LATENCY / math.prod(shape.registers[d] for d in problem.contracted)
    return elements * (SCATTER + waiting) + places * 2.0


def _tiles_along(
    d: int, lane: int, width: int, shape: Shape, schedule: Schedule, general: bool
) -> float:
    extent, register = shape.extents[d], shape.registers[d]
    whole, rest = divmod(extent, register)
    if d == lane and schedule.peel:
        return whole + (math.log2(width) * PEELED + rest // width) / (register // width)
    if not rest:
        return whole
    if d != lane:
        if general:
            return whole + (rest).bit_count() * 0.6
        return whole + 0.3 + 0.7 * rest / register
    vectors = register // width
    pieces = rest // width
    if general:
        return whole + pieces + (rest % width).bit_count() * 0.8
    pieces += 1 if schedule.tail != "split" else (rest % width).bit_count()
    return whole + max(0.3, pieces / vectors)


def _writes_vectors(problem: Problem, lane: int) -> bool:
    return lane < 0 or all(write.strides[lane].constant == 1 for write in problem.writes)


def _step(
    problem: Problem,
    schedule: Schedule,
    shape: Shape,
    points: int,
    vectors: int,
    per_vector: float,
) -> float:
    """Cycles of one step of the reduction: arithmetic or loads, whichever takes longer."""
    lane = schedule.lane
    arithmetic = points * vectors * _per_point(problem) * per_vector
    loads = 0.0
    for number, stream in enumerate(problem.streams):
        count = _different_reads(problem, number, lane, shape)
        if lane < 0 or not stream.uses(lane):
            loads += count * (1 if schedule.staged[number] else _conflicts(problem, number, shape))
        elif stream.strides[lane].constant == 1 or schedule.staged[number]:
            loads += count * vectors * per_vector * _load_cycles(problem, schedule, number, shape)
        else:
            gathered = count * vectors * schedule.width * _conflicts(problem, number, shape)
            loads += gathered * GATHER_PER_ELEMENT * LOADS_PER_CYCLE
    return max(arithmetic, loads / LOADS_PER_CYCLE)


def _load_cycles(problem: Problem, schedule: Schedule, number: int, shape: Shape) -> float:
    """What a vector load costs, in loads of one line: those that shift by single lanes cross.

    Lines of rows that lie ways apart push each other out of the cache where they are many.
    """
    offsets = {
        as_index(read.offset).constant or 0 for read in problem.reads if read.stream == number
    }
    if len({offset % schedule.width for offset in offsets}) < 2:
        return LOAD
    itemsize = problem.inputs[problem.streams[number].buffer].itemsize
    cycles = LOAD + CROSSING * min(1.0, schedule.width * itemsize / LINE)
    strides = problem.streams[number].strides
    for d in problem.kept:
        stride = abs(strides[d].constant or 0)
        if d != schedule.lane and stride and stride * itemsize % WAY_BYTES == 0:
            rows = shape.registers[d] + (max(offsets) - min(offsets)) // stride
            cycles *= CROWDED if rows > WAYS else 1.0
    return cycles


def reads_around(problem: Problem) -> bool:
    """Whether points read a stream at several places, as those of a stencil do."""
    offsets = {(read.stream, read.offset) for read in problem.reads if not read.computed}
    return len(offsets) > len({stream for stream, _ in offsets})


def _different_reads(problem: Problem, number: int, lane: int, shape: Shape) -> int:
    """How many places of a stream the points of a register tile read, the lanes' apart.

    Points that are neighbours share what a stencil reads around them.
    """
    stream = problem.streams[number]
    places = {as_index(read.offset).constant for read in problem.reads if read.stream == number}
    dims = [d for d in problem.kept if d != lane and stream.uses(d) and shape.registers[d] > 1]
    if len(places) < 2:
        return len(places) * math.prod(shape.registers[d] for d in dims)
    found = {place or 0 for place in places}
    for d in dims:
        stride = stream.strides[d].constant or 0
        found = {place + n * stride for place in found for n in range(shape.registers[d])}
    return len(found)


def _conflicts(problem: Problem, number: int, shape: Shape) -> float:
    """How much longer loads take whose lines push each other out of L1.

    Lines whose addresses differ by a multiple of a way's size compete for the few ways of one set:
    rows of a matrix whose row length is a power of two, say.
    """
    stream = problem.streams[number]
    itemsize = problem.inputs[stream.buffer].itemsize
    worst = 1.0
    for d in problem.kept:
        stride = abs(stream.strides[d].constant or 0) * itemsize
        if stride >= 64:
            places = WAY_BYTES // math.gcd(stride, WAY_BYTES)
            if shape.registers[d] / places > WAYS - 1:
                worst = CONFLICT
    return worst


def _memory(problem: Problem, schedule: Schedule, target: Target, shape: Shape) -> float:
    """Cycles for the transfers into L1, L2 and L3."""
    levels = _nested_extents(problem, schedule, shape)
    footprints = [
        _footprint(problem, schedule, shape, number) for number in range(len(problem.streams))
    ]
    total = 0.0
    capacities = (target.l1_bytes * 0.9, target.l2_bytes * 0.9, target.l3_bytes * 0.5)
    everything = sum(footprint.bytes(shape.extents) for footprint in footprints)
    everything += _write_bytes(problem, shape.extents)
    for capacity, rate in zip(capacities, BYTES_PER_CYCLE, strict=True):
        if everything >= capacity:
            total += _traffic(problem, schedule, shape, footprints, levels, capacity) / rate
    return total


def _nested_extents(
    problem: Problem, schedule: Schedule, shape: Shape
) -> list[tuple[int, tuple[int, ...]]]:
    """From the register tile outwards: the dim of each loop, and what is covered inside it."""
    covered = [shape.registers[d] if d in problem.kept else 1 for d in problem.dims]
    levels: list[tuple[int, tuple[int, ...]]] = []
    inner = [*reversed(schedule.reduce_order), *reversed(schedule.loop_order)]
    for d in inner:
        if covered[d] < shape.tiles[d]:
            levels.append((d, tuple(covered)))
            covered[d] = shape.tiles[d]
    for d in reversed(schedule.group_order):
        if covered[d] < shape.extents[d]:
            levels.append((d, tuple(covered)))
            covered[d] = shape.extents[d]
    levels.append((-1, tuple(covered)))
    return levels


@dataclass(frozen=True, slots=True)
class Footprint:
    """What tells how many bytes a stream touches: the dims that it walks along and their extents.

    `nearest` is the dim along which elements lie closest together, `gap` elements apart; -1 where
    elements are staged, so that lines are full.
    """

    used: tuple[int, ...]
    extents: tuple[int, ...]
    itemsize: int
    nearest: int
    gap: int

    def bytes(self, covered: tuple[int, ...], next_dim: int = -1) -> float:
        """Bytes of the lines that the stream touches within what is covered.

        Parts of lines count as whole ones, unless `next_dim`, along which the loop around goes on,
        walks through the rest of them.
        """
        elements = 1
        for d in self.used:
            elements *= min(covered[d], self.extents[d])
        size = float(elements * self.itemsize)
        nearest = self.nearest
        if nearest < 0:
            return size
        line = 64 // self.itemsize
        if nearest != next_dim and min(covered[nearest], self.extents[nearest]) * self.gap < line:
            return size * max(1.0, line / max(1, covered[nearest]))
        return size * max(1, min(self.gap, line))


def _footprint(problem: Problem, schedule: Schedule, shape: Shape, number: int) -> Footprint:
    stream = problem.streams[number]
    itemsize = problem.inputs[stream.buffer].itemsize
    used = tuple(d for d in problem.dims if stream.uses(d))
    if schedule.staged[number] or not used:
        return Footprint(used, shape.extents, itemsize, -1, 1)
    gap, nearest = min((abs(stream.strides[d].constant or 1), d) for d in used)
    return Footprint(used, shape.extents, itemsize, nearest, gap)


def _write_bytes(problem: Problem, covered: tuple[int, ...]) -> float:
    elements = math.prod(covered[d] for d in problem.result_dims)
    return float(elements * sum(problem.outputs[write.buffer].itemsize for write in problem.writes))


def _traffic(
    problem: Problem,
    schedule: Schedule,
    shape: Shape,
    footprints: Sequence[Footprint],
    levels: list[tuple[int, tuple[int, ...]]],
    capacity: float,
) -> float:
    """Bytes that must enter a cache of that capacity."""
    fitting = 0
    for position, (_, covered) in enumerate(levels):
        need = sum(footprint.bytes(covered) for footprint in footprints)
        if need + _write_bytes(problem, covered) > capacity:
            break
        fitting = position
    covered = levels[fitting][1]
    trips = math.prod(-(-shape.extents[d] // max(1, covered[d])) for d in problem.dims)
    total = 0.0
    for footprint in footprints:
        moved = footprint.bytes(covered, levels[fitting][0]) * trips
        for d, inside in levels[fitting:-1]:
            if d in footprint.used:
                break
            moved /= max(1.0, _after(levels, d, shape) / inside[d])
        total += moved
    passes = math.prod(-(-shape.extents[d] // shape.tiles[d]) for d in problem.contracted)
    written = _write_bytes(problem, shape.extents) * (1 if schedule.streaming else 2)
    return total + written * (1 if passes == 1 else passes * 2)


def _after(levels: list[tuple[int, tuple[int, ...]]], d: int, shape: Shape) -> int:
    """What a dim covers once its innermost open loop is complete."""
    for position, (dim, covered) in enumerate(levels[:-1]):
        if dim == d:
            following = levels[position + 1][1][d]
            if following > covered[d]:
                return following
    return shape.extents[d]


def _staging(problem: Problem, schedule: Schedule, shape: Shape) -> float:
    """Cycles for copying tiles, as often as the loops around them ask for it."""
    total = 0.0
    tiled = [
        d for d in schedule.group_order if shape.tiles[d] < -(-shape.extents[d] // shape.parts[d])
    ]
    for number, region in enumerate(schedule.staged):
        if not region:
            continue
        stream = problem.streams[number]
        elements = math.prod(shape.extents[d] for d in problem.dims if stream.uses(d))
        inside = [n for n, d in enumerate(tiled) if stream.uses(d)]
        outer = tiled[: max(inside, default=-1) + 1]
        repeats = math.prod(
            -(-shape.extents[d] // shape.parts[d] // shape.tiles[d])
            for d in outer
            if not stream.uses(d)
        )
        repeats *= math.prod(shape.parts[d] for d in problem.dims if not stream.uses(d))
        itemsize = problem.inputs[stream.buffer].itemsize
        total += elements * max(1, repeats) * _copy_cycles(stream, schedule.lane, itemsize)
    return total


def _copy_cycles(stream: Stream, lane: int, itemsize: int) -> float:
    """Cycles to copy one element: in vectors, one by one, or from pages that are far apart."""
    stride = 1 if lane < 0 else abs(stream.strides[lane].constant or 1)
    if lane >= 0 and stream.uses(lane) and stride == 1:
        return VECTOR_COPY
    return FAR_COPY if stride * itemsize >= PAGE else SCALAR_COPY


def bytes_moved(problem: Problem) -> int:
    """Fewest bytes that any schedule moves: each input once, each output once."""
    total = 0
    for n, stream in enumerate(problem.streams):
        used = [d for d in problem.dims if stream.uses(d)]
        if n == next(m for m, s in enumerate(problem.streams) if s.buffer == stream.buffer):
            total += (
                math.prod(problem.extent(d) for d in used) * problem.inputs[stream.buffer].itemsize
            )
    return total + int(_write_bytes(problem, tuple(problem.extent(d) for d in problem.dims)))


def flops(problem: Problem) -> float:
    """Arithmetic operations: those of the scalar function and the operator at every point."""
    count = operations(*problem.scalar.results)
    if problem.operator is not None:
        count += operations(*problem.operator.results)
    return float(math.prod(problem.extent(d) for d in problem.dims) * count)
