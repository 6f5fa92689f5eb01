"""The combination of a tile of reduced dims into a work-item's accumulators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.early_tiles import first_copied
from mdtensor.lower.codegen.base.frame import Frame, Tile
from mdtensor.lower.codegen.base.stream_pointers import stream_pointers
from mdtensor.lower.codegen.base.wide_accesses import lanes_of, wide_loads
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.ir.index import as_index, name
from mdtensor.lower.ir.statements import Increment, LetIndex, Loop, Statement

Counts = Mapping[int, int]
Product = Callable[[Frame, Tile], list[Statement]]


@dataclass(frozen=True, slots=True)
class CombineTile:
    """The combination of a tile into accumulators, by a matrix `product` if given."""

    frame: Frame
    tile: Tile
    product: Product | None = None

    def statements(self, whole: int) -> list[Statement]:
        """The loops over a tile; along dim `whole`, it needs no check of its end (-1 for none)."""
        early = {d for layout in self.frame.layouts.values() for d in layout.early}
        starts = [first_copied(self.frame.tilings[d], whole=d == whole) for d in sorted(early)]
        return [*starts, *self._loops(0, {}, whole)]

    def _loops(self, level: int, counts: Counts, whole: int) -> list[Statement]:
        order = self.frame.schedule.reduce_order
        if level == len(order) and self.product is not None:
            return self.product(self.frame, self.tile)
        if level == len(order):
            return [*stream_pointers(self.frame), *self._body(counts)]
        d = order[level]
        tiling = self.frame.tilings[d]
        var, start, end = tiling.var("r"), tiling.first, name(tiling.var("e"))

        def inner(count: int) -> tuple[Statement, ...]:
            return tuple(self._loops(level + 1, {**counts, d: count}, whole))

        if d == whole and tiling.tile == tiling.block:
            return [LetIndex(var, start), *inner(tiling.register)]
        item = start - name(tiling.var("t"))
        block = as_index(tiling.block)
        loops: list[Statement] = [
            LetIndex(var, start, mutable=True),
            Loop(var, None, end + item, block, inner(tiling.register)),
        ]
        if d == whole or tiling.is_even() or tiling.block == 1:
            return loops
        if tiling.threads > 1 and tiling.near > 1:
            loops.append(Increment(var, name(tiling.var("x")) * (1 - tiling.near)))
        stop = end + (tiling.threads - 1)
        loops.append(Loop(var, None, stop, as_index(tiling.threads), inner(1)))
        return loops

    def _body(self, counts: Counts) -> list[Statement]:
        frame = self.frame
        plain = Body(frame, self.tile, counts, "p", lanes=None).with_reduction()
        streams = range(frame.problem.finish_streams)
        return wide_loads(plain, {f"p{n}": _lanes_of_stream(frame, n) for n in streams})


def _lanes_of_stream(frame: Frame, number: int) -> int:
    """Elements of a stream that one access can read."""
    if number in frame.layouts:
        return frame.lanes_in_tile(number)
    return _lanes_in_place(frame, number) if frame.aligned else 1


def _lanes_in_place(frame: Frame, number: int) -> int:
    """Elements of an unstaged stream that one access can read."""
    stream = frame.problem.streams[number]
    lanes = lanes_of(frame.problem.inputs[stream.buffer])
    nearest = [d for d in frame.problem.dims if stream.strides[d].constant == 1]
    if len(nearest) != 1 or frame.tilings[nearest[0]].near % lanes:
        return 1
    if frame.is_clamped(nearest[0]) and frame.clamped_together(nearest[0]) % lanes:
        return 1
    others = [stream.strides[d].constant for d in frame.problem.dims if d != nearest[0]]
    if any(axis.coefficients[nearest[0]] for axis in stream.axes):
        return 1  # which of its elements are inside
    offsets = [as_index(r.offset).constant for r in frame.problem.reads if r.stream == number]
    even = all(n is not None and n % lanes == 0 for n in (*others, *offsets))
    return lanes if even and not any(r.computed for r in frame.problem.reads) else 1
