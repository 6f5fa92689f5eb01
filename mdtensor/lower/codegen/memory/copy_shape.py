"""The shape of a copy to local memory: axes, strides and access width on both sides.

Elements are copied in the order of the source, where neighbours share sectors of memory, and
several at once where all strides allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.source_layout import may_end_inside, steps_along
from mdtensor.lower.codegen.base.staged_layouts import TileAxis, TileLayout
from mdtensor.lower.codegen.base.wide_accesses import BYTES, lanes_of
from mdtensor.lower.codegen.memory.stage_inputs import CopySource, source_of
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.problem.problem import Stream

_ASYNCHRONOUS = (4, 8, 16)  # bytes of a copy that needs no work-item to wait for it


@dataclass(frozen=True, slots=True)
class CopiedTile:
    """A stream's tile to copy: its layout, source, axes (nearest first), and lanes per access.

    An access takes `lanes` elements along the first of the axes, whose extent they divide. Dims
    that are `clamped` may end inside of the tile.
    """

    frame: Frame
    layout: TileLayout
    source: CopySource
    axes: tuple[TileAxis, ...]
    lanes: int
    clamped: frozenset[int]

    @property
    def stream(self) -> Stream:
        """The stream to copy."""
        return self.frame.problem.streams[self.layout.stream]

    @property
    def near(self) -> Index:
        """The stride in the tile between elements adjacent in the source."""
        return self.axes[0].stride if self.axes else as_index(1)

    def is_along(self, d: int) -> bool:
        """Whether elements adjacent in the source are adjacent along a dim."""
        return bool(self.axes) and self.axes[0].dim == d

    @property
    def is_asynchronous(self) -> bool:
        """Whether the copy can be asynchronous: equal layouts, and a supported size."""
        if self.source.memory != self.layout.memory or self.stream.axes:
            return False
        single = self.source.memory.itemsize in _ASYNCHRONOUS
        if self.lanes == 1:
            return single
        return self._lies_as_source and (self.frame.aligned or single)

    @property
    def lies_whole(self) -> bool:
        """Whether every wide load can be stored by one wide store."""
        return register_dtype(self.source.memory) == self.layout.memory and self._lies_as_source

    @property
    def _lies_as_source(self) -> bool:
        """Whether the lanes of an access are contiguous and aligned in the tile, too."""
        others = [axis.stride.constant for axis in self.axes[1:]]
        aligned = all(stride is not None and stride % self.lanes == 0 for stride in others)
        return self.lanes > 1 and self.near.constant == 1 and aligned


def copied_tile(frame: Frame, number: int) -> CopiedTile:
    """The tile of a staged stream; LoweringError where its extents are symbolic."""
    layout = frame.layouts[number]
    stream, source = frame.problem.streams[number], source_of(layout, frame.problem)
    if any(axis.extent.constant is None for axis in layout.axes):
        raise LoweringError("a tile in local memory needs extents that are numbers")

    def distance(axis: TileAxis) -> tuple[int, int]:
        stride = stream.strides[axis.dim].constant
        return (1 << 62 if stride is None else abs(stride)), axis.dim

    axes = _runs(frame, stream, sorted(layout.axes, key=distance))
    lanes = _lanes(frame, stream, source, axes)
    dims = frame.problem.dims
    clamped = frozenset(d for d in dims if may_end_inside(frame.problem, frame.tilings, d))
    return CopiedTile(frame, layout, source, axes, lanes, clamped - layout.early)


def _runs(frame: Frame, stream: Stream, axes: Sequence[TileAxis]) -> tuple[TileAxis, ...]:
    """The axes, with those merged that are contiguous in both the source and the tile.

    Axes that share elements in both are merged too, and copied once.
    """
    found: list[TileAxis] = []
    for axis in axes:
        if found and _goes_on(frame, stream, found[-1], axis):
            steps = steps_along(stream, found[-1].dim, axis.dim)
            longer = found[-1].extent + (axis.extent - 1) * steps
            found[-1] = replace(found[-1], extent=longer)
        else:
            found.append(axis)
    return tuple(found)


def _goes_on(frame: Frame, stream: Stream, axis: TileAxis, following: TileAxis) -> bool:
    """Whether one axis continues another without a gap, in both the source and the tile."""
    dims = (axis.dim, following.dim)
    if any(may_end_inside(frame.problem, frame.tilings, d) for d in dims):
        return False
    steps = steps_along(stream, *dims)
    within = 0 < steps <= (axis.extent.constant or 0)
    return within and following.stride == axis.stride * steps


def _lanes(frame: Frame, stream: Stream, source: CopySource, axes: tuple[TileAxis, ...]) -> int:
    """Elements per access: several if all addresses are multiples of their number, else 1."""
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
