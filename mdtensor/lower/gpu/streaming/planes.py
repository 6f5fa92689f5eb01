"""Planes of a stream in local memory, for groups that stream along a dim.

See `lower.gpu.streaming.plane_prefetch`, which brings them there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling

MOST_SPAN = 64  # planes, or neighbours along another dim, that one point reads
_STAGED = (4, 8)  # bytes of an element
_ALIGNMENT = 32  # elements at whose multiples planes begin


@dataclass(frozen=True, slots=True)
class Side:
    """A side of a plane: its dim, stride, lower halo and length.

    The plane begins `low` before a block's first point; it has `length` elements side by side.
    """

    dim: int
    stride: int
    low: int
    length: int


@dataclass(frozen=True, slots=True)
class Planes:
    """The planes of a stream in local memory; sides are sorted by descending stride.

    A block reads those from `first` to `last` further along the dim it marches along, whose stride
    is `stride`; there are `count` in local memory, copied in pieces of `lanes` elements. Points
    beyond the ends of dims read so many elements `beyond` a plane.
    """

    stream: int
    buffer: int
    memory: np.dtype
    stride: int
    first: int
    last: int
    sides: tuple[Side, ...]
    lanes: int
    ahead: int
    reach: tuple[int, int]
    beyond: int = 0

    @property
    def size(self) -> int:
        """Elements of a plane."""
        return math.prod(side.length for side in self.sides)

    @property
    def apart(self) -> int:
        """Elements between the starts of two planes."""
        return -(-self.size // _ALIGNMENT) * _ALIGNMENT

    @property
    def count(self) -> int:
        """The number of planes that local memory holds."""
        return self.last - self.first + 1 + self.ahead

    @property
    def elements(self) -> int:
        """Elements of local memory."""
        return self.count * self.apart + self.beyond

    @property
    def array(self) -> str:
        """Name of the array in local memory."""
        return f"P{self.stream}"

    @property
    def filled(self) -> str:
        """The variable with the place to fill next."""
        return f"fill{self.stream}"

    @property
    def read(self) -> str:
        """The variable with the place of the first plane that a block reads."""
        return f"read{self.stream}"

    def steps(self, constant: int) -> tuple[int, list[int]]:
        """An offset in the stream as planes and steps along every side."""
        plane, rest = divmod(constant, self.stride)
        found: list[int] = []
        for side in self.sides:
            step, rest = divmod(rest, side.stride)
            found.append(step)
        return plane, found

    def strides(self) -> list[int]:
        """Elements between neighbours in local memory, for every side."""
        return [math.prod(s.length for s in self.sides[n + 1 :]) for n in range(len(self.sides))]


def marched_dim(schedule: Schedule, tilings: Sequence[DimTiling]) -> int:
    """The dim that groups stream along; LoweringError if there is none."""
    for d in reversed(schedule.group_order):
        if tilings[d].tile:
            return d
    raise LoweringError("a group that marches has several blocks along a dim")


def plane_dim(problem: Problem) -> int:
    """The dim along which planes of all streams can be staged; -1 where there is none."""
    if problem.is_general or problem.contracted or problem.scanned >= 0:
        return -1
    if len(problem.dims) < 2 or not problem.streams:
        return -1
    far = {max(problem.dims, key=lambda d: s.strides[d].constant or 0) for s in problem.streams}
    computed = any(read.computed for read in problem.all_reads)
    sizes = {dtype.itemsize for dtype in problem.inputs}
    if len(far) > 1 or computed or not problem.reaches or sizes - set(_STAGED):
        return -1
    return far.pop()


def planes_of(
    problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling], *, aligned: bool = True
) -> tuple[Planes, ...]:
    """The planes of all staged streams; LoweringError where one cannot be staged as planes."""
    if not schedule.march or not any(schedule.staged):
        return ()
    d = marched_dim(schedule, tilings)
    staged = [n for n, region in enumerate(schedule.staged) if region]
    return tuple(_planes(problem, schedule, tilings, d, n, aligned) for n in staged)


def _planes(
    problem: Problem,
    schedule: Schedule,
    tilings: Sequence[DimTiling],
    d: int,
    number: int,
    aligned: bool,
) -> Planes:
    stream = problem.streams[number]
    memory = problem.inputs[stream.buffer]
    strides = {e: stream.strides[e].constant or 0 for e in problem.dims if stream.uses(e)}
    far = sorted(strides, key=lambda e: -strides[e])
    if len(far) < 2 or far[0] != d or strides[far[-1]] != 1 or min(strides.values()) < 1:
        raise LoweringError(
            "planes are staged of streams whose farthest neighbours are those along the dim that"
            " groups march along, and whose nearest ones lie side by side"
        )
    if not problem.reaches or memory.itemsize not in _STAGED:
        raise LoweringError("planes are staged of arrays of 4 or 8 bytes an element")
    reads = [read for read in problem.all_reads if read.stream == number]
    if any(read.computed for read in reads):
        raise LoweringError("planes are staged where no index is computed")
    found = Planes(
        number,
        stream.buffer,
        memory,
        strides[d],
        0,
        0,
        tuple(Side(e, strides[e], 0, 1) for e in far[1:]),
        1,
        schedule.stages - 1,
        problem.reaches[stream.buffer],
    )
    places = [found.steps(as_index(read.offset).constant or 0) for read in reads]
    planes = [plane for plane, _ in places]
    along = list(zip(*(steps for _, steps in places), strict=True))
    if any(max(steps) - min(steps) >= MOST_SPAN for steps in (planes, *along)):
        raise LoweringError(f"planes are staged where a point reads less than {MOST_SPAN} apart")
    outer = found.stride
    for side, steps in zip(found.sides, along, strict=True):
        tiling = tilings[side.dim]
        if (tiling.positions(tiling.register)[-1] + max(steps)) * side.stride >= outer:
            raise LoweringError("what a work-item reads of a row, or a plane, lies inside it")
        outer = side.stride
    lanes = _lanes(tilings, found) if aligned else 1
    sides: list[Side] = []
    for side, steps in zip(found.sides, along, strict=True):
        whole = lanes if side.stride == 1 else 1
        low = min(steps) // whole * whole
        length = points_along(tilings[side.dim]) + max(steps) - low
        length = -(-length // whole) * whole
        sides.append(replace(side, low=low, length=length))
    found = replace(found, first=min(planes), last=max(planes), sides=tuple(sides), lanes=lanes)
    least = sum(side.low * side.stride for side in sides) + found.first * found.stride
    if least < found.reach[0]:
        raise LoweringError("planes are staged whose corners lie in their array")
    over = [
        (tilings[side.dim].block - points_along(tilings[side.dim])) * apart
        for side, apart in zip(sides, found.strides(), strict=True)
    ]
    return replace(found, beyond=sum(over))


def points_along(tiling: DimTiling) -> int:
    """Points of a block that lie inside a dim."""
    return min(tiling.block, tiling.extent.constant or tiling.block)


def _lanes(tilings: Sequence[DimTiling], planes: Planes) -> int:
    """Elements per copy: all rows of a plane begin at multiples of their number."""
    near = planes.sides[-1].dim if planes.sides else -1
    if near < 0:
        return 1
    tiling, (least, most) = tilings[near], planes.reach
    starts = [tiling.block] if tiling.is_split or tiling.tile else []
    starts += [(tiling.extent.constant or 1) - tiling.block] if tiling.overlap else []
    others = [planes.stride, *(side.stride for side in planes.sides[:-1])]
    return math.gcd(lanes_of(planes.memory), *starts, *others, tiling.lead, least, most + 1)
