"""Staging (packing): a tile of an input copied to nearer memory, in the order of its reads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.staged_layouts import FULL, INNER, OUTER, TileAxis, TileLayout
from mdtensor.lower.codegen.base.tuple_variables import lets
from mdtensor.lower.ir.group_statements import Barrier
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import (
    Allocate,
    Comment,
    If,
    IndexCalc,
    LetIndex,
    Loop,
    Pointer,
    Statement,
    VectorStore,
)
from mdtensor.lower.ir.values import Calc, Load, Ref, Value
from mdtensor.lower.problem.problem import Problem, Read
from mdtensor.lower.problem.scratch_memory import ALIGNMENT
from mdtensor.lower.problem.zero_padding import place_of
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling

ARRAY_BYTES = 48 << 10  # what CUDA lets a kernel declare, and a stack surely holds
LOCAL_BYTES = 227 << 10  # what a group can have of the largest local memories
BAND, BAND_ROWS = "band", 8  # rows of a source that are walked side by side, each in its own page


def declare(layout: TileLayout, offset: Index) -> list[Statement]:
    """Declare the memory of a staged tile: an array, or a place in the scratch buffer."""
    if layout.region == "scratch":
        return [Pointer(layout.pointer, "scratch", layout.memory, "global", offset, const=False)]
    size = layout.size.constant
    if size is None:
        raise LoweringError(f"a tile in {layout.region} memory needs extents that are numbers")
    extent = size + ALIGNMENT if layout.stages == 1 else layout.apart * layout.stages
    nbytes, most = extent * layout.memory.itemsize, ARRAY_BYTES
    if layout.stages > 1:
        most = LOCAL_BYTES
    if nbytes > most:
        raise LoweringError(
            f"a tile of {nbytes} bytes in {layout.region} memory, which takes {most}"
        )
    return [Allocate(layout.pointer, layout.memory, layout.region, extent)]


def copy(
    layout: TileLayout, problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> list[Statement]:
    """Copy the current tile of a stream to its staged place."""
    if layout.region == "local":
        together = _copy_together(layout, problem, schedule, tilings)
        alone = math.prod(schedule.threads) == 1
        return together if alone else [Barrier(), *together, Barrier()]
    loops = _copy_loops(layout, problem, schedule, tilings, sources_of(layout, problem))
    return [Comment(f"stage {layout.pointer}"), *loops]


@dataclass(frozen=True, slots=True)
class CopySource:
    """The source of a staged tile: a buffer, its type, and an offset.

    Elements go to the staged tile from its element `start` on.
    """

    buffer: str
    memory: np.dtype
    offset: Index | int
    start: Index | int = 0

    def load(
        self, layout: TileLayout, index: Index, lanes: int = 1, stride: Index | int = 1
    ) -> Value:
        """Load from the source, converted to the type of the staged tile."""
        loaded = Load(self.buffer, self.memory, index + self.offset, lanes, stride)
        held = register_dtype(layout.memory)
        return loaded if loaded.dtype == held else Calc("cast", (loaded,), held, lanes)

    def copied(self, layout: TileLayout, index: Index, to: Index) -> Statement:
        """Copy one element to the staged tile."""
        return VectorStore(layout.pointer, layout.memory, to + self.start, self.load(layout, index))


def source_of(layout: TileLayout, problem: Problem) -> CopySource:
    """The source of a staged tile whose reads have one offset."""
    return sources_of(layout, problem)[0]


def sources_of(layout: TileLayout, problem: Problem) -> list[CopySource]:
    """The sources of a staged tile, one per offset of its reads."""
    buffer = problem.streams[layout.stream].buffer
    first: dict[Index, Read] = {}
    for read in problem.reads:
        if read.stream == layout.stream:
            first.setdefault(as_index(read.offset), read)
    return [
        CopySource(
            f"I{buffer}",
            problem.inputs[buffer],
            place_of(problem, read),
            layout.start_of(place),
        )
        for place, read in first.items()
    ]


def _copy_together(
    layout: TileLayout, problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> list[Statement]:
    """A cooperative copy by all work-items, element by element of the staged tile."""
    stream = problem.streams[layout.stream]
    source = source_of(layout, problem)
    size = layout.size
    decode: list[Statement] = []
    position: dict[int, Index] = {}
    rest = name("c")
    for axis in layout.axes:
        dim = tilings[axis.dim].label
        coordinate = f"c_{dim}_{axis.part}"
        decode.append(LetIndex(coordinate, IndexCalc("/", rest, axis.stride)))
        remaining = f"m_{dim}_{axis.part}"
        decode.append(LetIndex(remaining, IndexCalc("%", rest, axis.stride)))
        rest = name(remaining)
        scale = tilings[axis.dim].block if axis.part == OUTER else 1
        step = name(coordinate) * scale
        position[axis.dim] = position.get(axis.dim, name(tilings[axis.dim].var("t"))) + step
    address = total(stream.strides[d] * index for d, index in position.items())
    value = source.load(layout, address)
    statement: Statement = VectorStore(layout.pointer, layout.memory, name("c"), value)
    for d, index in position.items():
        # Distances: where positions were compared, Intel's compiler left elements out (ADR 4).
        start, end = name(tilings[d].var("t")), name(tilings[d].var("e"))
        statement = If(index - start, "<", end - start, (statement,))
    threads = math.prod(schedule.threads)
    first = name("item") if threads > 1 else as_index(0)
    return [Loop("c", first, size + (threads - 1), as_index(threads), (*decode, statement))]


def _copy_loops(
    layout: TileLayout,
    problem: Problem,
    schedule: Schedule,
    tilings: Sequence[DimTiling],
    sources: Sequence[CopySource],
) -> list[Statement]:
    """A copy by one work-item, in the target's order; whole vectors along the lane dim.

    Elements of all sources are copied together, since they lie between each other.
    """
    stream, lane = problem.streams[layout.stream], schedule.lane
    axes = list(layout.axes)
    vector = bool(axes) and axes[-1].dim == lane and axes[-1].part == INNER and schedule.width > 1
    if vector:
        axes = _in_bands(axes, lane)
    else:
        axes.sort(key=lambda axis: _is_nearest(problem, layout, axis))
    from_address, to_address = as_index(0), as_index(0)
    for axis in layout.axes:
        tiling = tilings[axis.dim]
        stride = stream.strides[axis.dim]
        if axis.part == INNER:
            if vector and axis is layout.axes[-1]:
                continue
            step = name(tiling.var("u"))
            from_address, to_address = from_address + stride * step, to_address + axis.stride * step
            continue
        start = name(tiling.var("q"))
        from_address = from_address + stride * start
        if axis.part == OUTER:
            to_address = to_address + axis.stride * name(tiling.var("k"))
        else:
            to_address = to_address + axis.stride * (start - name(tiling.var("t")))

    def build(remaining: list[TileAxis]) -> tuple[Statement, ...]:
        if vector and len(remaining) == 1:
            stride = stream.strides[lane]
            return _copy_vectors(
                layout, schedule, tilings[lane], sources, from_address, to_address, stride
            )
        if not remaining:
            return tuple(source.copied(layout, from_address, to_address) for source in sources)
        axis, tiling = remaining[0], tilings[remaining[0].dim]
        body = build(remaining[1:])
        start, end = name(tiling.var("t")), name(tiling.var("e"))
        if axis.part == INNER:
            count = tiling.var("n")
            left = end - name(tiling.var("q"))
            return (
                LetIndex(count, IndexCalc("min", as_index(tiling.block), left)),
                Loop(tiling.var("u"), as_index(0), name(count), as_index(1), body),
            )
        if axis.part == BAND:
            first, last = tiling.var("band"), tiling.var("bound")
            bound = LetIndex(last, IndexCalc("min", name(first) + BAND_ROWS, end))
            stop = end + (BAND_ROWS - 1)
            return (Loop(first, start, stop, as_index(BAND_ROWS), (bound, *body)),)
        if axis.part == FULL:
            if any(other.part == BAND and other.dim == axis.dim for other in axes):
                start, end = name(tiling.var("band")), name(tiling.var("bound"))
            return (Loop(tiling.var("q"), start, end, as_index(1), body),)
        number = LetIndex(
            tiling.var("k"),
            IndexCalc("/", name(tiling.var("q")) - start, as_index(tiling.block)),
        )
        stop = end + (tiling.block - 1)
        return (Loop(tiling.var("q"), start, stop, as_index(tiling.block), (number, *body)),)

    return list(build(axes))


def _in_bands(axes: list[TileAxis], lane: int) -> list[TileAxis]:
    """The axes of a tile, reordered to read its source in bands of a few long rows.

    Block by block along the lane dim, the source would be read in columns, a short piece of each
    row, which nothing fetches ahead.
    """
    blocks = next((a for a in axes if (a.dim, a.part) == (lane, OUTER)), None)
    rows = [axis for axis in axes if axis.part == FULL]
    if blocks is None or blocks.extent.constant == 1 or not rows:
        return axes
    first, last = axes.index(blocks), axes.index(rows[-1])
    if last < first:
        return axes
    band = TileAxis(rows[-1].dim, BAND, rows[-1].extent, rows[-1].stride)
    return [*axes[:first], *axes[first + 1 : last], band, blocks, *axes[last:]]


def _is_nearest(problem: Problem, layout: TileLayout, axis: TileAxis) -> int:
    """1 for the source's contiguous axis, which then runs innermost; else 0."""
    stride = problem.streams[layout.stream].strides[axis.dim].constant
    return int(stride is not None and abs(stride) == 1 and axis.part != OUTER)


def _copy_vectors(
    layout: TileLayout,
    schedule: Schedule,
    tiling: DimTiling,
    sources: Sequence[CopySource],
    from_address: Index,
    to_address: Index,
    stride: Index,
) -> tuple[Statement, ...]:
    """A copy of a block along the lane dim: whole vectors, or scalars at the dim's end."""
    width, memory = schedule.width, layout.memory
    whole: list[Statement] = []
    for o in range(0, tiling.block, width):
        address = from_address + stride * o
        values = [source.load(layout, address, width, stride) for source in sources]
        refs = [Ref(f"s{o}_{k}", value.dtype, width) for k, value in enumerate(values)]
        whole += lets(refs, values)
        whole += [
            VectorStore(layout.pointer, memory, to_address + source.start + o, ref)
            for source, ref in zip(sources, refs, strict=True)
        ]
    start, end, step = name(tiling.var("q")), name(tiling.var("e")), name(tiling.var("u"))
    single = tuple(
        source.copied(layout, from_address + stride * step, to_address + step) for source in sources
    )
    rest = (Loop(tiling.var("u"), as_index(0), end - start, as_index(1), single),)
    return (If(start + tiling.block, "<=", end, tuple(whole), rest),)
