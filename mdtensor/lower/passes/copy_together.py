"""The work-items of a group copy a tile to local memory: fetched to registers, then put there.

A tile is copied in the order in which it lies in the source, in accesses of 16 bytes where strides
allow. Places behind the end of a dim are filled with its last elements, which nobody reads.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mdtensor.errors import LoweringError
from mdtensor.lower.asm import WARP
from mdtensor.lower.group_nest import CopyAsync
from mdtensor.lower.index import ZERO, Index, as_index, name
from mdtensor.lower.nest import (
    Calc,
    Declare,
    If,
    IndexCalc,
    LetIndex,
    Literal,
    Load,
    Pack,
    Ref,
    Set,
    Slice,
    Statement,
    Store,
    Value,
    register_dtype,
)
from mdtensor.lower.passes.frame import Frame
from mdtensor.lower.passes.inside_axes import all_inside, axis_indices
from mdtensor.lower.passes.stage_inputs import Axis, Layout, Source, source_of
from mdtensor.lower.passes.wide_accesses import BYTES, lanes_of
from mdtensor.lower.problem import Stream
from mdtensor.lower.side_by_side import may_end_inside, steps_along

MOST_PIECES = 32  # that a work-item holds on their way to local memory
SECTOR = 32  # bytes that memory is read by
BANKS, BANK_BYTES = 32, 4  # of local memory, that a warp accesses side by side
_ASYNCHRONOUS = (4, 8, 16)  # bytes of a copy that needs no work-item to wait for it


@dataclass(frozen=True, slots=True)
class Piece:
    """What a work-item copies at once: a name, coordinates by dim, and what it must be below.

    `within` is None where every work-item has such a piece.
    """

    number: int
    coordinates: Mapping[int, Index]
    within: tuple[Index, int] | None


@dataclass(frozen=True, slots=True)
class Walk:
    """A way along an axis of a tile: so many steps of so many elements, under a name."""

    axis: Axis
    length: int
    step: int
    name: str


@dataclass(frozen=True, slots=True)
class CopyTogether:
    """How a group copies one stream: its layout, source, axes nearest first, lanes, and pieces.

    Neighbouring work-items copy neighbours along the first of the `walks`.
    """

    frame: Frame
    layout: Layout
    source: Source
    axes: tuple[Axis, ...]
    lanes: int
    items: int
    walks: tuple[Walk, ...]
    setup: tuple[Statement, ...]
    pieces: tuple[Piece, ...]

    @property
    def stream(self) -> Stream:
        """What is copied."""
        return self.frame.problem.streams[self.layout.stream]

    def _ref(self, piece: Piece) -> Ref:
        dtype = register_dtype(self.source.memory)
        return Ref(f"g{self.layout.stream}_{piece.number}", dtype, self.lanes)

    def declared(self) -> list[Statement]:
        """Where elements of this work-item lie in the tile, and the registers that hold them."""
        if self.layout.stages > 1 and self.is_asynchronous:
            return list(self.setup)
        return [*self.setup, *(Declare(self._ref(piece)) for piece in self.pieces)]

    def fetch(self, starts: Mapping[int, Index], clamped: Collection[int]) -> list[Statement]:
        """Loads a tile that starts at the given indices; `clamped` dims may end inside it."""
        statements: list[Statement] = []
        fetches: list[Statement] = []
        for piece in self.pieces:
            address = self._address(piece, starts, clamped, statements)
            buffer, memory, ref = self.source.buffer, self.source.memory, self._ref(piece)
            value: Value = Load(buffer, memory, address, self.lanes)
            if self.lanes > 1 and not self.frame.aligned:
                lanes = range(self.lanes)
                value = Pack(tuple(Load(buffer, memory, address + lane) for lane in lanes))
            fetches += [_within(piece, s) for s in self._filled(piece, starts, Set(ref, value))]
        return [*statements, *fetches]

    def _filled(self, piece: Piece, starts: Mapping[int, Index], fetch: Set) -> list[Statement]:
        """What fetches a piece, or zeros where it lies outside of the stream's axes."""
        places = axis_indices(
            self.stream.axes, lambda d: starts[d] + piece.coordinates.get(d, ZERO)
        )
        zero = Literal(0, fetch.ref.dtype)
        if not places:
            return [fetch]
        if self.lanes == 1:
            value = Calc("select", (all_inside(places), fetch.value, zero), fetch.ref.dtype)
            return [Set(fetch.ref, value)]
        guarded: Statement = fetch
        for place, extent in places:
            guarded = If(place, "<", as_index(extent), (guarded,))
            guarded = If(ZERO, "<=", place, (guarded,))
        return [Set(fetch.ref, Pack((zero,) * self.lanes)), guarded]

    def _address(
        self,
        piece: Piece,
        starts: Mapping[int, Index],
        clamped: Collection[int],
        statements: list[Statement],
    ) -> Index:
        """Where a piece lies in the source; declares indices that are clamped."""
        address = as_index(self.source.offset)
        for d in self.frame.problem.dims:
            if not self.stream.uses(d):
                continue
            index = starts[d] + piece.coordinates.get(d, as_index(0))
            if d in clamped:
                held = f"i{self.layout.stream}_{piece.number}_{d}"
                tail = self.lanes if self._is_along(d) else 1
                last = self.frame.problem.extents[d] - tail
                statements.append(LetIndex(held, IndexCalc("min", index, last)))
                index = name(held)
            address = address + self.stream.strides[d] * index
        return address

    @property
    def is_asynchronous(self) -> bool:
        """Whether pieces lie in the tile as in the source, in sizes that copy themselves."""
        if self.source.memory != self.layout.memory or self.stream.axes:
            return False
        single = self.source.memory.itemsize in _ASYNCHRONOUS
        if self.lanes == 1:
            return single
        return self._lies_as_source and (self.frame.aligned or single)

    def begin(
        self, starts: Mapping[int, Index], clamped: Collection[int], stage: Index
    ) -> list[Statement]:
        """Begins to copy a tile to a stage of local memory; done at once where it has to be."""
        if not self.is_asynchronous:
            return [*self.fetch(starts, clamped), *self.put(stage)]
        statements: list[Statement] = []
        copies: list[Statement] = []
        layout, step = self.layout, self.lanes if self.frame.aligned else 1
        for piece in self.pieces:
            at, to = self._address(piece, starts, clamped, statements), self._place(piece, stage)
            for n in range(0, self.lanes, step):
                copy = CopyAsync(
                    layout.pointer, to + n, self.source.buffer, at + n, layout.memory, step
                )
                copies.append(_within(piece, copy))
        return [*statements, *copies]

    @property
    def _lies_as_source(self) -> bool:
        """Whether the elements of a piece are neighbours in the tile too."""
        stride = self.axes[0].stride if self.axes else as_index(1)
        return self.lanes > 1 and stride.constant == 1 and self._begins_aligned()

    @property
    def lies_whole(self) -> bool:
        """Whether one access stores a piece."""
        return register_dtype(self.source.memory) == self.layout.memory and self._lies_as_source

    def _place(self, piece: Piece, stage: Index) -> Index:
        place = stage * self.layout.apart if self.layout.stages > 1 else as_index(0)
        for axis in self.axes:
            place = place + axis.stride * piece.coordinates[axis.dim]
        return place

    def put(self, stage: Index = ZERO) -> list[Statement]:
        """Stores what was fetched in a stage of local memory."""
        layout = self.layout
        held = register_dtype(layout.memory)
        statements: list[Statement] = []
        for piece in self.pieces:
            ref, place = self._ref(piece), self._place(piece, stage)
            stride = self.axes[0].stride if self.axes else as_index(1)
            if self.lies_whole:
                stores: list[Statement] = [Store(layout.pointer, layout.memory, place, ref)]
            else:
                stores = []
                for lane in range(self.lanes):
                    value: Value = Slice(ref, lane) if self.lanes > 1 else ref
                    if value.dtype != held:
                        value = Calc("cast", (value,), held)
                    index = place + stride * lane
                    stores.append(Store(layout.pointer, layout.memory, index, value))
            statements += [_within(piece, store) for store in stores]
        return statements

    def _is_along(self, d: int) -> bool:
        return bool(self.axes) and self.axes[0].dim == d

    def _begins_aligned(self) -> bool:
        others = [axis.stride.constant for axis in self.axes[1:]]
        return all(stride is not None and stride % self.lanes == 0 for stride in others)


def _within(piece: Piece, statement: Statement) -> Statement:
    if piece.within is None:
        return statement
    number, count = piece.within
    return If(number, "<", as_index(count), (statement,))


def copy_of(frame: Frame, number: int, items: int) -> CopyTogether:
    """How a group copies a stream; LoweringError where the tile's extents are no numbers."""
    layout = frame.layouts[number]
    stream, source = frame.problem.streams[number], source_of(layout, frame.problem)
    if any(axis.extent.constant is None for axis in layout.axes):
        raise LoweringError("a tile in local memory needs extents that are numbers")

    def distance(axis: Axis) -> tuple[int, int]:
        stride = stream.strides[axis.dim].constant
        return (1 << 62 if stride is None else abs(stride)), axis.dim

    axes = _runs(frame, stream, sorted(layout.axes, key=distance))
    lanes = _lanes(frame, stream, source, axes)
    steps = [lanes if n == 0 else 1 for n in range(len(axes))]
    walks = tuple(
        Walk(axis, (axis.extent.constant or 1) // step, step, f"c{number}_{axis.dim}")
        for axis, step in zip(axes, steps, strict=True)
    )
    whole = CopyTogether(frame, layout, source, axes, lanes, items, walks, (), ())
    whole = replace(whole, walks=_apart_in_banks(whole))
    count = -(-math.prod(walk.length for walk in walks) // items)
    most = MOST_PIECES
    if frame.schedule.tensor and lanes == 1:
        most *= BYTES // source.memory.itemsize  # the same tiles, element by element
    if count > most:
        raise LoweringError(
            f"a work-item would hold {count} pieces of a staged tile; {most} at most"
        )
    in_rows = _in_rows(whole)
    if in_rows is None:
        walks = _points_first(whole) if lanes == 1 else _sectors_first(whole)
        in_rows = _in_rows(replace(whole, walks=walks))
    return in_rows if in_rows is not None else _divided(whole)


def _runs(frame: Frame, stream: Stream, axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes, of which those are one that go on in the tile where they go on in the source.

    So are those that share elements there, which are copied once.
    """
    found: list[Axis] = []
    for axis in axes:
        if found and _goes_on(frame, stream, found[-1], axis):
            steps = steps_along(stream, found[-1].dim, axis.dim)
            longer = found[-1].extent + (axis.extent - 1) * steps
            found[-1] = replace(found[-1], extent=longer)
        else:
            found.append(axis)
    return tuple(found)


def _goes_on(frame: Frame, stream: Stream, axis: Axis, following: Axis) -> bool:
    """Whether steps along an axis lead to all elements of the following one too."""
    dims = (axis.dim, following.dim)
    if any(may_end_inside(frame.problem, frame.tilings, d) for d in dims):
        return False
    steps = steps_along(stream, *dims)
    within = 0 < steps <= (axis.extent.constant or 0)
    return within and following.stride == axis.stride * steps


def _sectors_first(copy: CopyTogether) -> tuple[Walk, ...]:
    """The walks in an order that lets work-items be whole rows of them, if a sector is copied.

    Of the walk that is none, neighbours come first whose number work-items are a multiple of, then
    what follows, and what is left of it last.
    """
    before = 1
    for n, walk in enumerate(copy.walks):
        after = before * walk.length
        if copy.items % after == 0 or walk.length == 1:
            before = after
            continue
        length = math.gcd(walk.length, copy.items // before)
        beside = before * length * copy.lanes * copy.source.memory.itemsize
        if beside < SECTOR or length == walk.length:
            return copy.walks
        near = replace(walk, length=length)
        far = replace(
            walk, length=walk.length // length, step=walk.step * length, name=f"{walk.name}o"
        )
        return (*copy.walks[:n], near, *copy.walks[n + 1 :], far)
    return copy.walks


def _points_first(copy: CopyTogether) -> tuple[Walk, ...]:
    """The walks along points before those of a reduction, where neighbours share a sector.

    Taps of a window are few and no power of two, so that their numbers would be divided for.
    """
    reduced, strides = copy.frame.problem.reduced, copy.stream.strides
    apart = [abs(strides[walk.axis.dim].constant or SECTOR) for walk in copy.walks]
    near = [n for n, walk in enumerate(copy.walks) if not reduced[walk.axis.dim]]
    if not near or apart[near[0]] * copy.source.memory.itemsize >= SECTOR:
        return copy.walks
    return tuple(sorted(copy.walks, key=lambda walk: reduced[walk.axis.dim]))


def _lanes(frame: Frame, stream: Stream, source: Source, axes: tuple[Axis, ...]) -> int:
    """Elements that one access can take; all addresses are multiples of them."""
    if not axes or stream.strides[axes[0].dim].constant != 1:
        return 1
    d = axes[0].dim
    lanes = lanes_of(source.memory)
    if frame.schedule.tensor:
        lanes = BYTES // source.memory.itemsize if frame.aligned else 1
    tiling = frame.tilings[d]
    offset = as_index(source.offset).constant
    others = [stream.strides[e].constant for e in frame.problem.dims if e != d and stream.uses(e)]
    extent, inside = tiling.extent.constant, axes[0].extent.constant or 1
    multiples = (extent, inside, tiling.block, offset, *others)
    return lanes if all(m is not None and m % lanes == 0 for m in multiples) else 1


def _apart_in_banks(copy: CopyTogether) -> tuple[Walk, ...]:
    """The walks in an order in which neighbours put single elements in different banks.

    Work-items walk along what lies in a run in the source first. Behind it, neighbours in the
    source are as far as those at the end of a run, so that the order is free.
    """
    walks = copy.walks
    strides = [walk.axis.stride.constant or 0 for walk in walks]
    if copy.frame.schedule.tensor or copy.lies_whole or 1 not in strides:
        return walks
    run, lanes = 1, walks[0].length
    while run < len(walks) and _continues(copy, walks[run - 1].axis, walks[run].axis):
        lanes *= walks[run].length
        run += 1
    beside = strides.index(1)
    if lanes >= WARP or beside <= run:
        return walks
    between = walks[run]
    words = strides[run] * copy.layout.memory.itemsize // BANK_BYTES
    count = min(WARP // lanes, BANKS // math.gcd(words, BANKS))
    while between.length % count:
        count //= 2
    near = replace(between, length=count)
    far = replace(
        between, length=between.length // count, step=between.step * count, name=f"{between.name}o"
    )
    split = [walk for walk in (near, walks[beside], far) if walk.length > 1]
    return (*walks[:run], *split, *walks[run + 1 : beside], *walks[beside + 1 :])


def _continues(copy: CopyTogether, axis: Axis, following: Axis) -> bool:
    """Whether a tile's next step along an axis follows the last one along another in the source."""
    strides = copy.stream.strides
    first, second = strides[axis.dim].constant, strides[following.dim].constant
    return first is not None and second == first * (axis.extent.constant or 0)


def _with_sizes_before(walks: tuple[Walk, ...]) -> list[tuple[Walk, int]]:
    """Walks with the number of accesses to all that lie nearer."""
    result: list[tuple[Walk, int]] = []
    before = 1
    for walk in walks:
        result.append((walk, before))
        before *= walk.length
    return result


def _pieces(copy: CopyTogether) -> list[tuple[int, Index, tuple[Index, int] | None]]:
    """Number of every piece of a work-item, its number among all of the group, and the limit."""
    count = math.prod(walk.length for walk in copy.walks)
    found: list[tuple[int, Index, tuple[Index, int] | None]] = []
    for n in range(-(-count // copy.items)):
        linear = name("item") + n * copy.items if copy.items > 1 else as_index(n)
        found.append((n, linear, None if (n + 1) * copy.items <= count else (linear, count)))
    return found


def _in_rows(copy: CopyTogether) -> CopyTogether | None:
    """The copy whose coordinates are those of the first piece plus constants; None if none is."""
    sizes = _with_sizes_before(copy.walks)
    setup: list[Statement] = []
    for walk, before in sizes:
        if _is_shared(copy, walk, before):
            setup += _first_coordinate(copy, walk, before)
    pieces: list[Piece] = []
    for n, _, within in _pieces(copy):
        coordinates = dict.fromkeys((axis.dim for axis in copy.axes), ZERO)
        for walk, before in sizes:
            position = _position(copy, walk, before, n)
            if position is None:
                return None
            coordinates[walk.axis.dim] += position
        pieces.append(Piece(n, coordinates, within))
    return replace(copy, setup=tuple(setup), pieces=tuple(pieces))


def _divided(copy: CopyTogether) -> CopyTogether:
    """The copy that divides the number of every piece for its coordinates."""
    setup: list[Statement] = []
    pieces: list[Piece] = []
    for n, linear, within in _pieces(copy):
        coordinates = dict.fromkeys((axis.dim for axis in copy.axes), ZERO)
        rest = linear
        for walk in copy.walks:
            length, held = as_index(walk.length), f"{walk.name}_{n}"
            setup.append(LetIndex(held, IndexCalc("%", rest, length)))
            setup.append(LetIndex(f"{held}_rest", IndexCalc("/", rest, length)))
            rest = name(f"{held}_rest")
            coordinates[walk.axis.dim] += name(held) * walk.step
        pieces.append(Piece(n, coordinates, within))
    return replace(copy, setup=tuple(setup), pieces=tuple(pieces))


def _is_shared(copy: CopyTogether, walk: Walk, before: int) -> bool:
    """Whether the work-items lie at different places of a walk, whole rows of those below."""
    rows = copy.items % before == 0 and before < copy.items
    return copy.items > 1 and rows and walk.length > 1


def _position(copy: CopyTogether, walk: Walk, before: int, n: int) -> Index | None:
    """The coordinate along a walk of a work-item's n-th piece; None where it needs a division."""
    length, items, scale = walk.length, copy.items, walk.step
    if length == 1:
        return as_index(0)
    if before % items == 0:
        return as_index(n * items // before % length * scale)
    if not _is_shared(copy, walk, before):
        return None
    mine = name(walk.name) * scale
    after = before * length
    if walk is copy.walks[-1]:
        return mine + n * (items // before) * scale
    if items % after == 0:
        return mine
    return mine + n * (items // before) % length * scale if after % items == 0 else None


def _first_coordinate(copy: CopyTogether, walk: Walk, before: int) -> list[Statement]:
    """Declares the coordinate along a walk of a work-item's first piece."""
    length, held = walk.length, walk.name
    whole = IndexCalc("/", name("item"), as_index(before))
    if walk is copy.walks[-1] or before * length >= copy.items:
        return [LetIndex(held, whole)]
    rest = f"{held}_rest"
    part = IndexCalc("%", name(rest), as_index(length))
    return [LetIndex(rest, whole), LetIndex(held, part)]
