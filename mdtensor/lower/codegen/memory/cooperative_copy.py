"""Cooperative copy: the work-items of a group load a tile, then store it to local memory.

Places behind the end of a dim are filled with its last elements, which nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.bounds_checks import all_inside, axis_indices
from mdtensor.lower.codegen.base.early_tiles import early_start
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.wide_accesses import BYTES
from mdtensor.lower.codegen.memory.copy_shape import CopiedTile, copied_tile
from mdtensor.lower.codegen.memory.copy_traversal import in_other_order, walks_of
from mdtensor.lower.codegen.memory.work_item_shares import (
    CopyAccess,
    Share,
    count_of_pieces,
    divided_share,
    share_in_rows,
)
from mdtensor.lower.ir.group_statements import CopyAsync
from mdtensor.lower.ir.index import ZERO, Index, as_index, name
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import (
    Declare,
    If,
    IndexCalc,
    LetIndex,
    Set,
    Statement,
    VectorStore,
)
from mdtensor.lower.ir.values import Calc, Literal, Load, Pack, Ref, Slice, Value

MOST_PIECES = 32  # that a work-item holds on their way to local memory


@dataclass(frozen=True, slots=True)
class CooperativeCopy:
    """A cooperative copy of one tile, divided among the work-items of a group."""

    tile: CopiedTile
    share: Share

    def declared(self) -> list[Statement]:
        """Declare this work-item's coordinates in the tile, and registers for loads."""
        if self.tile.layout.stages > 1 and self.tile.is_asynchronous:
            return list(self.share.setup)
        held = (Declare(self._ref(piece)) for piece in self.share.pieces)
        return [*self.share.setup, *held]

    def fetch(self, starts: Mapping[int, Index]) -> list[Statement]:
        """Load the tile at the given start indices to registers."""
        statements: list[Statement] = []
        fetches: list[Statement] = []
        starts = self._copied_from(starts, statements)
        for piece in self.share.pieces:
            address = self._address(piece, starts, statements)
            fetch = Set(self._ref(piece), self._loaded(address))
            fetches += map(piece.guarded, self._filled(piece, starts, fetch))
        return [*statements, *fetches]

    def put(self, stage: Index = ZERO) -> list[Statement]:
        """Store the fetched registers to a stage of local memory."""
        tile, layout = self.tile, self.tile.layout
        statements: list[Statement] = []
        for piece in self.share.pieces:
            ref, place = self._ref(piece), self._place(piece, stage)
            stores = [VectorStore(layout.pointer, layout.memory, place, ref)]
            if not tile.lies_whole:
                stores = [
                    VectorStore(layout.pointer, layout.memory, place + tile.near * lane, value)
                    for lane, value in enumerate(_elements(ref, register_dtype(layout.memory)))
                ]
            statements += map(piece.guarded, stores)
        return statements

    def begin(self, starts: Mapping[int, Index], stage: Index) -> list[Statement]:
        """Start a copy to a stage of local memory; it is synchronous where it must be."""
        tile, source, layout = self.tile, self.tile.source, self.tile.layout
        if not tile.is_asynchronous:
            return [*self.fetch(starts), *self.put(stage)]
        statements: list[Statement] = []
        copies: list[Statement] = []
        step = tile.lanes if tile.frame.aligned else 1
        starts = self._copied_from(starts, statements)
        for piece in self.share.pieces:
            at, to = self._address(piece, starts, statements), self._place(piece, stage)
            for n in range(0, tile.lanes, step):
                copy = CopyAsync(layout.pointer, to + n, source.buffer, at + n, layout.memory, step)
                copies.append(piece.guarded(copy))
        return [*statements, *copies]

    def _copied_from(
        self, starts: Mapping[int, Index], statements: list[Statement]
    ) -> Mapping[int, Index]:
        """The start indices of the copied tile; shifted ones are declared as variables."""
        layout, found = self.tile.layout, dict(starts)
        for d in sorted(layout.early):
            held = f"i{layout.stream}_{d}"
            start = early_start(self.tile.frame.tilings[d], starts[d])
            statements.append(LetIndex(held, start))
            found[d] = name(held)
        return found

    def _ref(self, piece: CopyAccess) -> Ref:
        dtype = register_dtype(self.tile.source.memory)
        return Ref(f"g{self.tile.layout.stream}_{piece.number}", dtype, self.tile.lanes)

    def _loaded(self, address: Index) -> Value:
        """A wide load of a piece where buffers are aligned, else scalar loads packed."""
        buffer, memory, lanes = self.tile.source.buffer, self.tile.source.memory, self.tile.lanes
        if lanes == 1 or self.tile.frame.aligned:
            return Load(buffer, memory, address, lanes)
        return Pack(tuple(Load(buffer, memory, address + lane) for lane in range(lanes)))

    def _filled(
        self, piece: CopyAccess, starts: Mapping[int, Index], fetch: Set
    ) -> list[Statement]:
        """The statements that load a piece, with zeros outside of padded axes."""
        places = axis_indices(self.tile.stream.axes, lambda d: starts[d] + piece.along(d))
        zero = Literal(0, fetch.ref.dtype)
        if not places:
            return [fetch]
        if self.tile.lanes == 1:
            value = Calc("select", (all_inside(places), fetch.value, zero), fetch.ref.dtype)
            return [Set(fetch.ref, value)]
        guarded: Statement = fetch
        for place, extent in places:
            guarded = If(place, "<", as_index(extent), (guarded,))
            guarded = If(ZERO, "<=", place, (guarded,))
        return [Set(fetch.ref, Pack((zero,) * self.tile.lanes)), guarded]

    def _address(
        self, piece: CopyAccess, starts: Mapping[int, Index], statements: list[Statement]
    ) -> Index:
        """The address of a piece in the source; clamped indices are declared as variables."""
        tile, problem = self.tile, self.tile.frame.problem
        address = as_index(tile.source.offset)
        for d in filter(tile.stream.uses, problem.dims):
            index = starts[d] + piece.along(d)
            if d in tile.clamped:
                held = f"i{tile.layout.stream}_{piece.number}_{d}"
                last = problem.extents[d] - (tile.lanes if tile.is_along(d) else 1)
                statements.append(LetIndex(held, IndexCalc("min", index, last)))
                index = name(held)
            address = address + tile.stream.strides[d] * index
        return address

    def _place(self, piece: CopyAccess, stage: Index) -> Index:
        """The address of a piece in local memory."""
        layout = self.tile.layout
        place = stage * layout.apart if layout.stages > 1 else ZERO
        for axis in self.tile.axes:
            place = place + axis.stride * piece.along(axis.dim)
        return place


def _elements(ref: Ref, held: np.dtype) -> list[Value]:
    """The elements of a vector variable, cast to type `held`."""
    lanes: list[Value] = [Slice(ref, lane) for lane in range(ref.lanes)] if ref.lanes > 1 else [ref]
    return lanes if ref.dtype == held else [Calc("cast", (lane,), held) for lane in lanes]


def copy_of(frame: Frame, number: int, items: int) -> CooperativeCopy:
    """The cooperative copy of a stream's tile; LoweringError if too large or of symbolic extents.

    `items` are the work-items that copy.
    """
    tile = copied_tile(frame, number)
    walks = walks_of(tile)
    count, most = count_of_pieces(walks, items), MOST_PIECES
    if frame.schedule.tensor and tile.lanes == 1:
        most *= BYTES // tile.source.memory.itemsize  # the same tiles, element by element
    if count > most:
        raise LoweringError(
            f"a work-item would hold {count} pieces of a staged tile; {most} at most"
        )
    share = share_in_rows(walks, items)
    share = share or share_in_rows(in_other_order(tile, walks, items), items)
    return CooperativeCopy(tile, share or divided_share(walks, items))
