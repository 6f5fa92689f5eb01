"""The cost model: an estimate of a schedule's run time, from the target's facts alone.

It ranks schedules, so that an untuned call is good and a search starts near the best; it promises
no times. Per register tile it takes the slowest of arithmetic, loads and the latency of the
accumulators; per level of the memory hierarchy, the bytes that the loops around the largest
working set that fits must bring in.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapreplace

from mdtensor.lower.index import as_index
from mdtensor.lower.problem import Problem
from mdtensor.lower.rules.rows import unlike_rows
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.selection import selection_of
from mdtensor.lower.staging_cost import cycles_to_stage
from mdtensor.lower.traffic import (
    BYTES_PER_CYCLE,
    LINE,
    PAGE,
    WAY_BYTES,
    Footprint,
    Shape,
    footprints_of,
    transfer_cycles,
)
from mdtensor.lower.write_cost import cycles_to_write
from mdtensor.specs import Target
from mdtensor.translate.combine import Operator
from mdtensor.translate.scalar import Expr, ScalarFunction

# Cycles on a current core; what matters is their ratio. A multiply-add takes four; that others are
# begun just in time is what six allow for.
LATENCY = 6.0
# Instructions that a core has begun at one time.
IN_FLIGHT = 256
LOADS_PER_CYCLE = 2.0
GATHER_PER_ELEMENT = 0.8
# Going round a loop, and what an instruction more inside it costs by the length of the code.
LOOP_OVERHEAD, CODE = 0.1, 0.0005
SCATTER = 3.0
# Combining the lanes of a point alone, and of each of several, with writing the result.
LANES_OF_ONE, LANES_OF_EACH = 15.0, 3.0
TILE_OVERHEAD = 12.0
# For a register too many; and the share of vectors that unrolled steps have in common which are
# loaded only once.
SPILL, LOADED_AGAIN = 2.0, 0.5
# Two comparisons, their masks together, and a choice.
EXTREME = 4
# Loads of whole registers by a unit, what touching two lines of the cache adds, and what many rows
# take longer whose lines push each other out.
LOAD, CROSSING, CROWDED, MANY_ROWS = 2.0, 2.0, 1.3, 8
# Of computing and of waiting for each cache, what does not hide behind the longest; less
# where what is read at several places is asked for ahead. And what asking costs besides a load.
APART, APART_AHEAD, ASKING = 0.3, 0.15, 0.2
# What is left of the time of reading memory in one run that is asked for some pages ahead, where
# processors fetch by themselves a little at a time; and in several runs side by side, which need
# nobody to ask where a core gets to the next lines soon. Where it computes for longer, they cost.
RUN_AHEAD, RUNS, RUNS_COMPUTED = 0.75, 0.7, 1.25
MANY_RUNS = 4
# Vectors that each of the narrower ones costs that a peeled row has before and behind.
PEELED = 0.6
# What putting a vector together from two costs, where rows begin differently; and the ends of each
# such row, whose lines wait for memory.
JOINING, ENDS = 1.0, 60.0
# What a load costs that finds its line pushed out of L1 by others of its set.
CONFLICT = 6.0
# Bytes per cycle and core that go past caches which would hold them.
STREAMED = 5.0
# Launches by the calling thread, and by threads of the device, some of which are asleep.
INLINE_LAUNCH, WAKING = 1.5e-6, 1.6
# Reducing the parts of a scan, of the time that the scan itself takes: one core alone writes nearly
# as much as all of them.
TOTALS_OF_SCAN = 1.1
GROUP_OVERHEAD = 0.4e-6


def estimate(
    problem: Problem, schedule: Schedule, target: Target, *, general: bool = False
) -> float:
    """Estimated seconds of a problem with fixed extents.

    `general` is for a kernel with run-time extents, which computes what is left of a dim in tiles
    of powers of two.
    """
    facts = facts_of(problem)
    shape = _shape(facts, schedule)
    hertz = target.rate * 4 / target.vector_bytes / target.units
    if schedule.scatter:
        cycles = _scattering(problem, schedule, shape)
        transfers = (facts.moved / BYTES_PER_CYCLE[-1],)
    else:
        cycles = _arithmetic(problem, facts, schedule, target, shape, general)
        transfers = transfer_cycles(problem, schedule, target, shape, facts.footprints)
        if schedule.streaming and facts.moved <= target.l3_bytes:
            transfers = (*transfers, facts.written / STREAMED)
    packing = cycles_to_stage(problem, schedule, shape, target) if any(schedule.staged) else 0.0
    far = schedule.ahead and facts.moved > target.l2_bytes
    apart = APART_AHEAD if far and reads_around(problem) else APART
    in_memory = transfers and facts.moved > target.l3_bytes
    if in_memory and runs_along_lanes(schedule):
        transfers = (*transfers[:-1], transfers[-1] * _of_runs(facts, schedule))
    times = (cycles, *transfers)
    work = max(times) + apart * (sum(times) - max(times)) + packing
    if schedule.peel and unlike_rows(problem, schedule):
        work += ENDS * math.prod([shape.extents[d] for d in facts.kept if d != schedule.lane])
    groups = math.prod(shape.parts)
    if schedule.inline or groups == 1:
        launch = INLINE_LAUNCH if schedule.inline else WAKING * target.launch_seconds
        return work / hertz + launch
    share = busiest_share(shape.extents, shape.registers, schedule.parts, target.cores)
    seconds = work / hertz * share + WAKING * target.launch_seconds
    seconds += groups * GROUP_OVERHEAD / target.cores
    if not any(shape.parts[d] > 1 for d in facts.contracted):
        return seconds
    # The totals of groups are one more kernel; groups that scan read all elements once more, from
    # caches where they take turns.
    again = TOTALS_OF_SCAN * (cycles if schedule.in_turn else work) if problem.scanned >= 0 else 0.0
    seconds += again / hertz * share
    if schedule.in_turn:
        return seconds
    combining = _combining(problem, shape, target) / hertz / target.cores
    return seconds + combining + target.launch_seconds


def _of_runs(facts: Facts, schedule: Schedule) -> float:
    """What is left of the time of reading memory along the lanes, in one run or several."""
    along = [walk for walk in facts.walks if walk.strides[schedule.lane]]
    runs = max((_runs(facts, walk, schedule) for walk in along), default=1)
    asked = RUN_AHEAD if schedule.ahead else 1.0
    if facts.per_point > 1.0:
        return asked * (RUNS_COMPUTED if runs > 1 else 1.0)
    return RUNS if runs >= MANY_RUNS else asked


def _runs(facts: Facts, walk: Walk, schedule: Schedule) -> int:
    """Rows of a register tile that lie in pages of their own."""
    apart = [d for d in facts.kept if abs(walk.strides[d]) * walk.itemsize >= PAGE]
    return math.prod([schedule.registers[d] for d in apart if d != schedule.lane])


def _combining(problem: Problem, shape: Shape, target: Target) -> float:
    """Cycles for writing and reading again what the groups that share a reduction leave."""
    groups = math.prod(shape.parts[d] for d in problem.contracted)
    elements = math.prod(shape.extents[d] for d in problem.kept)
    nbytes = groups * elements * sum(t.itemsize for t in problem.scalar.result_dtypes)
    level = sum(nbytes > size for size in (target.l2_bytes, target.l3_bytes / 2))
    return 3.0 * nbytes / BYTES_PER_CYCLE[level]


@dataclass(frozen=True, slots=True)
class Walk:
    """How a stream walks: its strides, the bytes of an element, the offsets that are read."""

    strides: tuple[int, ...]
    itemsize: int
    places: frozenset[int]


@dataclass(frozen=True, slots=True)
class Facts:
    """What all estimates of a problem with fixed extents have in common."""

    extents: tuple[int, ...]
    kept: tuple[int, ...]
    contracted: tuple[int, ...]
    walks: tuple[Walk, ...]
    footprints: tuple[Footprint, ...]
    moved: int
    written: int
    per_point: float


@lru_cache(64)
def facts_of(problem: Problem) -> Facts:
    """The facts of a problem; those of the last ones are kept."""
    places: list[set[int]] = [set() for _ in problem.streams]
    for read in problem.reads:
        places[read.stream].add(as_index(read.offset).constant or 0)
    walks = [
        Walk(
            tuple([stride.constant or 0 for stride in stream.strides]),
            problem.inputs[stream.buffer].itemsize,
            frozenset(places[number]),
        )
        for number, stream in enumerate(problem.streams)
    ]
    return Facts(
        tuple([problem.extent(d) for d in problem.dims]),
        problem.kept,
        problem.contracted,
        tuple(walks),
        footprints_of(problem),
        bytes_moved(problem),
        bytes_written(problem),
        _per_point(problem.scalar, problem.operator),
    )


def _shape(facts: Facts, schedule: Schedule) -> Shape:
    parts: list[int] = []
    tiles: list[int] = []
    for d, extent in enumerate(facts.extents):
        block = schedule.registers[d] * schedule.threads[d]
        count = -(-extent // block)
        part = -(-count // max(1, schedule.parts[d])) * block
        parts.append(-(-extent // part))
        tile = -(-schedule.tiles[d] // block) * block
        tiles.append(min(part, extent) if not tile or tile >= part else tile)
    return Shape(facts.extents, schedule.registers, tuple(tiles), tuple(parts))


@lru_cache(4096)
def busiest_share(
    extents: tuple[int, ...], registers: tuple[int, ...], parts: tuple[int, ...], cores: int
) -> float:
    """Of all work, what the busiest core does, if each takes the next group when it is idle.

    The last part along a dim is smaller than the others, which are whole register tiles.

    >>> busiest_share((1000,), (64,), (8,), 2), busiest_share((513,), (64,), (8,), 2)
    (0.512, 0.5009746588693957)
    """
    sizes = [1]
    for extent, register, count in zip(extents, registers, parts, strict=True):
        part = math.ceil(math.ceil(extent / register) / max(1, count)) * register
        own = [min(part, extent - start) for start in range(0, extent, part)]
        sizes = [size * length for size in sizes for length in own]
    loads = [0] * cores
    for size in sizes:
        heapreplace(loads, loads[0] + size)
    return max(loads) / sum(sizes)


def operations(*exprs: Expr) -> int:
    """Number of different arithmetic operations in expressions that are computed together."""
    return sum(expr.op not in ("cast", "tf32") for expr in _nodes(*exprs))


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


def _instructions(nodes: set[Expr]) -> int:
    """Of vectors, what operations take: floating-point extremes see to it that NaN wins."""
    extremes = sum(expr.op in ("min", "max") and expr.dtype.kind == "f" for expr in nodes)
    return sum(expr.op != "cast" for expr in nodes) + (EXTREME - 1) * extremes


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


@lru_cache(1024)
def _per_point(scalar: ScalarFunction, operator: Operator | None) -> float:
    """Operations of one point."""
    nodes = _nodes(*scalar.results)
    count = _instructions(nodes) - _fused(nodes)
    if operator is None:
        return max(1.0, count)
    combining = _instructions(_nodes(*(operator.in_order or operator.results)))
    fused = scalar.results[0].dtype.kind == "f" and operator.name == "add"
    return max(1.0, count + combining - (min(count, combining) if fused else 0))


def _arithmetic(
    problem: Problem,
    facts: Facts,
    schedule: Schedule,
    target: Target,
    shape: Shape,
    general: bool,
) -> float:
    lane, width = schedule.lane, schedule.width
    itemsize = max([result.dtype.itemsize for result in problem.scalar.results])
    per_vector = max(1.0, width * itemsize / target.vector_bytes)
    vectors = shape.registers[lane] // width if lane >= 0 else 1
    points = math.prod([shape.registers[d] for d in facts.kept if d != lane])
    unrolled = math.prod([shape.registers[d] for d in facts.contracted if d != lane])
    step = _step(problem, facts, schedule, target, shape, points, vectors, per_vector)
    accumulators = points * vectors * per_vector * len(problem.scalar.results)
    joined = unlike_rows(problem, schedule) if schedule.peel else 0
    held = accumulators + (vectors + joined) * per_vector + 1
    if unrolled > 1:
        held += _kept(facts, lane, shape, vectors * per_vector)
    spilled = held - target.vector_registers
    if spilled > 0:
        step += SPILL * spilled / unrolled
    if facts.contracted:
        # Where a tile of the reduced dims is short, the next register tiles are begun meanwhile.
        length = math.prod([shape.tiles[d] for d in facts.contracted])
        if lane in facts.contracted:
            length /= width
        begun = max(1.0, IN_FLIGHT / (length * (accumulators + vectors * per_vector)))
        step = max(step, LATENCY / begun / max(1, unrolled if accumulators < 1 else 1))
        step += LOOP_OVERHEAD / unrolled + CODE * unrolled * accumulators
    steps = 1.0
    for d in facts.contracted:
        extent, register = shape.extents[d], shape.registers[d]
        if d == lane:
            steps *= extent // register + (extent % register) / width * 0.6
            steps += extent % width * 0.5
        else:
            steps *= extent
    tiles = 1.0
    for d in facts.kept:
        tiles *= _tiles_along(d, lane, width, shape, schedule, general)
    writes = facts.footprints[len(problem.streams) :]
    finish = points * vectors
    finish *= cycles_to_write(problem, schedule, target, shape, writes, general=general)
    finish += joined * vectors * per_vector * JOINING
    if problem.scanned >= 0:
        steps, step = steps * _scan_step(problem, schedule, step, finish), 1.0
        finish = 0.0
    elif lane in facts.contracted:
        finish = _combining_lanes(points, vectors)
    passes = math.prod([-(-shape.extents[d] // shape.tiles[d]) for d in facts.contracted])
    finish = (finish + TILE_OVERHEAD) * passes * (1.5 if passes > 1 else 1.0)
    return tiles * (steps * step + finish)


def _combining_lanes(points: int, vectors: int) -> float:
    """Cycles for the results of points whose vectors hold partial ones, and for writing these.

    Lanes of several points are combined together (`passes.combine_lanes`), those of one are halved.
    """
    return points * (vectors - 1) / 2 + (LANES_OF_ONE if points == 1 else LANES_OF_EACH * points)


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


def _step(
    problem: Problem,
    facts: Facts,
    schedule: Schedule,
    target: Target,
    shape: Shape,
    points: int,
    vectors: int,
    per_vector: float,
) -> float:
    """Cycles of one step of the reduction: arithmetic or loads, whichever takes longer."""
    lane, ways = schedule.lane, target.l1_bytes // WAY_BYTES
    arithmetic = points * vectors * facts.per_point * per_vector / target.units
    loads = 0.0
    unrolled = math.prod([shape.registers[d] for d in facts.contracted if d != lane])
    for number, walk in enumerate(facts.walks):
        count = _different_reads(problem, facts, walk, lane, shape)
        reads = count * unrolled if unrolled > 1 else 0.0
        staged = bool(schedule.staged[number])
        if lane < 0 or not walk.strides[lane]:
            loads += count * (1 if staged else _conflicts(facts, walk, shape, ways, reads))
        elif walk.strides[lane] == 1 or staged:
            cycles = _load_cycles(facts, walk, schedule, shape, staged=staged) / target.units
            loads += count * vectors * per_vector * cycles
        else:
            gathered = (
                count * vectors * schedule.width * _conflicts(facts, walk, shape, ways, reads)
            )
            loads += gathered * GATHER_PER_ELEMENT * LOADS_PER_CYCLE
    asked = _asked(problem, schedule, shape, vectors) if schedule.ahead else 0.0
    return max(arithmetic, (loads + asked) / LOADS_PER_CYCLE) + asked * ASKING


def _asked(problem: Problem, schedule: Schedule, shape: Shape, vectors: int) -> float:
    """Requests for memory per step: one for each row and vector of what is walked along."""
    order = schedule.reduce_order or schedule.loop_order
    count = 0.0
    for stream in problem.streams:
        if order and stream.uses(order[-1]):
            near = [d for d in problem.kept if d != schedule.lane and stream.uses(d)]
            rows = math.prod(shape.registers[d] for d in near)
            along = schedule.lane >= 0 and stream.uses(schedule.lane)
            count += rows * (vectors if along else 1 / shape.registers[order[-1]])
    return count


def _load_cycles(
    facts: Facts, walk: Walk, schedule: Schedule, shape: Shape, *, staged: bool
) -> float:
    """What a vector load costs, in loads of one line: those that shift by single lanes cross.

    Lines of rows that lie ways apart push each other out of the cache where they are many.
    """
    lane, width, itemsize, offsets = schedule.lane, schedule.width, walk.itemsize, walk.places
    if len({offset % width for offset in offsets}) < 2:
        steps = [stride for d, stride in enumerate(walk.strides) if d != lane]
        uneven = not staged and any(step * itemsize % LINE for step in steps)
        return LOAD + CROSSING * (uneven and width * itemsize / LINE)
    cycles = LOAD + CROSSING * min(1.0, width * itemsize / LINE)
    for d in facts.kept:
        stride = abs(walk.strides[d])
        if d != lane and stride and stride * itemsize % WAY_BYTES == 0:
            rows = shape.registers[d] + (max(offsets) - min(offsets)) // stride
            cycles *= CROWDED if rows > MANY_ROWS else 1.0
    return cycles


def runs_along_lanes(schedule: Schedule) -> bool:
    """Whether the innermost loop walks through memory in one run, vector by vector."""
    order = schedule.reduce_order
    return bool(order) and order[-1] == schedule.lane


def reads_around(problem: Problem) -> bool:
    """Whether points read a stream at several places, as those of a stencil do."""
    offsets = {(read.stream, read.offset) for read in problem.reads if not read.computed}
    return len(offsets) > len({stream for stream, _ in offsets})


def _different_reads(problem: Problem, facts: Facts, walk: Walk, lane: int, shape: Shape) -> float:
    """How many places of a stream a register tile reads in a step of a reduction, lanes apart.

    Points that are neighbours share what a stencil reads around them, and what the windows of
    unrolled steps have in common.
    """
    registers, reduced = shape.registers, problem.reduced
    dims = [d for d, s in enumerate(walk.strides) if s and d != lane and registers[d] > 1]
    unrolled = 1
    if problem.scanned < 0:
        unrolled = math.prod([registers[d] for d in facts.contracted if d != lane])
    else:
        dims = [d for d in dims if not reduced[d]]
    if len(walk.places) < 2 and not any(reduced[d] for d in dims):
        return len(walk.places) * math.prod([registers[d] for d in dims]) / unrolled
    found = set(walk.places)
    for d in dims:
        stride = walk.strides[d]
        found = {place + n * stride for place in found for n in range(registers[d])}
    return len(found) / unrolled


def _kept(facts: Facts, lane: int, shape: Shape, vectors: float) -> float:
    """Registers for what several unrolled steps read: scalars stay in all lanes of one.

    Vectors may be loaded again, which compilers do for some.
    """
    found = 0.0
    for walk in facts.walks:
        along = lane >= 0 and walk.strides[lane]
        found += _read_again(walk, lane, shape) * (LOADED_AGAIN * vectors if along else 1)
    return found


def _read_again(walk: Walk, lane: int, shape: Shape) -> int:
    """How many places of a stream a register tile reads more than once, lanes apart."""
    reads = list(walk.places)
    for d, stride in enumerate(walk.strides):
        if stride and d != lane:
            steps = range(0, stride * shape.registers[d], stride)
            reads = [place + step for place in reads for step in steps]
    return sum(count > 1 for count in Counter(reads).values())


def _conflicts(facts: Facts, walk: Walk, shape: Shape, ways: int, reads: float) -> float:
    """How much longer loads take whose lines push each other out of L1.

    Lines whose addresses differ by a multiple of a way's size compete for the few ways of one set:
    rows of a matrix whose row length is a power of two, say. `reads` are those of unrolled steps.
    """
    for d in facts.kept:
        stride = abs(walk.strides[d]) * walk.itemsize
        if stride >= 64:
            places = WAY_BYTES // math.gcd(stride, WAY_BYTES)
            if max(reads, shape.registers[d]) / places > ways:
                return CONFLICT
    return 1.0


def bytes_moved(problem: Problem) -> int:
    """Fewest bytes that any schedule moves: each input once, each output once."""
    total = 0
    for n, stream in enumerate(problem.streams):
        used = [d for d in problem.dims if stream.uses(d)]
        if n == next(m for m, s in enumerate(problem.streams) if s.buffer == stream.buffer):
            total += (
                math.prod(problem.extent(d) for d in used) * problem.inputs[stream.buffer].itemsize
            )
    return total + bytes_written(problem)


def bytes_written(problem: Problem) -> int:
    """Bytes of the results."""
    elements = math.prod(problem.extent(d) for d in problem.result_dims)
    return elements * sum(problem.outputs[w.buffer].itemsize for w in problem.writes)


def flops(problem: Problem) -> float:
    """Arithmetic operations: those of the scalar function and the operator at every point."""
    count = operations(*problem.scalar.results)
    if problem.operator is not None:
        count += operations(*problem.operator.results)
    return float(math.prod(problem.extent(d) for d in problem.dims) * count)
