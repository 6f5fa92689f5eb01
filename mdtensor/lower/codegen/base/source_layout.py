"""Layout of staged tiles in the order of their source, with shared elements stored once.

Dims that walk through the same elements share them: points of a convolution and the taps of its
window are one run of neighbours, a window longer than the points alone. So a tile holds an element
once that many of its products need.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.problem.problem import Problem, Stream
from mdtensor.lower.schedule.tiling import DimTiling


@dataclass(frozen=True, slots=True)
class SourceDim:
    """A dim of a staged tile: its extent and its stride."""

    dim: int
    extent: Index
    stride: Index


def places_as_source(
    problem: Problem,
    tilings: Sequence[DimTiling],
    number: int,
    padding: int = 0,
    *,
    shared: bool = True,
) -> tuple[tuple[SourceDim, ...], Index]:
    """Extents and strides of a tile's dims, nearest first, and its size with padded rows.

    Unless `shared`, every dim has elements of its own.
    """
    stream = problem.streams[number]

    def distance(d: int) -> tuple[int, int]:
        stride = stream.strides[d].constant
        return (1 << 62 if stride is None else abs(stride)), -d

    found: list[SourceDim] = []
    size, before = as_index(1), as_index(1)
    run: SourceDim | None = None  # what was placed last, with all that walks through it
    nearest_first = sorted(filter(stream.uses, problem.dims), key=distance)
    for d in nearest_first:
        extent = _extent(problem, tilings, d)
        steps = _steps_through(problem, tilings, stream, run, d) if run and shared else 0
        if run is not None and steps:
            longest = (run.extent.constant or 1) + steps * ((extent.constant or 1) - 1)
            run = SourceDim(run.dim, as_index(longest), run.stride)
            found.append(SourceDim(d, extent, run.stride * steps))
        else:
            before = size
            run = SourceDim(d, extent, before)
            found.append(run)
        size = before * run.extent + (padding if run.dim == nearest_first[0] else 0)
    return tuple(found), size


def _extent(problem: Problem, tilings: Sequence[DimTiling], d: int) -> Index:
    tiling = tilings[d]
    return tiling.blocks * tiling.block if problem.reduced[d] else as_index(tiling.block)


def _steps_through(
    problem: Problem, tilings: Sequence[DimTiling], stream: Stream, run: SourceDim, d: int
) -> int:
    """The elements by which a step along a dim moves in a run, if both overlap; else 0."""
    if may_end_inside(problem, tilings, run.dim) or may_end_inside(problem, tilings, d):
        return 0
    steps = steps_along(stream, run.dim, d)
    return steps if steps < (run.extent.constant or 0) else 0


def may_end_inside(problem: Problem, tilings: Sequence[DimTiling], d: int) -> bool:
    """Whether a copied tile may extend beyond the end of a dim."""
    tiling = tilings[d]
    whole = tiling.part.constant or tiling.block if problem.reduced[d] else tiling.block
    return not tiling.overlap and not tiling.is_even(tiling.tile or whole)


def steps_along(stream: Stream, near: int, far: int) -> int:
    """The stride of `far` in multiples of that of `near`, if integral and positive; else 0."""
    short, long = stream.strides[near].constant, stream.strides[far].constant
    if not short or not long or long % short or long // short < 1:
        return 0
    steps = long // short
    same = all(a.coefficients[far] == steps * a.coefficients[near] for a in stream.axes)
    return steps if same else 0
