"""Layouts of staged (packed) tiles in nearer memory.

The layout of a staged tile is outer blocks of the kept dims, then the reduced dims, then the points
inside a block, the lane dim innermost and padded to whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.early_tiles import early_dims
from mdtensor.lower.codegen.base.source_layout import places_as_source
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scratch_memory import ALIGNMENT, size_of_tile, staged_dtype
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling

OUTER, FULL, INNER = "outer", "full", "inner"


@dataclass(frozen=True, slots=True)
class TileAxis:
    """An axis of a staged tile: blocks of a dim, all its points, or the points inside a block."""

    dim: int
    part: str
    extent: Index
    stride: Index


@dataclass(frozen=True, slots=True)
class TileLayout:
    """The layout of a staged tile; axes outermost first, sizes in elements.

    Along `early` dims the last tile begins so early that it is whole (see `early_tiles`). A stream
    that is read at several places has a tile for each, one after the other: the halves of complex
    numbers, which lie between each other in memory, lie apart.
    """

    stream: int
    region: str
    memory: np.dtype
    axes: tuple[TileAxis, ...]
    size: Index
    stages: int = 1
    early: frozenset[int] = frozenset()
    places: tuple[Index, ...] = ()

    def start_of(self, place: Index | int) -> Index:
        """The first element of the sub-tile for reads at one offset."""
        if len(self.places) < 2:
            return as_index(0)
        return self.size_of_place * self.places.index(as_index(place))

    @property
    def size_of_place(self) -> Index:
        """Elements of the sub-tile for reads at one offset."""
        outermost = self.axes[0] if self.axes else None
        return as_index(1) if outermost is None else outermost.stride * outermost.extent

    @property
    def apart(self) -> int:
        """Elements between the starts of two pipeline stages, rounded up to whole lines."""
        assert self.size.constant is not None
        return -(-self.size.constant // ALIGNMENT) * ALIGNMENT

    def stride(self, dim: int, part: str) -> Index:
        """The stride of an axis; 0 where the tile lacks it."""
        return next((a.stride for a in self.axes if (a.dim, a.part) == (dim, part)), as_index(0))

    def has(self, dim: int, part: str) -> bool:
        """Whether the tile has an axis for a dim's `part`."""
        return any((axis.dim, axis.part) == (dim, part) for axis in self.axes)

    @property
    def pointer(self) -> str:
        """The name of the staged tile in the kernel."""
        return f"S{self.stream}"


def layouts_of(
    problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> dict[int, TileLayout]:
    """The layout of every staged stream."""
    result: dict[int, TileLayout] = {}
    if schedule.march:
        return result  # planes have layouts of their own (see `plane_prefetch`)
    for number, region in enumerate(schedule.staged):
        if region:
            layout = _resident_layout if schedule.resident else _layout
            made = layout(problem, schedule, tilings, number, region)
            nearest = next((a.dim for a in made.axes if a.stride.constant == 1), -1)
            early = early_dims(problem, schedule, tilings, number, nearest, made.memory)
            result[number] = replace(made, early=early)
    return result


def _resident_layout(
    problem: Problem,
    schedule: Schedule,
    tilings: Sequence[DimTiling],
    number: int,
    region: str,
) -> TileLayout:
    """The layout of a block of kept dims: reduced dims outermost, then points.

    With `as_source`, the layout of the source, with padded rows.
    """
    stream = problem.streams[number]
    if schedule.as_source and schedule.as_source[number]:
        return _layout_of_source(problem, schedule, tilings, number, region)
    rows = [d for d in schedule.reduce_order if stream.uses(d)]
    kept = [d for d in problem.kept if stream.uses(d) and tilings[d].block > 1]
    kept.sort(key=lambda d: tilings[d].near if schedule.chunks else 1)
    padding = schedule.padding[number] if schedule.padding else 0
    axes: list[TileAxis] = []
    stride = as_index(1)
    for d in reversed(kept):
        axes.append(TileAxis(d, INNER, as_index(tilings[d].block), stride))
        stride = stride * tilings[d].block
    stride = stride + padding
    for d in reversed(rows):
        extent = tilings[d].blocks * tilings[d].block
        axes.append(TileAxis(d, FULL, extent, stride))
        stride = stride * extent
    memory = staged_dtype(problem, number)
    stages = max(1, schedule.stages)
    return TileLayout(number, region, memory, tuple(reversed(axes)), stride, stages)


def _layout_of_source(
    problem: Problem,
    schedule: Schedule,
    tilings: Sequence[DimTiling],
    number: int,
    region: str,
) -> TileLayout:
    padding = schedule.padding[number] if schedule.padding else 0
    places, size = places_as_source(problem, tilings, number, padding, shared=not schedule.tensor)
    axes = [
        TileAxis(p.dim, FULL if problem.reduced[p.dim] else INNER, p.extent, p.stride)
        for p in places
    ]
    memory = staged_dtype(problem, number, whole=bool(schedule.tensor))
    stages = max(1, schedule.stages)
    return TileLayout(number, region, memory, tuple(reversed(axes)), size, stages)


def _layout(
    problem: Problem,
    schedule: Schedule,
    tilings: Sequence[DimTiling],
    number: int,
    region: str,
) -> TileLayout:
    stream, lane = problem.streams[number], schedule.lane
    kept = [d for d in problem.kept if stream.uses(d) and d != lane]
    keys = [(d, OUTER) for d in kept]
    if lane >= 0 and stream.uses(lane) and not problem.reduced[lane]:
        keys.append((lane, OUTER))
    keys += [(d, OUTER if d == lane else FULL) for d in schedule.reduce_order if stream.uses(d)]
    keys += [(d, INNER) for d in kept if tilings[d].block > 1]
    if lane >= 0 and stream.uses(lane):
        keys.append((lane, INNER))
    axes: list[TileAxis] = []
    stride = as_index(1)
    for d, part in reversed(keys):
        tiling = tilings[d]
        extent = {
            OUTER: tiling.blocks,
            FULL: tiling.blocks * tiling.block,
            INNER: as_index(tiling.block),
        }[part]
        axes.append(TileAxis(d, part, extent, stride))
        stride = stride * extent
    memory, places = staged_dtype(problem, number), problem.places(number)
    lengths = [tiling.blocks * tiling.block for tiling in tilings]
    size = size_of_tile(problem, number, lengths, as_index(len(places)))
    return TileLayout(number, region, memory, tuple(reversed(axes)), size, places=places)
