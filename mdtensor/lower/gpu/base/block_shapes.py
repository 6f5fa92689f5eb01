"""Block shapes on GPUs: points, work-items and tiles of every dim.

Kept dims fall into two sides: the columns, which the stream that lies along the results walks
through, and the rows, whose points share its elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from mdtensor.dataclass import dataclass
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule

POINTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)  # of a work-item along a kept dim
UNROLLED = 8  # steps of reduced dims that a work-item computes between two tests for an end
_STORED = 4  # results beside each other that one access stores
_SECTOR = 8  # elements of what memory is read by
_LONG = 64  # extents of which nobody minds what is left over by whole steps
_ABOVE = 1.75  # times what was asked for that a whole part of a short dim may have
_WORTH_FETCHING = 8  # accesses to a tile of several dims, which wait in registers for their turn
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class TileDims:
    """Dims of the columns and of the rows, each from the smallest stride up."""

    columns: tuple[int, ...]
    rows: tuple[int, ...]


@lru_cache(64)
def sides_of(problem: Problem) -> TileDims:
    """The kept dims divided into columns and rows."""
    problem = zero_filled(problem)

    def distance(d: int) -> tuple[int, int]:
        strides = [write.strides[d].constant for write in problem.writes]
        return min(1 << 62 if s is None else abs(s) for s in strides), d

    kept = tuple(sorted(problem.kept, key=distance))
    if not kept:
        return TileDims((), ())
    along = [s for s in problem.streams[: problem.finish_streams] if s.uses(kept[0])]
    columns = tuple(d for d in kept if all(s.uses(d) for s in along))
    shared = tuple(
        d
        for d in columns
        if d == kept[0] or not all(s.uses(d) for s in problem.streams[: problem.finish_streams])
    )
    return TileDims(shared, tuple(d for d in kept if d not in columns))


@lru_cache(64)
def kept_order(problem: Problem) -> tuple[int, ...]:
    """The kept dims, rows before columns, with the smallest strides last."""
    sides = sides_of(problem)
    sorted_out = (*reversed(sides.rows), *reversed(sides.columns))
    return (*(d for d in problem.kept if d not in sorted_out), *sorted_out)


@lru_cache(64)
def reduced_order(problem: Problem) -> tuple[int, ...]:
    """The reduced dims by descending stride; in their own order for order-keeping operators."""
    if problem.keeps_order:
        return problem.contracted

    def distance(d: int) -> tuple[int, int, int]:
        strides = [s.strides[d].constant for s in problem.streams if s.uses(d)]
        near = min((1 << 62 if s is None else abs(s) for s in strides), default=0)
        return near, -problem.extent(d), d

    return tuple(sorted(problem.contracted, key=distance, reverse=True))


def can_be_staged(problem: Problem, number: int) -> bool:
    """Whether a stream can be staged in local memory."""
    return number < problem.finish_streams and problem.is_plain(number)


@lru_cache(256)
def item_counts(extent: int) -> tuple[int, ...]:
    """Candidate numbers of work-items along a dim: round ones, divisors, and exact covers."""
    counts = {n for n in _COUNTS if n < 2 * extent}
    counts |= {n for n in range(1, _COUNTS[-1] + 1) if extent % n == 0}
    counts |= {-(-extent // points) for points in POINTS}
    return tuple(sorted(n for n in counts if n <= _COUNTS[-1]))


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The shape of a group's block: points and work-items per dim, tiles of reduced dims.

    The work-items of a group that share a reduction are `sharing`; where none do, of every reduced
    dim so many steps are unrolled as `points` says. With `beside`, columns follow what is read.
    """

    points: tuple[int, ...]
    items: tuple[int, ...]
    chunks: tuple[int, ...]
    tiles: tuple[int, ...]
    sharing: int
    beside: bool


@dataclass(frozen=True, slots=True)
class _Shares:
    """Dims in the order in which they receive points, and work-items, with limits of some.

    `stored` are those of a work-item, `near` of a group.
    """

    points: Sequence[int]
    items: Sequence[int]
    stored: Mapping[int, int] = field(default_factory=dict[int, int])
    near: Mapping[int, int] = field(default_factory=dict[int, int])


# Triples of dim, points and work-items, in the order of `_Shares.points`.
_Shared = tuple[tuple[int, int, int], ...]


class BlockShapes:
    """The factory of one problem's blocks, with their common facts computed once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.extents = tuple(map(problem.extent, problem.dims))
        self.sides = sides_of(problem)
        self.kept = kept_order(problem)
        self.reduced = reduced_order(problem)
        self._nearest = self.reduced[-1]
        self._distances = tuple(self._source_distance(d) for d in problem.dims)
        streams = problem.streams
        self._uses = tuple(tuple(d for d in problem.dims if s.uses(d)) for s in streams)
        self._stageable = tuple(can_be_staged(problem, n) for n in range(len(streams)))
        # Kept dims whose work-items read the same elements of a stream.
        self._sharing = tuple(tuple(d for d in problem.kept if not s.uses(d)) for s in streams)
        self._turns = tuple(self._is_turned(n) for n in range(len(streams)))
        self._turns_over = tuple(self._needs_transpose(n) for n in range(len(streams)))
        self._along = any(s.strides[self._nearest].constant == 1 for s in streams)
        self._wide = tuple(self._lanes(n) for n in range(len(streams)))
        self._rows: dict[tuple[bool, int, int], _Shared] = {}
        self._columns: dict[tuple[int, int, int], _Shared] = {}
        self._steps: dict[int, dict[int, tuple[int, int]]] = {}

    def block(
        self,
        points: tuple[int, int],
        items: tuple[int, int],
        depth: int,
        sharing: int = 1,
        *,
        by_source: bool = False,
        beside: int = 0,
    ) -> BlockShape:
        """A block from points per work-item and work-items, both by rows and columns.

        A work-item's rows are neighbours in the result, or `by_source` in what is read. So are a
        group's columns; or no more than `beside` of them are neighbours in the result, and the
        others in what is read, where memory would else bring much that no work-item needs.
        `depth` is the extent of a tile of the reduced dim that lies nearest, or what each of
        `sharing` work-items takes of it at once.
        """
        count = len(self.extents)
        registers, chunks, threads, tiles = [1] * count, [1] * count, [1] * count, [0] * count
        rows = self._rows_of(points[0], items[0], by_source)
        columns = self._columns_of(points[1], items[1], beside)
        for d, own, among in (*rows, *columns):
            registers[d], threads[d] = own, among
            chunks[d] = 4 if own % 4 == 0 else 2 if own % 2 == 0 else 1
        stored = 1
        for d, _, _ in columns:
            if stored >= _STORED:  # lanes lie side by side behind what one access takes
                chunks[d] = 1
            stored *= chunks[d]
        if sharing > 1:
            threads[self._nearest] = sharing
            registers[self._nearest] = depth
            chunks[self._nearest] = min(4, depth)
        else:
            for d, (steps, tile) in self._steps_and_tiles(depth).items():
                registers[d] = chunks[d] = steps
                tiles[d] = tile
            if not any(self._staged(threads)):
                tiles = [0] * count
        over = beside > 0 and self._turns != self._turns_over
        held, shared = tuple(registers), tuple(threads)
        return BlockShape(held, shared, tuple(chunks), tuple(tiles), sharing, over)

    def schedule(self, block: BlockShape, *, streaming: bool = False) -> Schedule:
        """The schedule of a block, with one group per block."""
        alone, staged = block.sharing == 1, self.staged(block)
        order = (*self.kept, *self.reduced)
        if not self._along and not alone:
            order = (*self.reduced, *self.kept)
        parts = [1] * len(self.extents)
        for d in self.kept:
            parts[d] = -(-self.extents[d] // (block.points[d] * block.items[d]))
        turns = self._turns_over if block.beside else self._turns
        padding = tuple(
            4 if region and turned else 0 for region, turned in zip(staged, turns, strict=True)
        )
        return Schedule(
            asm="gpu",
            parts=tuple(parts),
            tiles=block.tiles,
            threads=block.items,
            registers=block.points,
            lane=-1,
            width=1,
            group_order=order,
            loop_order=self.kept,
            reduce_order=self.reduced,
            staged=staged,
            streaming=streaming,
            resident=True,
            chunks=block.chunks,
            warp=tuple(square_warp(block.items, self.kept)) if alone else (),
            padding=padding if any(padding) else (),
            prefetch=self._prefetches(block, staged),
        )

    def staged(self, block: BlockShape) -> tuple[str, ...]:
        """The region in which each stream is staged, by number."""
        return self._staged(block.items) if block.sharing == 1 else ("",) * len(self._uses)

    def _staged(self, threads: Sequence[int]) -> tuple[str, ...]:
        """The staging of streams: those that work-items of a group share are staged."""
        return tuple(
            "local" if stageable and any(threads[d] > 1 for d in dims) else ""
            for stageable, dims in zip(self._stageable, self._sharing, strict=True)
        )

    def _prefetches(self, block: BlockShape, staged: tuple[str, ...]) -> bool:
        """Whether the next tile is fetched while the current one is computed."""
        if not any(staged) or sum(tile > 0 for tile in block.tiles) != 1:
            return False
        return len(self.reduced) == 1 or self._most_accesses(block, staged) <= _WORTH_FETCHING

    def _most_accesses(self, block: BlockShape, staged: tuple[str, ...]) -> float:
        """The most accesses of a work-item to copy a staged tile, of up to four elements each."""
        items, found = math.prod(block.items), 0.0
        lengths = [self._length_of_tile(block, d) for d in self.problem.dims]
        for region, uses, lanes in zip(staged, self._uses, self._wide, strict=True):
            if region:
                found = max(found, math.prod([lengths[d] for d in uses]) / items / lanes)
        return found

    def _length_of_tile(self, block: BlockShape, d: int) -> int:
        """The extent of a staged tile along a dim, as the dim's tiling rounds it."""
        length = block.points[d] * block.items[d]
        if not self.problem.reduced[d]:
            return length
        whole = -(-self.extents[d] // length) * length
        tile = -(-block.tiles[d] // length) * length
        return tile if 0 < tile < whole else whole

    def _rows_of(self, number: int, among: int, by_source: bool) -> _Shared:
        key = by_source, number, among
        found = self._rows.get(key)
        if found is None:
            rows = self.sides.rows
            near = sorted(rows, key=self._distances.__getitem__) if by_source else rows
            found = self._rows[key] = self._shared_out(_Shares(near, rows), number, among)
        return found

    def _columns_of(self, number: int, among: int, beside: int) -> _Shared:
        key = beside, number, among
        found = self._columns.get(key)
        if found is None:
            shares = self._by_source(self.sides.columns, beside)
            found = self._columns[key] = self._shared_out(shares, number, among)
        return found

    def _by_source(self, columns: Sequence[int], beside: int) -> _Shares:
        """Shares of columns: `beside` results first, then a sector's elements of the source."""
        if not beside or len(columns) < 2:
            return _Shares(columns, columns)
        first = columns[0]
        order = sorted(columns[1:], key=self._distances.__getitem__)
        near = {first: beside, order[0]: _SECTOR}
        return _Shares((first, *order), (first, *order), {first: _STORED}, near)

    def _shared_out(self, shares: _Shares, number: int, among: int) -> _Shared:
        """Distribute points, then work-items, over the dims of a side."""
        points: dict[int, int] = {}
        threads: dict[int, int] = {}
        for d in shares.points:
            most = min(number, shares.stored.get(d, number))
            points[d] = min(most, 1 << (self.extents[d].bit_length() - 1))
            number = max(1, number // points[d])
        for d in shares.items:
            extent = self.extents[d]
            most = min(among, -(-extent // points[d]))
            most = min(most, max(1, shares.near.get(d, extent) // points[d]))
            counts = [n for n in item_counts(extent) if n <= most]
            threads[d] = counts[-1]
            whole = [n for n in counts if extent % (points[d] * n) == 0]
            if whole and 4 * whole[-1] >= 3 * threads[d]:
                threads[d] = whole[-1]
            among = max(1, among // threads[d])
        return tuple((d, points[d], threads[d]) for d in shares.points)

    def _steps_and_tiles(self, depth: int) -> dict[int, tuple[int, int]]:
        """Unrolled steps and the extent of a tile (0: the whole dim), by reduced dim.

        Both are filled from the innermost dim outwards: short dims are whole, and what is asked for
        beyond them is of the next one.
        """
        found = self._steps.get(depth)
        if found is not None:
            return found
        found = self._steps[depth] = {}
        steps, left = UNROLLED, depth
        for d in reversed(self.reduced):
            extent = self.extents[d]
            if self.problem.keeps_order or extent % UNROLLED == 0 or extent > _LONG:
                here = (steps, left)
            else:
                unrolled = _divisor_near(extent, steps)
                here = (unrolled, _divisor_near(extent, max(unrolled, left), unrolled))
            is_whole = here[1] >= extent
            found[d] = (here[0], 0 if is_whole else here[1])
            steps = max(1, steps // here[0]) if is_whole else 1
            left = max(1, left // extent) if is_whole else 1
        return found

    def _source_distance(self, d: int) -> int:
        """The smallest stride along a dim among streams that use it, in elements."""
        strides = [s.strides[d].constant for s in self.problem.streams if s.uses(d)]
        return min((1 << 62 if s is None else abs(s) for s in strides), default=1 << 62)

    def _nearest_of(self, number: int) -> int:
        """The dim of a stream's smallest stride; -1 where it uses none."""
        strides = self.problem.streams[number].strides
        near = ((abs(strides[d].constant or 1 << 62), d) for d in self._uses[number])
        return min(near, default=(0, -1))[1]

    def _is_turned(self, number: int) -> bool:
        """Whether a stream with rows is contiguous along a reduced dim."""
        reduced, nearest = self.problem.reduced, self._nearest_of(number)
        has_rows = any(not reduced[d] for d in self._uses[number])
        return has_rows and reduced[nearest]

    def _needs_transpose(self, number: int) -> bool:
        """Whether a stream is not contiguous along the dim of adjacent work-items."""
        own = [d for d in self.kept if d in self._uses[number]]
        return self._nearest_of(number) not in own[-1:]

    def _lanes(self, number: int) -> int:
        """Elements of a stream that one access to its source takes."""
        strides = self.problem.streams[number].strides
        near = [self.extents[d] for d in self.problem.dims if strides[d].constant == 1]
        return 4 if near and near[0] % 4 == 0 else 1


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
    """The schedule of a block, see `BlockShapes.block`."""
    blocks = BlockShapes(problem)
    block = blocks.block(points, items, depth, sharing, by_source=by_source, beside=beside)
    return blocks.schedule(block)


def _divisor_near(extent: int, number: int, of: int = 1) -> int:
    """The largest divisor of an extent, a multiple of `of`, at most slightly above `number`."""
    most = number * _ABOVE
    return max(n for n in range(of, extent + 1, of) if extent % n == 0 and (n <= most or n == of))


def square_warp(threads: Sequence[int], kept: Sequence[int]) -> list[int]:
    """The work-items of a warp along each dim, as near to a square as possible."""
    return _whole_warp(threads, kept, [1] * len(threads))


def warp_of(threads: Sequence[int], kept: Sequence[int], lanes: int) -> list[int]:
    """The work-items of a warp along each dim, `lanes` of them along the last kept one."""
    warp = [1] * len(threads)
    warp[kept[-1]] = lanes
    return _whole_warp(threads, kept[:-1], warp)


def _whole_warp(threads: Sequence[int], grown: Sequence[int], warp: list[int]) -> list[int]:
    """A warp with the smallest of some dims doubled until full; `threads` where that fails."""
    while math.prod(warp) < WARP:
        even = [d for d in grown if threads[d] % (2 * warp[d]) == 0]
        if not even:
            return list(threads)
        warp[min(reversed(even), key=lambda d: warp[d])] *= 2
    return warp
