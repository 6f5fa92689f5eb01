"""The frame: the inputs common to all emitters below the cache tiles, and register tiles.

A tile is a number of points per kept dim, computed by one work-item. Points along the lane dim are
held in vectors (`LaneVector`s); all others, and all vectors, are separate named variables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.staged_layouts import TileLayout
from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.ir.index import Index, name
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.values import Ref
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling
from mdtensor.translate.combine import Operator

# Dims and how many points further along each.
Steps = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LaneVector:
    """A vector along the lane dim: its offset in the tile, its lanes, and its valid lanes."""

    offset: int
    lanes: int
    valid: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The inputs common to all emitters below the cache tiles.

    `aligned` promises that every buffer begins at a multiple of 16 bytes.
    """

    problem: Problem
    schedule: Schedule
    tilings: tuple[DimTiling, ...]
    layouts: Mapping[int, TileLayout]
    aligned: bool = False

    @property
    def operator(self) -> Operator:
        """The combine operator of the reduced or scanned dims; LoweringError if there is none."""
        if self.problem.operator is None:
            raise LoweringError("a problem without reduced dims has nothing to combine")
        return self.problem.operator

    @property
    def lane_is_reduced(self) -> bool:
        """Whether SIMD lanes hold partial results of one reduction."""
        lane = self.schedule.lane
        return lane >= 0 and self.problem.reduced[lane]

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return math.prod(self.schedule.threads)

    @property
    def sharing(self) -> int:
        """The number of work-items that share the reduction of each point."""
        return math.prod(self.schedule.threads[d] for d in self.problem.contracted)

    @property
    def is_of_cluster(self) -> bool:
        """Whether the groups that share a reduction form a thread-block cluster."""
        shared = any(self.tilings[d].is_split for d in self.problem.contracted)
        return self.schedule.cluster and shared

    @property
    def shares_with_neighbours(self) -> bool:
        """Whether work-items that share a reduction have adjacent numbers."""
        order = self.schedule.group_order
        return bool(order) and self.problem.reduced[order[-1]]

    @property
    def unrolled_kept(self) -> tuple[int, ...]:
        """Kept dims other than the lane dim, in the order in which points are numbered."""
        return tuple(d for d in self.schedule.loop_order if d != self.schedule.lane)

    def is_clamped(self, d: int) -> bool:
        """Whether indices beyond the end of a kept dim are clamped to its last point."""
        reduces = bool(self.problem.contracted) and self.problem.scanned < 0
        resident = self.schedule.resident and not self.schedule.scatter
        inside = resident and reduces and not self.problem.reduced[d]
        return inside and self.tilings[d].is_ragged

    def clamped_together(self, d: int) -> int:
        """The number of consecutive points of a clamped dim that share one clamped index."""
        extent, near = self.tilings[d].extent.constant, self.tilings[d].near
        return next(n for n in (4, 2, 1) if near % n == 0 and (extent or 1) % n == 0)

    def clamped(self, d: int, position: int) -> Index:
        """The clamped index of a point along a clamped dim."""
        inside = position % self.clamped_together(d)
        return name(f"{self.tilings[d].var('q')}_{position - inside}") + inside

    def lanes_in_tile(self, number: int) -> int:
        """Elements of a staged tile that one access can read from a work-item's first point on."""
        layout = self.layouts[number]
        lanes = lanes_of(layout.memory)
        nearest = [axis for axis in layout.axes if axis.stride.constant == 1]
        if not nearest or self.tilings[nearest[0].dim].near % lanes:
            return 1
        others = [axis.stride.constant for axis in layout.axes if axis is not nearest[0]]
        return lanes if all(s is not None and s % lanes == 0 for s in others) else 1


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile: its points, its pieces, and the accumulators [point][piece][element]."""

    points: tuple[tuple[int, ...], ...]
    pieces: tuple[LaneVector, ...]
    accumulators: tuple[tuple[tuple[Ref, ...], ...], ...]


def powers_of_two(count: int, largest: int, start: int = 0) -> list[tuple[int, int]]:
    """Offsets and lengths, each a power of two, the largest first, that cover `count`.

    >>> powers_of_two(25, 16)
    [(0, 16), (16, 8), (24, 1)]
    """
    parts: list[tuple[int, int]] = []
    length = largest
    while count:
        while length > count:
            length //= 2
        parts.append((start, length))
        start += length
        count -= length
    return parts


def pieces_of(frame: Frame, count: int) -> tuple[LaneVector, ...]:
    """The vectors that cover `count` points of the lane dim."""
    schedule = frame.schedule
    width = schedule.width
    if schedule.lane < 0:
        return (LaneVector(0, 1, 1),)
    if frame.lane_is_reduced:
        vectors = schedule.registers[schedule.lane] // width
        return tuple(LaneVector(n * width, width, width) for n in range(vectors))
    if count % width and schedule.tail == "pad":
        return tuple(LaneVector(o, width, min(width, count - o)) for o in range(0, count, width))
    if count % width and count > width and schedule.tail == "overlap":
        starts = [*range(0, count - width + 1, width), count - width]
        return tuple(LaneVector(o, width, width) for o in starts)
    return tuple(LaneVector(o, n, n) for o, n in powers_of_two(count, width))


def tile_of(frame: Frame, counts: Mapping[int, int]) -> Tile:
    """The register tile with `counts[d]` points of every kept dim."""
    dims = frame.unrolled_kept
    points = tuple(itertools.product(*(frame.tilings[d].positions(counts[d]) for d in dims)))
    pieces = pieces_of(frame, counts.get(frame.schedule.lane, 1))
    types = [register_dtype(dtype) for dtype in frame.problem.scalar.result_dtypes]
    accumulators = tuple(
        tuple(
            tuple(
                Ref(f"a{u}_{p}" + (f"_{k}" if len(types) > 1 else ""), dtype, piece.lanes)
                for k, dtype in enumerate(types)
            )
            for p, piece in enumerate(pieces)
        )
        for u in range(len(points))
    )
    return Tile(points, pieces, accumulators)


def single_accumulators(frame: Frame, tile: Tile) -> tuple[tuple[Ref, ...], ...]:
    """Per point, scalar accumulators for a reduced lane dim's remainder after whole vectors."""
    if not has_singles(frame):
        return ()
    return tuple(
        tuple(Ref(ref.name.replace("a", "s", 1), ref.dtype) for ref in vectors[0])
        for vectors in tile.accumulators
    )


def has_singles(frame: Frame) -> bool:
    """Whether a combined lane dim may leave a remainder after whole vectors."""
    extent, bounds = frame.problem.extents[frame.schedule.lane].constant, frame.problem.bounds
    if bounds is not None and bounds.dim == frame.schedule.lane:
        return True
    return extent is None or extent % frame.schedule.width != 0
