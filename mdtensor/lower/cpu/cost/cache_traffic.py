"""Cost of memory traffic between the levels of the cache hierarchy, in cycles.

For every cache, the largest working set that it holds is found among the loops, from the register
tile outwards; what the loops around that one bring in again is the traffic into it. A working set
whose lines fall into few of a cache's sets is not held, however small it is; and memory that is
walked in short runs comes slower than their bytes say, since nothing fetches it ahead.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import field
from functools import lru_cache

from mdtensor.dataclass import dataclass
from mdtensor.lower.problem.problem import Problem, Stream, Write
from mdtensor.lower.schedule.machine_model import CPU_LINE, L2_WAYS, PAGE, WAY_BYTES
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# Of a cache, what a working set may take; of the last one, which others use too, a half.
FILLED = (0.9, 0.9, 0.5)
READ_AND_WRITTEN = 2.0  # times that a result is moved which does not pass the caches
FILLED_WAYS = 0.75  # of the ways of the sets that rows fall into
# Bytes per cycle and core, from L2, L3 and main memory.
BYTES_PER_CYCLE = (40.0, 28.0, 10.0)
# Start-up cost of a run, in bytes that L2, L3 and memory could have delivered meanwhile; and the
# factor on it where memory is prefetched.
STARTING, STARTING_AHEAD = (0.0, 600.0, 200.0), 0.1
# Pages that a core walks through side by side, each fetched ahead.
PAGES = 96


# The loops from the register tile outwards: each dim, and the extents covered inside.
Levels = list[tuple[int, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's schedule parameters per dim: extents, register tiles, cache tiles, parts."""

    extents: tuple[int, ...]
    registers: tuple[int, ...]
    tiles: tuple[int, ...]
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cache:
    """One cache level: its capacity, and the cost of transfers into it."""

    capacity: float
    way: int
    ways: int
    bytes_per_cycle: float
    starting: float


@lru_cache(16)
def caches_of(target: Target) -> tuple[Cache, ...]:
    """L1, L2 and L3 of a core, each with the cost of transfers from the next level."""
    sizes = (target.l1_bytes, target.l2_bytes, target.l3_bytes)
    ways = (max(1, target.l1_bytes // WAY_BYTES), L2_WAYS, L2_WAYS)
    return tuple(
        Cache(size * filled, size // count, count, rate, starting)
        for size, filled, count, rate, starting in zip(
            sizes, FILLED, ways, BYTES_PER_CYCLE, STARTING, strict=True
        )
    )


class MemoizedSpans(dict[tuple[int, ...], list[tuple[int, int]]]):
    """Memoised spans of a footprint, by the covered extents."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory footprint of an access: its dims, their strides in bytes, its element size.

    `steps` are (bytes between neighbours, dim), the nearest first; none for what is staged, which
    lies as it is read. `used` are all dims that are walked along; `known` are spans found before.
    """

    used: tuple[int, ...]
    extents: tuple[int, ...]
    itemsize: int
    steps: tuple[tuple[int, int], ...]
    known: MemoizedSpans = field(default_factory=MemoizedSpans, compare=False, repr=False)

    def spans(self, covered: tuple[int, ...]) -> list[tuple[int, int]]:
        """Strides in bytes and counts of the covered elements; overlapping dims are merged."""
        found = self.known.get(covered)
        if found is None:
            found = self.known[covered] = self._spans(covered)
        return found

    def _spans(self, covered: tuple[int, ...]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for step, d in self.steps:
            count = min(covered[d], self.extents[d])
            last, length = found[-1] if found else (0, 0)
            if last and step % last == 0 and step < last * length:
                found[-1] = last, length + (count - 1) * step // last
            elif count > 1:
                found.append((step, count))
        return found

    def elements(self, covered: tuple[int, ...]) -> int:
        """Number of elements in the covered extents."""
        if self.steps:
            return math.prod([count for _, count in self.spans(covered)])
        return math.prod([min(covered[d], self.extents[d]) for d in self.used])

    def bytes(self, covered: tuple[int, ...], next_dim: int = -1) -> float:
        """Bytes of the cache lines touched in the covered extents.

        Parts of lines count as whole ones, unless `next_dim`, along which the loop around goes on,
        walks through the rest of them.
        """
        size = float(self.elements(covered) * self.itemsize)
        if not self.steps:
            return size
        gap, nearest = self.steps[0]
        length = min(covered[nearest], self.extents[nearest])
        if nearest != next_dim and length * gap < CPU_LINE:
            return size * max(1.0, CPU_LINE / (max(1, length) * self.itemsize))
        return size * max(1.0, min(gap, CPU_LINE) / self.itemsize)

    def occupied(self, covered: tuple[int, ...]) -> float:
        """Bytes of cache that the covered extents occupy, with partial lines of unaligned rows.

        They count as their expected size, for each row that is longer than a line.
        """
        size = self.bytes(covered)
        spans = self.spans(covered)
        if (
            len(spans) < 2
            or spans[0][0] != self.itemsize
            or spans[0][1] * self.itemsize <= CPU_LINE
        ):
            return size
        if all(step % CPU_LINE == 0 for step, _ in spans[1:]):
            return size
        return size + math.prod([count for _, count in spans[1:]]) * (CPU_LINE - self.itemsize)

    def pieces(self, covered: tuple[int, ...], size: int) -> float:
        """Lines or pages, of `size` bytes, touched in the covered extents."""
        total = 1.0
        for step, count in self.spans(covered):
            total *= count if step >= size else max(1.0, count * step / size)
        return total

    def run(self, covered: tuple[int, ...], next_dim: int, part: Sequence[int]) -> float:
        """Length in bytes of the contiguous run that a group walks through.

        The run lies within the covered extents and what `next_dim` adds, up to its part's end.
        """
        if not self.steps:
            return math.inf
        walked = tuple(
            [part[d] if d == next_dim else min(count, part[d]) for d, count in enumerate(covered)]
        )
        length = self.itemsize
        for step, count in self.spans(walked):
            if step > max(length, CPU_LINE):
                break
            length += step * (count - 1)
        return float(length)

    def is_held(self, covered: tuple[int, ...], cache: Cache) -> bool:
        """Whether the covered lines fit into the cache sets that they map to."""
        lines, places, together = self.pieces(covered, CPU_LINE), 1.0, cache.way
        if lines <= cache.ways // 2:
            return True
        for step, count in self.spans(covered):
            if step < CPU_LINE:
                places *= max(1.0, min(count * step, cache.way) / CPU_LINE)
                together = math.gcd(together, CPU_LINE)
            else:
                places *= min(count, cache.way // math.gcd(step, cache.way))
                together = math.gcd(together, step)
        sets = min(places, cache.way / max(together, CPU_LINE))
        return lines <= sets * cache.ways * FILLED_WAYS


class WorkingSets:
    """Memoised working sets of a problem, by staged streams and covered extents."""

    __slots__ = "fitting", "pages"

    def __init__(self) -> None:
        self.fitting: dict[Hashable, bool] = {}
        self.pages: dict[Hashable, float] = {}


@dataclass(frozen=True, slots=True)
class Footprints:
    """The footprints of a schedule's reads and writes; `known` memoises working sets."""

    reads: Sequence[Footprint]
    writes: Sequence[Footprint]
    staged: tuple[str, ...]
    known: WorkingSets

    def fit(self, covered: tuple[int, ...], cache: Cache) -> bool:
        """Whether the working set of the covered extents fits a cache."""
        key = self.staged, covered, cache.capacity, cache.ways
        found = self.known.fitting.get(key)
        if found is None:
            every = (*self.reads, *self.writes)
            found = sum([access.occupied(covered) for access in every]) <= cache.capacity
            found = found and all(access.is_held(covered, cache) for access in every)
            self.known.fitting[key] = found
        return found

    def pages(self, covered: tuple[int, ...]) -> float:
        """The number of pages that the covered extents access."""
        key = self.staged, covered
        found = self.known.pages.get(key)
        if found is None:
            every = (*self.reads, *self.writes)
            found = self.known.pages[key] = sum([a.pieces(covered, PAGE) for a in every])
        return found


def footprint_of(
    problem: Problem, access: Stream | Write, itemsize: int, *, staged: bool = False
) -> Footprint:
    """The footprint of a stream or a write."""
    extents = tuple(problem.extent(d) for d in problem.dims)
    used = tuple(d for d in problem.dims if access.strides[d].terms)
    steps = sorted((abs(access.strides[d].constant or 1) * itemsize, d) for d in used)
    return Footprint(used, extents, itemsize, () if staged else tuple(steps))


def transfer_cycles(
    problem: Problem,
    schedule: Schedule,
    target: Target,
    shape: Shape,
    plain: tuple[Footprint, ...],
    copied: tuple[Footprint, ...],
    known: WorkingSets,
) -> tuple[float, ...]:
    """Cycles for the transfers into L1, L2 and L3.

    `plain` are the footprints of all streams where none is staged, and those of the writes;
    `copied` those of staged streams.
    """
    count = len(problem.streams)
    reads, writes = plain[:count], plain[count:]
    if any(schedule.staged):
        pairs = zip(reads, copied, schedule.staged, strict=True)
        reads = tuple([tile if region else read for read, tile, region in pairs])
    everything = sum([footprint.bytes(shape.extents) for footprint in (*reads, *writes)])
    caches = [cache for cache in caches_of(target) if everything >= cache.capacity]
    if not caches:
        return ()
    levels = nested_extents(problem, schedule, shape)
    accesses = Footprints(reads, writes, schedule.staged, known)
    held = _held(levels, accesses)
    return tuple(
        _traffic(problem, schedule, shape, accesses, levels, held, cache) / cache.bytes_per_cycle
        for cache in caches
    )


def footprints_of(problem: Problem) -> tuple[Footprint, ...]:
    """The footprints of all streams, unstaged, and of all writes."""
    reads = [footprint_of(problem, s, problem.inputs[s.buffer].itemsize) for s in problem.streams]
    writes = [footprint_of(problem, w, problem.outputs[w.buffer].itemsize) for w in problem.writes]
    return (*reads, *writes)


def _held(levels: Levels, accesses: Footprints) -> int:
    """The outermost loop inside which all pages can be prefetched side by side."""
    if accesses.pages(levels[-1][1]) <= PAGES:
        return len(levels) - 1
    fitting = 0
    for position, (_, covered) in enumerate(levels):
        if accesses.pages(covered) > PAGES:
            break
        fitting = position
    return fitting


def nested_extents(problem: Problem, schedule: Schedule, shape: Shape) -> Levels:
    """The loops from the register tile outwards: each dim, and the extents covered inside."""
    covered = [shape.registers[d] if d in problem.kept else 1 for d in problem.dims]
    levels: Levels = []
    for d in (*reversed(schedule.reduce_order), *reversed(schedule.loop_order)):
        if covered[d] < shape.tiles[d]:
            levels.append((d, tuple(covered)))
            covered[d] = shape.tiles[d]
    for d in reversed(schedule.group_order):
        if covered[d] < shape.extents[d]:
            levels.append((d, tuple(covered)))
            covered[d] = shape.extents[d]
    levels.append((-1, tuple(covered)))
    return levels


def _traffic(
    problem: Problem,
    schedule: Schedule,
    shape: Shape,
    accesses: Footprints,
    levels: Levels,
    held: int,
    cache: Cache,
) -> float:
    """Bytes transferred into a cache, weighted by the start-up cost of short runs."""
    fitting = 0
    for position, (_, covered) in enumerate(levels):
        if not accesses.fit(covered, cache):
            break
        fitting = position
    total = 0.0
    starting = cache.starting * (STARTING_AHEAD if schedule.ahead else 1.0)
    next_dim, beside = levels[held]
    part = [-(-extent // count) for extent, count in zip(shape.extents, shape.parts, strict=True)]
    for footprint in accesses.reads:
        waits = 1.0 + starting / footprint.run(beside, next_dim, part)
        total += waits * _moved(footprint, shape, levels, fitting)
    # Results wait in registers while a tile of the reduced dims goes by; they are read as well
    # as written, the first time too unless they pass the caches.
    finished = [(d, _finished(problem, shape, covered)) for d, covered in levels]
    passes = math.prod(-(-shape.extents[d] // shape.tiles[d]) for d in problem.contracted)
    ways = 1.0 if schedule.streaming and passes == 1 else READ_AND_WRITTEN
    for footprint in accesses.writes:
        waits = 1.0 + cache.starting / footprint.run(beside, next_dim, part)
        total += ways * waits * _moved(footprint, shape, finished, fitting)
    return total


def _finished(problem: Problem, shape: Shape, covered: tuple[int, ...]) -> tuple[int, ...]:
    """The covered extents, with at least one tile of every reduced dim."""
    reduced, tiles = problem.reduced, shape.tiles
    return tuple([max(n, tiles[d]) if reduced[d] else n for d, n in enumerate(covered)])


def _moved(footprint: Footprint, shape: Shape, levels: Levels, fitting: int) -> float:
    """Bytes that an access transfers into a cache that holds the working set `levels[fitting]`."""
    next_dim, covered = levels[fitting]
    trips = math.prod(
        [-(-extent // (inside or 1)) for extent, inside in zip(shape.extents, covered, strict=True)]
    )
    moved = footprint.bytes(covered, next_dim) * trips
    for position, (d, inside) in enumerate(levels[fitting:-1], fitting):
        if d in footprint.used:
            break
        moved /= max(1.0, levels[position + 1][1][d] / inside[d])
    return moved
