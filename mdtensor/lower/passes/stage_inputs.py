"""Staging: a tile of an input copied to nearer memory, in the order in which it will be read.

What others call packing is this and nothing else: the layout of a staged tile is outer blocks of
the kept dims, then the reduced dims, then the points inside a block, the lane dim innermost and
padded to whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.lower.group_nest import Barrier
from mdtensor.lower.index import Index, as_index, name, total
from mdtensor.lower.nest import (
    BOOL,
    Allocate,
    Calc,
    Comment,
    If,
    IndexCalc,
    LetIndex,
    Load,
    Loop,
    Pointer,
    Statement,
    Store,
    Value,
    register_dtype,
)
from mdtensor.lower.passes.early_tiles import early_dims
from mdtensor.lower.problem import Problem
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.side_by_side import places_as_source
from mdtensor.lower.tiling import DimTiling
from mdtensor.lower.zero_filled import place_of
from mdtensor.translate.scalar import Expr

OUTER, FULL, INNER = "outer", "full", "inner"
ALIGNMENT = 64
ARRAY_BYTES = 48 << 10  # what CUDA lets a kernel declare, and a stack surely holds
LOCAL_BYTES = 227 << 10  # what a group can have of the largest local memories


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a staged tile: blocks of a dim, all its points, or the points inside a block."""

    dim: int
    part: str
    extent: Index
    stride: Index


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a staged tile lie; axes outermost first, sizes in elements.

    Along `early` dims the last tile begins so early that it is whole (see `early_tiles`).
    """

    stream: int
    region: str
    memory: np.dtype
    axes: tuple[Axis, ...]
    size: Index
    stages: int = 1
    early: frozenset[int] = frozenset()

    @property
    def apart(self) -> int:
        """Elements between the beginnings of two stages: whole lines."""
        assert self.size.constant is not None
        return -(-self.size.constant // ALIGNMENT) * ALIGNMENT

    def stride(self, dim: int, part: str) -> Index:
        """The stride of an axis; 0 where the tile has none such."""
        return next((a.stride for a in self.axes if (a.dim, a.part) == (dim, part)), as_index(0))

    def has(self, dim: int, part: str) -> bool:
        """Whether the tile has that axis."""
        return any((axis.dim, axis.part) == (dim, part) for axis in self.axes)

    @property
    def pointer(self) -> str:
        """Name of the staged tile in the kernel."""
        return f"S{self.stream}"


def layouts_of(
    problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> dict[int, Layout]:
    """The layout of every staged stream."""
    result: dict[int, Layout] = {}
    if schedule.march:
        return result  # planes have layouts of their own (see `march_ahead`)
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
) -> Layout:
    """One block of the kept dims: reduced dims, then points, those read together innermost.

    Or as the source lies, whose rows are lengthened then.
    """
    stream = problem.streams[number]
    if schedule.as_source and schedule.as_source[number]:
        return _layout_of_source(problem, schedule, tilings, number, region)
    rows = [d for d in schedule.reduce_order if stream.uses(d)]
    kept = [d for d in problem.kept if stream.uses(d) and tilings[d].block > 1]
    kept.sort(key=lambda d: tilings[d].near if schedule.chunks else 1)
    padding = schedule.padding[number] if schedule.padding else 0
    axes: list[Axis] = []
    stride = as_index(1)
    for d in reversed(kept):
        axes.append(Axis(d, INNER, as_index(tilings[d].block), stride))
        stride = stride * tilings[d].block
    stride = stride + padding
    for d in reversed(rows):
        extent = tilings[d].blocks * tilings[d].block
        axes.append(Axis(d, FULL, extent, stride))
        stride = stride * extent
    memory = staged_dtype(problem, number)
    stages = max(1, schedule.stages)
    return Layout(number, region, memory, tuple(reversed(axes)), stride, stages)


def _layout_of_source(
    problem: Problem,
    schedule: Schedule,
    tilings: Sequence[DimTiling],
    number: int,
    region: str,
) -> Layout:
    padding = schedule.padding[number] if schedule.padding else 0
    places, size = places_as_source(problem, tilings, number, padding, shared=not schedule.tensor)
    axes = [
        Axis(p.dim, FULL if problem.reduced[p.dim] else INNER, p.extent, p.stride) for p in places
    ]
    memory = staged_dtype(problem, number, whole=bool(schedule.tensor))
    stages = max(1, schedule.stages)
    return Layout(number, region, memory, tuple(reversed(axes)), size, stages)


def _layout(
    problem: Problem,
    schedule: Schedule,
    tilings: Sequence[DimTiling],
    number: int,
    region: str,
) -> Layout:
    stream, lane = problem.streams[number], schedule.lane
    kept = [d for d in problem.kept if stream.uses(d) and d != lane]
    keys = [(d, OUTER) for d in kept]
    if lane >= 0 and stream.uses(lane) and not problem.reduced[lane]:
        keys.append((lane, OUTER))
    keys += [(d, OUTER if d == lane else FULL) for d in schedule.reduce_order if stream.uses(d)]
    keys += [(d, INNER) for d in kept if tilings[d].block > 1]
    if lane >= 0 and stream.uses(lane):
        keys.append((lane, INNER))
    axes: list[Axis] = []
    stride = as_index(1)
    for d, part in reversed(keys):
        tiling = tilings[d]
        extent = {
            OUTER: tiling.blocks,
            FULL: tiling.blocks * tiling.block,
            INNER: as_index(tiling.block),
        }[part]
        axes.append(Axis(d, part, extent, stride))
        stride = stride * extent
    return Layout(number, region, staged_dtype(problem, number), tuple(reversed(axes)), stride)


def staged_dtype(problem: Problem, number: int, *, whole: bool = False) -> np.dtype:
    """The type in which a staged tile is held: the one that the computation converts it to.

    Where elements are used as they are, or converted to several types, or the tile is used as a
    whole, it is their own.
    """
    places = [part.expr for read in problem.reads for part in read.computed]
    own = problem.inputs[problem.streams[number].buffer]
    if whole:
        return own
    used = {
        dtype
        for position, read in enumerate(problem.reads)
        if read.stream == number
        for expr in (*problem.scalar.results, *places)
        for dtype in _uses(expr, position)
    }
    return register_dtype(used.pop()) if len(used) == 1 and BOOL not in used else own


def _uses(expr: Expr, position: int) -> set[np.dtype]:
    """The types in which the parameter at a position is used."""
    if expr.op == "param":
        return {expr.dtype} if expr.value == position else set()
    if expr.op == "cast" and expr.args[0].op == "param":
        return {expr.dtype} if expr.args[0].value == position else set()
    return set[np.dtype]().union(*(_uses(arg, position) for arg in expr.args))


def declare(layout: Layout, offset: Index) -> list[Statement]:
    """The memory of a staged tile: an array, or its place in the scratch buffer."""
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
    layout: Layout, problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> list[Statement]:
    """Copies the current tile of a stream to its staged place."""
    if layout.region == "local":
        together = _copy_together(layout, problem, schedule, tilings)
        alone = math.prod(schedule.threads) == 1
        return together if alone else [Barrier(), *together, Barrier()]
    return [
        Comment(f"stage {layout.pointer}"),
        *_copy_loops(layout, problem, schedule, tilings),
    ]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a stream's elements are copied from: a buffer, its type, and an offset."""

    buffer: str
    memory: np.dtype
    offset: Index | int

    def load(self, layout: Layout, index: Index, lanes: int = 1, stride: Index | int = 1) -> Value:
        """Elements from the source, converted to the type of the staged tile."""
        loaded = Load(self.buffer, self.memory, index, lanes, stride)
        held = register_dtype(layout.memory)
        return loaded if loaded.dtype == held else Calc("cast", (loaded,), held, lanes)


def source_of(layout: Layout, problem: Problem) -> Source:
    """Where the elements of a staged tile come from."""
    buffer = problem.streams[layout.stream].buffer
    read = next(read for read in problem.reads if read.stream == layout.stream)
    return Source(f"I{buffer}", problem.inputs[buffer], place_of(problem, read))


def _copy_together(
    layout: Layout, problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> list[Statement]:
    """All work-items of the group copy, element by element of the staged tile."""
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
    value = source.load(layout, address + source.offset)
    statement: Statement = Store(layout.pointer, layout.memory, name("c"), value)
    for d, index in position.items():
        # Distances: where positions were compared, Intel's compiler left elements out (ADR 4).
        start, end = name(tilings[d].var("t")), name(tilings[d].var("e"))
        statement = If(index - start, "<", end - start, (statement,))
    threads = math.prod(schedule.threads)
    first = name("item") if threads > 1 else as_index(0)
    return [Loop("c", first, size + (threads - 1), as_index(threads), (*decode, statement))]


def _copy_loops(
    layout: Layout, problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> list[Statement]:
    """One work-item copies, in the order of the target; whole vectors along the lane dim."""
    stream, lane = problem.streams[layout.stream], schedule.lane
    source = source_of(layout, problem)
    axes = list(layout.axes)
    vector = bool(axes) and axes[-1].dim == lane and axes[-1].part == INNER and schedule.width > 1
    if not vector:
        axes.sort(key=lambda axis: _is_nearest(problem, layout, axis))
    from_address, to_address = as_index(source.offset), as_index(0)
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

    def build(remaining: list[Axis]) -> tuple[Statement, ...]:
        if vector and len(remaining) == 1:
            return _copy_vectors(
                layout,
                schedule,
                tilings[lane],
                source,
                from_address,
                to_address,
                stream.strides[lane],
            )
        if not remaining:
            value = source.load(layout, from_address)
            return (Store(layout.pointer, layout.memory, to_address, value),)
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
        if axis.part == FULL:
            return (Loop(tiling.var("q"), start, end, as_index(1), body),)
        number = LetIndex(
            tiling.var("k"),
            IndexCalc("/", name(tiling.var("q")) - start, as_index(tiling.block)),
        )
        stop = end + (tiling.block - 1)
        return (Loop(tiling.var("q"), start, stop, as_index(tiling.block), (number, *body)),)

    return list(build(axes))


def _is_nearest(problem: Problem, layout: Layout, axis: Axis) -> int:
    """1 for the axis along which the source lies closest, which then runs innermost."""
    stride = problem.streams[layout.stream].strides[axis.dim].constant
    return int(stride is not None and abs(stride) == 1 and axis.part != OUTER)


def _copy_vectors(
    layout: Layout,
    schedule: Schedule,
    tiling: DimTiling,
    source: Source,
    from_address: Index,
    to_address: Index,
    stride: Index,
) -> tuple[Statement, ...]:
    """A block along the lane dim: whole vectors, or element by element at the dim's end."""
    width, memory = schedule.width, layout.memory
    whole = tuple(
        Store(
            layout.pointer,
            memory,
            to_address + o,
            source.load(layout, from_address + stride * o, width, stride),
        )
        for o in range(0, tiling.block, width)
    )
    start, end, step = name(tiling.var("q")), name(tiling.var("e")), name(tiling.var("u"))
    single = Store(
        layout.pointer,
        memory,
        to_address + step,
        source.load(layout, from_address + stride * step),
    )
    rest = (Loop(tiling.var("u"), as_index(0), end - start, as_index(1), (single,)),)
    return (If(start + tiling.block, "<=", end, whole, rest),)
