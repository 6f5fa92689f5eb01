"""The work-items of a group copy a tile to local memory: fetched to registers, then put there.

A tile is copied in the order in which it lies in the source, in accesses of 16 bytes where strides
allow. Places behind the end of a dim are filled with its last elements, which nobody reads.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from mdtensor.errors import LoweringError
from mdtensor.lower.index import ZERO, Index, as_index, name
from mdtensor.lower.nest import (
    Calc,
    CopyAsync,
    Declare,
    If,
    IndexCalc,
    LetIndex,
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
from mdtensor.lower.passes.micro_kernel import Frame
from mdtensor.lower.passes.stage_inputs import Axis, Layout, Source, source_of
from mdtensor.lower.passes.wide_accesses import BYTES, lanes_of
from mdtensor.lower.problem import Stream

MOST_PIECES = 32  # that a work-item holds on their way to local memory
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
class CopyTogether:
    """How a group copies one stream: its layout, source, axes nearest first, lanes, and pieces."""

    frame: Frame
    layout: Layout
    source: Source
    axes: tuple[Axis, ...]
    lanes: int
    items: int
    setup: tuple[Statement, ...]
    pieces: tuple[Piece, ...]

    @property
    def _stream(self) -> Stream:
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
            fetches.append(_within(piece, Set(ref, value)))
        return [*statements, *fetches]

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
            if not self._stream.uses(d):
                continue
            index = starts[d] + piece.coordinates.get(d, as_index(0))
            if d in clamped:
                held = f"i{self.layout.stream}_{piece.number}_{d}"
                tail = self.lanes if self._is_along(d) else 1
                last = self.frame.problem.extents[d] - tail
                statements.append(LetIndex(held, IndexCalc("min", index, last)))
                index = name(held)
            address = address + self._stream.strides[d] * index
        return address

    @property
    def is_asynchronous(self) -> bool:
        """Whether pieces lie in the tile as in the source, in sizes that copy themselves."""
        if self.source.memory != self.layout.memory:
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
    def _is_whole(self) -> bool:
        """Whether one access stores a piece."""
        return register_dtype(self.source.memory) == self.layout.memory and self._lies_as_source

    def _place(self, piece: Piece, stage: Index) -> Index:
        place = stage * self.layout.apart if self.layout.stages > 1 else as_index(0)
        for axis in self.layout.axes:
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
            if self._is_whole:
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
        others = [axis.stride.constant for axis in self.layout.axes if axis is not self.axes[0]]
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

    axes = tuple(sorted(layout.axes, key=distance))
    lanes = _lanes(frame, stream, source, axes)
    whole = CopyTogether(frame, layout, source, axes, lanes, items, (), ())
    count = -(-math.prod(_length(whole, axis) for axis in axes) // items)
    most = MOST_PIECES
    if frame.schedule.tensor and lanes == 1:
        most *= BYTES // source.memory.itemsize  # the same tiles, element by element
    if count > most:
        raise LoweringError(
            f"a work-item would hold {count} pieces of a staged tile; {most} at most"
        )
    in_rows = _in_rows(whole)
    return in_rows if in_rows is not None else _divided(whole)


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


def _with_sizes_before(axes: tuple[Axis, ...], lanes: int) -> list[tuple[Axis, int]]:
    """Axes with the number of accesses to all axes that lie nearer."""
    result: list[tuple[Axis, int]] = []
    before = 1
    for n, axis in enumerate(axes):
        result.append((axis, before))
        before *= (axis.extent.constant or 1) // (lanes if n == 0 else 1)
    return result


def _length(copy: CopyTogether, axis: Axis) -> int:
    return (axis.extent.constant or 1) // (copy.lanes if axis is copy.axes[0] else 1)


def _scale(copy: CopyTogether, axis: Axis) -> int:
    return copy.lanes if axis is copy.axes[0] else 1


def _pieces(copy: CopyTogether) -> list[tuple[int, Index, tuple[Index, int] | None]]:
    """Number of every piece of a work-item, its number among all of the group, and the limit."""
    count = math.prod(_length(copy, axis) for axis in copy.axes)
    found: list[tuple[int, Index, tuple[Index, int] | None]] = []
    for n in range(-(-count // copy.items)):
        linear = name("item") + n * copy.items if copy.items > 1 else as_index(n)
        found.append((n, linear, None if (n + 1) * copy.items <= count else (linear, count)))
    return found


def _in_rows(copy: CopyTogether) -> CopyTogether | None:
    """The copy whose coordinates are those of the first piece plus constants; None if none is."""
    sizes = _with_sizes_before(copy.axes, copy.lanes)
    setup: list[Statement] = []
    for axis, before in sizes:
        if _is_shared(copy, axis, before):
            setup += _first_coordinate(copy, axis, before)
    pieces: list[Piece] = []
    for n, _, within in _pieces(copy):
        coordinates: dict[int, Index] = {}
        for axis, before in sizes:
            position = _position(copy, axis, before, n)
            if position is None:
                return None
            coordinates[axis.dim] = position
        pieces.append(Piece(n, coordinates, within))
    return replace(copy, setup=tuple(setup), pieces=tuple(pieces))


def _divided(copy: CopyTogether) -> CopyTogether:
    """The copy that divides the number of every piece for its coordinates."""
    setup: list[Statement] = []
    pieces: list[Piece] = []
    for n, linear, within in _pieces(copy):
        coordinates: dict[int, Index] = {}
        rest = linear
        for axis in copy.axes:
            length, held = as_index(_length(copy, axis)), f"{_coordinate_name(copy, axis)}_{n}"
            setup.append(LetIndex(held, IndexCalc("%", rest, length)))
            setup.append(LetIndex(f"{held}_rest", IndexCalc("/", rest, length)))
            rest = name(f"{held}_rest")
            coordinates[axis.dim] = name(held) * _scale(copy, axis)
        pieces.append(Piece(n, coordinates, within))
    return replace(copy, setup=tuple(setup), pieces=tuple(pieces))


def _is_shared(copy: CopyTogether, axis: Axis, before: int) -> bool:
    """Whether the work-items lie at different coordinates of an axis, whole rows of those below."""
    rows = copy.items % before == 0 and before < copy.items
    return copy.items > 1 and rows and _length(copy, axis) > 1


def _position(copy: CopyTogether, axis: Axis, before: int, n: int) -> Index | None:
    """The coordinate along an axis of a work-item's n-th piece; None where it needs a division."""
    length, items, scale = _length(copy, axis), copy.items, _scale(copy, axis)
    if length == 1:
        return as_index(0)
    if before % items == 0:
        return as_index(n * items // before % length * scale)
    if not _is_shared(copy, axis, before):
        return None
    mine = name(_coordinate_name(copy, axis)) * scale
    after = before * length
    if axis is copy.axes[-1]:
        return mine + n * (items // before) * scale
    if items % after == 0:
        return mine
    return mine + n * (items // before) % length * scale if after % items == 0 else None


def _coordinate_name(copy: CopyTogether, axis: Axis) -> str:
    return f"c{copy.layout.stream}_{axis.dim}"


def _first_coordinate(copy: CopyTogether, axis: Axis, before: int) -> list[Statement]:
    """Declares the coordinate along an axis of a work-item's first piece."""
    length, held = _length(copy, axis), _coordinate_name(copy, axis)
    whole = IndexCalc("/", name("item"), as_index(before))
    if axis is copy.axes[-1] or before * length >= copy.items:
        return [LetIndex(held, whole)]
    rest = f"{held}_rest"
    part = IndexCalc("%", name(rest), as_index(length))
    return [LetIndex(rest, whole), LetIndex(held, part)]
