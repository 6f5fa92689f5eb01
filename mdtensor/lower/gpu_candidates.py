"""Schedules worth considering on a GPU.

Kept dims fall into two sides: the columns, which the stream that lies along the results walks
through, and the rows, whose points share its elements. No shape of computation has a candidate of
its own: sides, chunks and staging follow from the strides of the accesses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from mdtensor.errors import LoweringError
from mdtensor.lower.gpu_bulk import bulk_candidates
from mdtensor.lower.gpu_cost import (
    REGISTERS,
    gpu_estimate,
    local_bytes,
    registers_of,
    tile_elements,
)
from mdtensor.lower.gpu_matrices import matrix_candidates
from mdtensor.lower.passes.copy_together import MOST_PIECES
from mdtensor.lower.problem import Problem
from mdtensor.lower.rules.valid import validate
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.tiling import tilings_of
from mdtensor.lower.zero_filled import zero_filled
from mdtensor.specs import Target

LOCAL_BYTES = 47 << 10
POINTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # of a work-item along a kept dim
# Points of rows and columns per work-item, work-items along each, elements of a reduction tile.
_ROWS_COLUMNS = ((16, 8), (8, 8), (8, 4), (4, 4), (2, 4), (1, 4), (4, 8), (16, 4), (1, 1))
# Those of a work-item whose columns follow what is read.
_BY_SOURCE = ((16, 4), (12, 4), (8, 4))
_BESIDE = (0, 16, 32)  # results of a group beside each other where its columns do so; 0: all
_STORED = 4  # results beside each other that one access stores
_SECTOR = 8  # elements of what memory is read by
_ITEMS = (
    *((8, 16), (16, 8), (8, 8), (4, 8), (1, 32), (2, 32), (1, 64), (1, 128), (4, 32), (8, 32)),
    *((1, 1), (2, 1), (1, 2), (1, 4), (4, 1), (1, 8), (8, 1), (1, 16)),
)
_MOST_ITEMS = 512
_WARP = 32
MOST_COMPUTATIONS = 2048  # in an unrolled register tile
MOST_PARTIALS = 1 << 26  # results of all parts of a reduction
MOST_STEPS = 64  # of reduced dims in it
UNROLLED = 8  # of them that a work-item computes between two tests for an end
_LONG = 64  # extents of which nobody minds what is left over by whole steps
_ABOVE = 1.75  # times what was asked for that a whole part of a short dim may have
_DEPTHS = (8, 16, 32)
_WORTH_FETCHING = 8  # accesses to a tile of several dims, which wait in registers for their turn
_WORTH_STAGES = 8  # turns of a group from which several staged tiles can pay
_FEW_BLOCKS = 8  # of 8 x 8 results for each core, up to which warps share tiles of a reduction
_SHARING = (1, 4, 8, 32, 128, 256)
# Of groups whose warps share staged tiles along the reduction: points, work-items, warps that share
# it and what each takes of a tile at once.
_OF_SHARED_TILES = (((8, 2), (4, 4), (8, 4)), ((2, 16), (2, 32), (4, 8)), ((4, 16), (4, 4), (8, 4)))
_SPLITS = (1, 2, 4, 8, 16, 32, 64)
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_PARTS_OF_CORE = (1, 2, 4, 8, 16, 32)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Sides:
    """Dims of the columns and of the rows, those first whose neighbours lie nearest."""

    columns: tuple[int, ...]
    rows: tuple[int, ...]


@lru_cache(64)
def sides_of(problem: Problem) -> Sides:
    """The kept dims in two sides."""
    problem = zero_filled(problem)

    def distance(d: int) -> tuple[int, int]:
        strides = [write.strides[d].constant for write in problem.writes]
        return min(1 << 62 if s is None else abs(s) for s in strides), d

    kept = tuple(sorted(problem.kept, key=distance))
    if not kept:
        return Sides((), ())
    along = [s for s in problem.streams[: problem.finish_streams] if s.uses(kept[0])]
    columns = tuple(d for d in kept if all(s.uses(d) for s in along))
    shared = tuple(
        d
        for d in columns
        if d == kept[0] or not all(s.uses(d) for s in problem.streams[: problem.finish_streams])
    )
    return Sides(shared, tuple(d for d in kept if d not in columns))


@lru_cache(64)
def kept_order(problem: Problem) -> tuple[int, ...]:
    """The kept dims, rows before columns and the nearest ones last."""
    sides = sides_of(problem)
    sorted_out = (*reversed(sides.rows), *reversed(sides.columns))
    return (*(d for d in problem.kept if d not in sorted_out), *sorted_out)


def can_be_resident(problem: Problem) -> bool:
    """Whether accumulators can stay in registers: there is a reduction, and no scan."""
    return bool(problem.contracted) and problem.scanned < 0


def can_be_staged(problem: Problem, number: int) -> bool:
    """Whether a stream can be copied to local memory first."""
    return number < problem.finish_streams and problem.is_plain(number)


@lru_cache(256)
def item_counts(extent: int) -> tuple[int, ...]:
    """Numbers of work-items along a dim that can share it: round ones, and whole ones."""
    counts = {n for n in _COUNTS if n < 2 * extent}
    counts |= {n for n in range(1, _COUNTS[-1] + 1) if extent % n == 0}
    counts |= {-(-extent // points) for points in POINTS}
    return tuple(sorted(n for n in counts if n <= _COUNTS[-1]))


def part_counts(target: Target) -> tuple[int, ...]:
    """Numbers of groups that may share a reduced dim: round ones, and so many of each core."""
    return tuple(sorted({*_PARTS, *(n * target.cores for n in _PARTS_OF_CORE)}))


def most_items(target: Target) -> int:
    """Work-items that a group can have."""
    return min(1024, target.max_threads)


def gpu_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid schedules whose accumulators stay in registers; none without a reduction."""
    if not can_be_resident(problem):
        return
    yield from bulk_candidates(problem, target)
    yield from matrix_candidates(problem, target)
    problem = zero_filled(problem)
    seen: set[Schedule] = set()
    streaming = can_stream(problem) and _leaves_caches(problem, target)
    sides = sides_of(problem)
    rows = (False, True) if len(sides.rows) > 1 else (False,)
    plain = itertools.product(_ROWS_COLUMNS, _ITEMS, _DEPTHS, _SHARING, rows, (0,))
    beside = _BESIDE[1:] if len(sides.columns) > 1 else ()
    turned = itertools.product(_BY_SOURCE, _ITEMS, _DEPTHS, (1,), rows, beside)
    every = (
        blocked(problem, points, items, depth, sharing, by_source=by_source, beside=beside)
        for points, items, depth, sharing, by_source, beside in (*plain, *turned)
        if sharing == 1 or not problem.keeps_order
    )
    for one in (*every, *_sharing_tiles(problem, target)):
        if not 32 <= math.prod(one.threads) <= _MOST_ITEMS:
            continue
        schedule = replace(one, streaming=streaming)
        for spread in _split(problem, schedule, target):
            for candidate in (spread, *_in_stages(problem, spread)):
                small = local_bytes(problem, candidate) <= LOCAL_BYTES
                if candidate not in seen and small and fits(problem, candidate, target):
                    seen.add(candidate)
                    yield candidate


def _sharing_tiles(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Schedules for few results and a long reduction: warps share it, and staged tiles of it.

    Tiles are on their way in stages, and lie as their sources do.
    """
    nearest = shared_dim(problem)
    blocks = math.prod(-(-problem.extent(d) // 8) for d in problem.kept)
    if nearest < 0 or len(problem.contracted) > 1 or blocks > _FEW_BLOCKS * target.cores:
        return
    for points, items, (sharing, steps) in itertools.product(*_OF_SHARED_TILES):
        depth = sharing * steps
        if problem.extent(nearest) < 2 * depth:
            continue
        schedule = blocked(problem, points, items, depth)
        if not all(schedule.staged[: problem.finish_streams]):
            continue
        yield replace(
            schedule,
            threads=_with(schedule.threads, nearest, sharing),
            registers=_with(schedule.registers, nearest, steps),
            chunks=_with(schedule.chunks, nearest, min(4, steps)),
            group_order=(*schedule.reduce_order, *kept_order(problem)),
            warp=(),
            prefetch=False,
            stages=3,
            as_source=tuple(pad > 0 for pad in schedule.padding),
        )


def _with(values: tuple[int, ...], d: int, value: int) -> tuple[int, ...]:
    return (*values[:d], value, *values[d + 1 :])


def _in_stages(problem: Problem, schedule: Schedule) -> Iterator[Schedule]:
    """The schedule with several staged tiles, its groups in swaths, where tiles are many."""
    tilings = tilings_of(problem, schedule)
    turns = math.prod(
        (tilings[d].part.constant or 1) // tilings[d].tile
        for d in problem.contracted
        if tilings[d].tile
    )
    if any(schedule.staged) and not schedule.stages and turns >= _WORTH_STAGES:
        swath = 8 if len(problem.kept) > 1 else 0
        yield replace(schedule, stages=3, swath=swath, prefetch=True)


def can_stream(problem: Problem) -> bool:
    """Whether results lie next to each other along some dim, so that they can bypass caches."""
    along = (all(w.strides[d].constant == 1 for w in problem.writes) for d in problem.kept)
    return any(along)


def _leaves_caches(problem: Problem, target: Target) -> bool:
    """Whether results are too many for the caches."""
    nbytes = sum(problem.outputs[write.buffer].itemsize for write in problem.writes)
    return nbytes * math.prod(map(problem.extent, problem.kept)) > target.l2_bytes


def blocked(
    problem: Problem,
    points: tuple[int, int],
    items: tuple[int, int],
    depth: int,
    sharing: int = 1,
    *,
    by_source: bool = False,
    beside: int = 0,
) -> Schedule:
    """A schedule from points per work-item and work-items, both by rows and columns.

    A work-item's rows are neighbours in the result, or `by_source` in what is read. So are a
    group's columns; or no more than `beside` of them are neighbours in the result, and the others
    in what is read, where memory would else bring much that no work-item needs.
    `depth` is the extent of a tile of the reduced dim that lies nearest, or what each of `sharing`
    work-items takes of it at once.
    """
    count = len(problem.extents)
    sides = sides_of(problem)
    registers, chunks, threads, warp = [1] * count, [1] * count, [1] * count, [1] * count
    rows = sorted(sides.rows, key=lambda d: _source_distance(problem, d))
    _share_out(
        problem,
        _Shares(tuple(rows) if by_source else sides.rows, sides.rows),
        points[0],
        items[0],
        registers,
        threads,
    )
    columns = _by_source(problem, sides.columns, beside)
    _share_out(problem, columns, points[1], items[1], registers, threads)
    nearest = _nearest_reduced(problem)
    for d in problem.dims:
        chunks[d] = next(n for n in (4, 2, 1) if registers[d] % n == 0)
    stored = 1
    for d in columns.points:
        if stored >= _STORED:  # lanes lie side by side behind what one access takes
            chunks[d] = 1
        stored *= chunks[d]
    tiles = [0] * count
    threads[nearest] = sharing
    reduce_order = _reduce_order(problem)
    if sharing > 1:
        registers[nearest] = depth
        chunks[nearest] = min(4, depth)
    else:
        for d, (steps, tile) in _steps_and_tiles(problem, reduce_order, depth).items():
            registers[d] = chunks[d] = steps
            tiles[d] = tile
    staged = tuple(
        "local" if sharing == 1 and _is_shared(problem, n, threads) else ""
        for n in range(len(problem.streams))
    )
    if not any(staged):
        tiles = [0] * count
    kept = kept_order(problem)
    along = any(s.strides[nearest].constant == 1 for s in problem.streams)
    order = (*kept, *reduce_order) if along or sharing == 1 else (*reduce_order, *kept)
    if sharing == 1:
        warp = square_warp(threads, kept)
    parts = [1] * count
    for d in problem.kept:
        parts[d] = -(-problem.extent(d) // (registers[d] * threads[d]))
    turns = _turns_over if beside else _turns
    padding = [4 if region and turns(problem, n) else 0 for n, region in enumerate(staged)]
    tiled = [d for d in problem.contracted if tiles[d]]
    schedule = Schedule(
        asm="gpu",
        parts=tuple(parts),
        tiles=tuple(tiles),
        threads=tuple(threads),
        registers=tuple(registers),
        lane=-1,
        width=1,
        group_order=order,
        loop_order=kept,
        reduce_order=reduce_order,
        staged=staged,
        resident=True,
        chunks=tuple(chunks),
        warp=tuple(warp) if sharing == 1 else (),
        padding=tuple(padding) if any(padding) else (),
    )
    ahead = len(tiled) == 1 and any(staged)
    if len(problem.contracted) > 1 and _most_accesses(problem, schedule) > _WORTH_FETCHING:
        ahead = False
    return replace(schedule, prefetch=ahead)


def _most_accesses(problem: Problem, schedule: Schedule) -> float:
    """Accesses of a work-item to the source of a staged tile: to four elements where they can."""
    tilings, found = tilings_of(problem, schedule), 0.0
    for n, region in enumerate(schedule.staged):
        strides = problem.streams[n].strides
        near = [problem.extent(d) for d in problem.dims if strides[d].constant == 1]
        lanes = 4 if near and near[0] % 4 == 0 else 1
        elements = tile_elements(problem, tilings, n) if region else 0
        found = max(found, elements / math.prod(schedule.threads) / lanes)
    return found


def _steps_and_tiles(
    problem: Problem, order: Sequence[int], depth: int
) -> dict[int, tuple[int, int]]:
    """Unrolled steps and the extent of a tile (0: the whole dim), by reduced dim.

    Both are filled from the innermost dim outwards: short dims are whole, and what is asked for
    beyond them is of the next one.
    """
    found: dict[int, tuple[int, int]] = {}
    steps, left = UNROLLED, depth
    for d in reversed(order):
        extent = problem.extent(d)
        if problem.keeps_order or extent % UNROLLED == 0 or extent > _LONG:
            here = (steps, left)
        else:
            unrolled = _divisor_near(extent, steps)
            here = (unrolled, _divisor_near(extent, max(unrolled, left), unrolled))
        is_whole = here[1] >= extent
        found[d] = (here[0], 0 if is_whole else here[1])
        steps = max(1, steps // here[0]) if is_whole else 1
        left = max(1, left // extent) if is_whole else 1
    return found


def _divisor_near(extent: int, number: int, of: int = 1) -> int:
    """The largest divisor of an extent, a multiple of another, that is not far above a number."""
    most = number * _ABOVE
    return max(n for n in range(of, extent + 1, of) if extent % n == 0 and (n <= most or n == of))


@dataclass(frozen=True, slots=True)
class _Shares:
    """Dims in the orders in which they have points and work-items; the most points of some.

    `stored` are those of a work-item, `near` of a group.
    """

    points: Sequence[int]
    items: Sequence[int]
    stored: Mapping[int, int] = field(default_factory=dict[int, int])
    near: Mapping[int, int] = field(default_factory=dict[int, int])


def _by_source(problem: Problem, columns: Sequence[int], beside: int) -> _Shares:
    """Columns of which `beside` follow the results; then as many of the source as fill a sector."""
    if not beside or len(columns) < 2:
        return _Shares(columns, columns)
    first = columns[0]
    order = sorted(columns[1:], key=lambda d: _source_distance(problem, d))
    near = {first: beside, order[0]: _SECTOR}
    return _Shares((first, *order), (first, *order), {first: _STORED}, near)


def _share_out(
    problem: Problem,
    shares: _Shares,
    number: int,
    among: int,
    registers: list[int],
    threads: list[int],
) -> None:
    """Gives the dims of a side their points, and then work-items."""
    for d in shares.points:
        most = min(number, shares.stored.get(d, number))
        registers[d] = min(most, 1 << (problem.extent(d).bit_length() - 1))
        number = max(1, number // registers[d])
    for d in shares.items:
        extent = problem.extent(d)
        most = min(among, -(-extent // registers[d]))
        most = min(most, max(1, shares.near.get(d, extent) // registers[d]))
        counts = [n for n in item_counts(extent) if n <= most]
        threads[d] = counts[-1]
        whole = [n for n in counts if extent % (registers[d] * n) == 0]
        if whole and 4 * whole[-1] >= 3 * threads[d]:
            threads[d] = whole[-1]
        among = max(1, among // threads[d])


def _source_distance(problem: Problem, d: int) -> int:
    """How far neighbours along a dim lie apart where they are read."""
    strides = [s.strides[d].constant for s in problem.streams if s.uses(d)]
    return min((1 << 62 if s is None else abs(s) for s in strides), default=1 << 62)


def shared_dim(problem: Problem) -> int:
    """The reduced dim that work-items of a group may share; -1 where they cannot."""
    if not problem.contracted or problem.keeps_order or problem.scanned >= 0:
        return -1
    return _nearest_reduced(problem)


@lru_cache(64)
def _nearest_reduced(problem: Problem) -> int:
    """The reduced dim whose elements lie nearest; the last where the order counts."""
    return _reduce_order(problem)[-1]


def _reduce_order(problem: Problem) -> tuple[int, ...]:
    """The reduced dims, those last whose elements lie nearest; in their order where it counts."""
    if problem.keeps_order:
        return problem.contracted

    def distance(d: int) -> tuple[int, int, int]:
        strides = [s.strides[d].constant for s in problem.streams if s.uses(d)]
        near = min((1 << 62 if s is None else abs(s) for s in strides), default=0)
        return near, -problem.extent(d), d

    return tuple(sorted(problem.contracted, key=distance, reverse=True))


def _is_shared(problem: Problem, number: int, threads: Sequence[int]) -> bool:
    """Whether work-items of a group read the same elements of a stream that can be staged."""
    if not can_be_staged(problem, number):
        return False
    stream = problem.streams[number]
    return any(threads[d] > 1 and not stream.uses(d) for d in problem.kept)


def _turns(problem: Problem, number: int) -> bool:
    """Whether the elements that lie nearest in a stream are not those read together."""
    stream = problem.streams[number]
    used = [d for d in problem.dims if stream.uses(d)]
    nearest = min(used, key=lambda d: abs(stream.strides[d].constant or 1 << 62), default=-1)
    return nearest >= 0 and problem.reduced[nearest]


def _turns_over(problem: Problem, number: int) -> bool:
    """Whether they are not those that neighbouring work-items read, either."""
    nearest = min(
        (d for d in problem.dims if problem.streams[number].uses(d)),
        key=lambda d: abs(problem.streams[number].strides[d].constant or 1 << 62),
    )
    own = [d for d in kept_order(problem) if problem.streams[number].uses(d)]
    return nearest not in own[-1:]


def square_warp(threads: Sequence[int], kept: Sequence[int]) -> list[int]:
    """The work-items of a warp along each dim, as near to a square as can be."""
    return _whole_warp(threads, kept, [1] * len(threads))


def warp_of(threads: Sequence[int], kept: Sequence[int], lanes: int) -> list[int]:
    """The work-items of a warp along each dim, `lanes` of them along the last kept one."""
    warp = [1] * len(threads)
    warp[kept[-1]] = lanes
    return _whole_warp(threads, kept[:-1], warp)


def _whole_warp(threads: Sequence[int], grown: Sequence[int], warp: list[int]) -> list[int]:
    """Doubles what a warp has of some dims, the least first; all work-items where that fails."""
    while math.prod(warp) < _WARP:
        even = [d for d in grown if threads[d] % (2 * warp[d]) == 0]
        if not even:
            return list(threads)
        warp[min(reversed(even), key=lambda d: warp[d])] *= 2
    return warp


def _split(problem: Problem, schedule: Schedule, target: Target) -> Iterator[Schedule]:
    """The schedule, and with its longest reduced dim in parts where groups are few."""
    yield schedule
    groups = math.prod(schedule.parts[d] for d in problem.kept)
    longest = max(problem.contracted, key=problem.extent)
    if problem.keeps_order:
        longest = problem.contracted[0]
    block = _block(schedule, longest)
    results = math.prod(problem.extent(d) for d in problem.kept)
    for count in (*_SPLITS[1:], 8 * target.cores):
        if count * results > MOST_PARTIALS:
            return
        if groups * count <= 16 * target.cores and problem.extent(longest) >= 2 * count * block:
            yield replace(
                schedule,
                parts=tuple(count if d == longest else p for d, p in enumerate(schedule.parts)),
                last_group=target.counts_groups and not problem.keeps_order,
            )


def fits(problem: Problem, schedule: Schedule, target: Target) -> bool:
    """Whether a device can run a schedule that keeps the rules."""
    return not misfit(problem, schedule, target)


def misfit(problem: Problem, schedule: Schedule, target: Target) -> str:
    """The constraint of a device or the rule that a schedule breaks; empty where it breaks none."""
    problem = schedule.computed(problem)
    items, computations = math.prod(schedule.threads), math.prod(schedule.registers)
    try:
        registers, local = registers_of(problem, schedule), local_bytes(problem, schedule)
    except LoweringError as error:
        return str(error)
    limits = (
        ("work_items", items, most_items(target)),
        ("registers", registers, REGISTERS),
        ("local_memory", local, target.local_bytes),
        ("instructions", computations, MOST_COMPUTATIONS),
        ("copies_of_an_item", _pieces(problem, schedule), _most_pieces(schedule)),
    )
    for what, value, most in limits:
        if value > most:
            return f"fits_{what}: {value} of {most}"
    if schedule.results and not target.bulk_copies:
        return "sends_results: no bulk copies"
    for d in problem.dims:
        if schedule.threads[d] > 1 and _block(schedule, d) >= 2 * problem.extent(d):
            return f"has_work: {_block(schedule, d)} points for {problem.extent(d)}"
    try:
        validate(problem, schedule)
    except LoweringError as error:
        return str(error)
    return ""


def _block(schedule: Schedule, d: int) -> int:
    return schedule.registers[d] * schedule.threads[d]


def _pieces(problem: Problem, schedule: Schedule) -> int:
    """Elements of a staged tile that a work-item copies."""
    if schedule.bulk or schedule.march:
        return 0
    items = math.prod(schedule.threads)
    tilings = tilings_of(problem, schedule)
    most = 0
    for stream, region in zip(problem.streams, schedule.staged, strict=True):
        if region:
            extents = (
                (tilings[d].tile or tilings[d].part.constant or 1)
                if problem.reduced[d]
                else tilings[d].block
                for d in problem.dims
                if stream.uses(d)
            )
            most = max(most, -(-math.prod(extents) // items))
    return most


def _most_pieces(schedule: Schedule) -> int:
    """Elements of a staged tile that a work-item can copy; those of matrices go by eights."""
    return MOST_PIECES * (8 if schedule.tensor else 1)


def ranked_on_gpu(problem: Problem, target: Target) -> list[tuple[float, Schedule]]:
    """All candidates with their estimates, the best first."""
    pairs = [(gpu_estimate(problem, s, target), s) for s in gpu_candidates(problem, target)]
    return sorted(pairs, key=lambda pair: pair[0])
