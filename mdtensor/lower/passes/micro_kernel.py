"""The register tile: accumulators, the loops over reduced dims, and the unrolled computation.

A tile is a number of points per kept dim, computed by one work-item. Points along the lane dim are
held in vectors (`Piece`s); all others, and all vectors, are separate named variables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mdtensor.lower.index import Index, as_index, name, total
from mdtensor.lower.nest import (
    I64,
    U8,
    Calc,
    FromIndex,
    Gather,
    IndexCalc,
    Iota,
    Let,
    LetIndex,
    Literal,
    Load,
    Loop,
    Pointer,
    Ref,
    Set,
    Statement,
    Value,
    register_dtype,
)
from mdtensor.lower.passes.ask_ahead import asked_ahead
from mdtensor.lower.passes.inside_axes import all_inside, axis_indices
from mdtensor.lower.passes.stage_inputs import FULL, INNER, OUTER, Layout
from mdtensor.lower.problem import Problem, Read
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.tiling import DimTiling
from mdtensor.lower.values import combined, identity_of, is_elementwise, value_of
from mdtensor.lower.zero_filled import place_of
from mdtensor.translate.scalar import ScalarFunction

READ_STAGE = "read_stage"  # the number of the staged tile that is computed with
# Dims and how many points further along each.
Steps = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A vector along the lane dim: its offset in the tile, its lanes, and how many count."""

    offset: int
    lanes: int
    valid: int


@dataclass(frozen=True, slots=True)
class Frame:
    """All that the passes below the cache tiles read.

    `aligned` promises that every buffer begins at a multiple of 16 bytes.
    """

    problem: Problem
    schedule: Schedule
    tilings: tuple[DimTiling, ...]
    layouts: Mapping[int, Layout]
    aligned: bool = False

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
        """Work-items that share the reduction of the same points."""
        return math.prod(self.schedule.threads[d] for d in self.problem.contracted)

    @property
    def shares_with_neighbours(self) -> bool:
        """Whether those are neighbours, and not work-items that compute neighbouring points."""
        order = self.schedule.group_order
        return bool(order) and self.problem.reduced[order[-1]]

    @property
    def unrolled_kept(self) -> tuple[int, ...]:
        """Kept dims other than the lane dim, in the order in which points are numbered."""
        return tuple(d for d in self.schedule.loop_order if d != self.schedule.lane)

    def is_clamped(self, d: int) -> bool:
        """Whether points beyond the end of a kept dim are computed as if they were its last."""
        reduces = bool(self.problem.contracted) and self.problem.scanned < 0
        resident = self.schedule.resident and not self.schedule.scatter
        inside = resident and reduces and not self.problem.reduced[d]
        return inside and self.tilings[d].is_ragged

    def clamped_together(self, d: int) -> int:
        """Points of a clamped dim that are inside or beyond its end together."""
        extent, near = self.tilings[d].extent.constant, self.tilings[d].near
        return next(n for n in (4, 2, 1) if near % n == 0 and (extent or 1) % n == 0)

    def clamped(self, d: int, position: int) -> Index:
        """The index of a point along such a dim."""
        inside = position % self.clamped_together(d)
        return name(f"{self.tilings[d].var('q')}_{position - inside}") + inside


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile: its points, its pieces, and the accumulators [point][piece][element]."""

    points: tuple[tuple[int, ...], ...]
    pieces: tuple[Piece, ...]
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


def pieces_of(frame: Frame, count: int) -> tuple[Piece, ...]:
    """The vectors that cover `count` points of the lane dim."""
    schedule = frame.schedule
    width = schedule.width
    if schedule.lane < 0:
        return (Piece(0, 1, 1),)
    if frame.lane_is_reduced:
        vectors = schedule.registers[schedule.lane] // width
        return tuple(Piece(n * width, width, width) for n in range(vectors))
    if count % width and schedule.tail == "pad":
        return tuple(Piece(o, width, min(width, count - o)) for o in range(0, count, width))
    if count % width and count > width and schedule.tail == "overlap":
        starts = [*range(0, count - width + 1, width), count - width]
        return tuple(Piece(o, width, width) for o in starts)
    return tuple(Piece(o, n, n) for o, n in powers_of_two(count, width))


def tile_of(frame: Frame, counts: Mapping[int, int]) -> Tile:
    """The tile with `counts[d]` points of every kept dim."""
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


def compute_tile(frame: Frame, tile: Tile) -> list[Statement]:
    """Declares and fills the accumulators of a tile."""
    statements = bases(frame)
    if not frame.problem.contracted:
        body = Body(frame, tile, {}, "b", lanes=None)
        return [*statements, *body.without_reduction()]
    operator = frame.problem.operator
    assert operator is not None
    for vectors in tile.accumulators:
        for refs in vectors:
            statements += [
                Let(ref, neutral, mutable=True)
                for ref, neutral in zip(refs, identity_of(operator), strict=True)
            ]
    if frame.lane_is_reduced:
        statements += [
            Let(ref, neutral, mutable=True)
            for refs in single_accumulators(frame, tile)
            for ref, neutral in zip(refs, identity_of(operator), strict=True)
        ]

    def combine(counts: Mapping[int, int], lanes: str | None) -> list[Statement]:
        return Body(frame, tile, counts, "p", lanes).with_reduction()

    return [*statements, *combining_loops(frame, combine)]


def single_accumulators(frame: Frame, tile: Tile) -> tuple[tuple[Ref, ...], ...]:
    """Per point, the scalars that take what is left of a reduced lane dim after whole vectors."""
    if not has_singles(frame):
        return ()
    return tuple(
        tuple(Ref(ref.name.replace("a", "s", 1), ref.dtype) for ref in vectors[0])
        for vectors in tile.accumulators
    )


def has_singles(frame: Frame) -> bool:
    """Whether a combined lane dim may leave elements after whole vectors."""
    extent = frame.problem.extents[frame.schedule.lane].constant
    return extent is None or extent % frame.schedule.width != 0


def bases(frame: Frame) -> list[Statement]:
    """A pointer per stream to the tile's first point, all reduced indices at their start."""
    statements: list[Statement] = []
    needed = {
        d for layout in frame.layouts.values() for d in frame.problem.kept if layout.has(d, OUTER)
    }
    for d in sorted(needed):
        tiling = frame.tilings[d]
        inside = name(tiling.var("r")) - name(tiling.var("t"))
        block = as_index(tiling.block)
        statements.append(LetIndex(tiling.var("k"), IndexCalc("/", inside, block)))
        if tiling.block > 1:
            statements.append(LetIndex(tiling.var("m"), IndexCalc("%", inside, block)))
    for number, stream in enumerate(frame.problem.streams):
        kept = [d for d in frame.problem.kept if stream.uses(d)]
        layout = frame.layouts.get(number)
        if layout is None:
            offset = total(stream.strides[d] * name(frame.tilings[d].var("r")) for d in kept)
        else:
            offset = total(
                layout.stride(d, part) * name(frame.tilings[d].var(prefix))
                for d in kept
                for part, prefix in ((OUTER, "k"), (INNER, "m"))
            )
        statements.append(stream_pointer(frame, number, f"b{number}", offset))
    return statements


def stream_pointer(frame: Frame, number: int, target: str, offset: Index) -> Pointer:
    """Declares a pointer to a stream's buffer or staged tile; `p0` counts from `b0`."""
    layout = frame.layouts.get(number)
    memory = _memory(frame, number)
    if target.startswith("p"):
        source = f"b{number}"
    else:
        source = layout.pointer if layout else f"I{frame.problem.streams[number].buffer}"
    region = "global" if layout is None or layout.region == "scratch" else layout.region
    return Pointer(target, source, memory, region, offset)


def _memory(frame: Frame, number: int) -> np.dtype:
    """The type of a stream's elements in memory, or in its staged tile."""
    layout = frame.layouts.get(number)
    return layout.memory if layout else frame.problem.inputs[frame.problem.streams[number].buffer]


# What is done at a point of the loops over combined dims: from unrolled counts and `Body.lanes`.
AtPoint = Callable[[Mapping[int, int], str | None], list[Statement]]


def combining_loops(frame: Frame, at_point: AtPoint) -> list[Statement]:
    """The loops over combined dims, inside them the pointers of the streams, then `at_point`."""
    return _combining_loops(frame, at_point, 0, {}, None)


def _combining_loops(
    frame: Frame, at_point: AtPoint, level: int, counts: Mapping[int, int], lanes: str | None
) -> list[Statement]:
    order = frame.schedule.reduce_order
    if level == len(order):
        return [*stream_pointers(frame), *at_point(counts, lanes)]
    d = order[level]
    tiling = frame.tilings[d]
    var, end = tiling.var("r"), name(tiling.var("e"))
    start = name(tiling.var("t"))
    if tiling.threads > 1:
        start = start + name(tiling.var("x")) * tiling.register

    def inner(count: int, mode: str | None = lanes) -> tuple[Statement, ...]:
        return tuple(_combining_loops(frame, at_point, level + 1, {**counts, d: count}, mode))

    is_lane = d == frame.schedule.lane
    count, mode = tiling.register, "vectors" if is_lane else lanes
    block = as_index(tiling.block)
    loops: list[Statement] = [LetIndex(var, start, mutable=True)]
    # With threads, a whole register tile must fit, not a whole block of all threads.
    stop = end + (tiling.block - tiling.register)
    loops.append(Loop(var, None, stop, block, inner(count, mode)))
    if tiling.remainder == 0:
        return loops
    if is_lane:
        width = frame.schedule.width
        one = as_index(1)
        if tiling.register > width and (tiling.remainder is None or tiling.remainder >= width):
            loops.append(Loop(var, None, end, as_index(width), inner(width, "vector")))
        if has_singles(frame):
            loops.append(Loop(var, None, end, one, inner(1, "single")))
    elif tiling.remainder is None or tiling.threads > 1:
        if tiling.register > 1:
            loops.append(Loop(var, None, end, as_index(1), inner(1)))
    else:
        # What an If would do once: after one, Intel's compiler was seen to count wrongly.
        rest = as_index(tiling.remainder)
        loops.append(Loop(var, None, end, rest, inner(tiling.remainder)))
    return loops


def stream_pointers(frame: Frame) -> list[Statement]:
    """A pointer per stream to the current point of the reduced dims."""
    statements: list[Statement] = []
    for number, stream in enumerate(frame.problem.streams):
        reduced = [d for d in frame.schedule.reduce_order if stream.uses(d)]
        layout = frame.layouts.get(number)
        offset = as_index(0)
        if layout is not None and layout.stages > 1:
            offset = name(READ_STAGE) * layout.apart
        for d in reduced:
            var = name(frame.tilings[d].var("r"))
            if layout is None:
                offset = offset + stream.strides[d] * var
            else:
                inside = var - name(frame.tilings[d].var("t"))
                offset = offset + _staged_offset(layout, frame, d, inside, statements)
        statements.append(stream_pointer(frame, number, f"p{number}", offset))
    return statements


def _staged_offset(
    layout: Layout, frame: Frame, d: int, inside: Index, statements: list[Statement]
) -> Index:
    if layout.has(d, FULL):
        return layout.stride(d, FULL) * inside
    block = frame.tilings[d].block
    outer, inner = layout.stride(d, OUTER), layout.stride(d, INNER)
    if inner * block == outer:
        return inner * inside
    number, rest = frame.tilings[d].var("k"), frame.tilings[d].var("m")
    declared = {s.name for s in statements if isinstance(s, LetIndex)}
    if number not in declared:
        statements.append(LetIndex(number, IndexCalc("/", inside, as_index(block))))
        statements.append(LetIndex(rest, IndexCalc("%", inside, as_index(block))))
    return outer * name(number) + inner * name(rest)


@dataclass(slots=True)
class Body:
    """The unrolled body: loads, shared between points, and one computation per point and piece.

    `counts` has the unrolled points of every reduced dim; `pointer` begins the names of the
    pointers that are read through; `lanes` tells how a reduced lane dim runs: "vectors" (its whole
    register tile), "vector" (one), "single" (element by element). `prefix` keeps names apart.
    """

    frame: Frame
    tile: Tile
    counts: Mapping[int, int]
    pointer: str
    lanes: str | None
    prefix: str = ""
    named: dict[Value, Ref] = field(default_factory=dict[Value, Ref])
    statements: list[Statement] = field(default_factory=list[Statement])

    def without_reduction(self) -> list[Statement]:
        """Every accumulator is what the scalar function gives."""
        scalar = self.frame.problem.scalar
        for u, point in enumerate(self.tile.points):
            for p, piece in enumerate(self.tile.pieces):
                values = self.values(scalar, self.frame.problem.reads, point, (), piece)
                for ref, value in zip(self.tile.accumulators[u][p], values, strict=True):
                    self.statements.append(Let(ref, value, mutable=True))
        return [*self.asked_ahead(), *self.statements]

    def asked_ahead(self) -> list[Statement]:
        """Requests for what the body of a later iteration will load from where it lies.

        What is left of a dim, in narrower vectors, asks for nothing: no iteration follows.
        """
        schedule = self.frame.schedule
        narrow = any(piece.lanes < schedule.width for piece in self.tile.pieces)
        if not schedule.ahead or narrow or self.lanes == "single":
            return []
        loads: dict[int, list[Load]] = {}
        for value in self.named:
            if isinstance(value, Load):
                loads.setdefault(int(value.buffer.removeprefix(self.pointer)), []).append(value)
        for number in self.frame.layouts:
            loads.pop(number, None)
        return asked_ahead(self.frame.problem, schedule, loads)

    def with_reduction(self) -> list[Statement]:
        """Every accumulator is combined with what the scalar function gives, step by step."""
        operator = self.frame.problem.operator
        assert operator is not None
        scalar = self.frame.problem.scalar
        dims = [d for d in self.frame.schedule.reduce_order if d != self.frame.schedule.lane]
        direct = is_elementwise(operator)
        in_order = self._goes_in_order()
        positions = [self.frame.tilings[d].positions(self.counts[d]) for d in dims]
        for step in itertools.product(*positions):
            reduced = tuple(zip(dims, step, strict=True))
            for u, point in self._traversed():
                for piece, refs in self._targets(u):
                    reads = self.frame.problem.reads
                    values = self.values(scalar, reads, point, reduced, piece)
                    results = combined(operator, refs, values, in_order=in_order)
                    self._assign(refs, results, direct or len(refs) == 1)
        return [*self.asked_ahead(), *self.statements]

    def _goes_in_order(self) -> bool:
        """Whether an accumulator meets elements in the order of the combined dims."""
        schedule, dims = self.frame.schedule, self.frame.problem.contracted
        single = all(schedule.registers[d] == schedule.threads[d] == 1 for d in dims[:-1])
        return schedule.reduce_order == dims and single

    def _traversed(self) -> list[tuple[int, tuple[int, ...]]]:
        """The points with their numbers; resident ones there and back, row by row.

        So an operand is used again at every turn, which keeps it in the register file's cache.
        """
        numbered = list(enumerate(self.tile.points))
        dims = self.frame.unrolled_kept
        if not self.frame.schedule.resident or not dims:
            return numbered
        length = self.frame.schedule.registers[dims[-1]]
        rows = [numbered[n : n + length] for n in range(0, len(numbered), length)]
        return [pair for n, row in enumerate(rows) for pair in (row[::-1] if n % 2 else row)]

    def _assign(self, refs: Sequence[Ref], results: Sequence[Value], direct: bool) -> None:
        if direct:
            self.statements += [Set(r, v) for r, v in zip(refs, results, strict=True)]
            return
        held = [
            Ref(f"n{len(self.statements)}_{k}", ref.dtype, ref.lanes) for k, ref in enumerate(refs)
        ]
        self.statements += [Let(h, v) for h, v in zip(held, results, strict=True)]
        self.statements += [Set(r, h) for r, h in zip(refs, held, strict=True)]

    def _targets(self, u: int) -> list[tuple[Piece, tuple[Ref, ...]]]:
        if self.lanes == "single":
            return [(Piece(0, 1, 1), single_accumulators(self.frame, self.tile)[u])]
        pairs = list(zip(self.tile.pieces, self.tile.accumulators[u], strict=True))
        return pairs[:1] if self.lanes == "vector" else pairs

    def values(
        self,
        function: ScalarFunction,
        reads: Sequence[Read],
        point: tuple[int, ...],
        reduced: Steps,
        piece: Piece,
        before: Sequence[Value] = (),
    ) -> list[Value]:
        """What a function gives for one point and piece; `before` are its first parameters."""
        steps = (*zip(self.frame.unrolled_kept, point, strict=True), *reduced)

        def index(label: str) -> Value:
            return self._index(self.frame.problem.labels.index(label), steps, piece)

        params: list[Value] = list(before)
        for read in reads:
            params.append(self._read(read, steps, piece, params, index))
        return [value_of(result, params, index) for result in function.results]

    def _index(self, d: int, steps: Steps, piece: Piece) -> Value:
        """The index of a dim at a point; along the lanes of a piece a vector."""
        step = dict(steps).get(d, 0)
        if self.frame.is_clamped(d):
            return FromIndex(self.frame.clamped(d, step), I64)
        first = name(self.frame.tilings[d].var("r")) + step
        if d != self.frame.schedule.lane:
            return FromIndex(first, I64)
        value = FromIndex(first + piece.offset, I64)
        if piece.lanes == 1:
            return value
        return Calc("add", (value, Iota(I64, piece.lanes)), I64, piece.lanes)

    def _read(
        self,
        read: Read,
        steps: Steps,
        piece: Piece,
        params: Sequence[Value],
        index: Callable[[str], Value],
    ) -> Value:
        problem = self.frame.problem
        offset = as_index(0) if read.stream in self.frame.layouts else place_of(problem, read)
        for d, step in steps:
            if self.frame.is_clamped(d) and read.stream not in self.frame.layouts:
                stride = self._stride(read.stream, d)
                offset = offset + stride * self.frame.clamped(d, step)
            elif step:
                offset = offset + self._stride(read.stream, d) * step
        if not read.computed:
            return self._load(read.stream, offset, piece, self._inside(read.stream, steps))
        place: Value | None = None
        for part in read.computed:
            inside = _inside(value_of(part.expr, params, index), part.extent)
            step = Calc("mul", (inside, FromIndex(part.stride, I64)), I64, inside.lanes)
            lanes = step.lanes if place is None else max(place.lanes, step.lanes)
            place = step if place is None else Calc("add", (place, step), I64, lanes)
        assert place is not None
        return self._gather(read.stream, offset, place, piece)

    def _inside(self, stream: int, steps: Steps) -> Value | None:
        """Whether an element lies inside of the axes outside of which a stream is zero."""
        if stream in self.frame.layouts:
            return None
        further = dict(steps)

        def at(d: int) -> Index:
            if self.frame.is_clamped(d):
                return self.frame.clamped(d, further.get(d, 0))
            return name(self.frame.tilings[d].var("r")) + further.get(d, 0)

        axes = self.frame.problem.streams[stream].axes
        return all_inside(axis_indices(axes, at)) if axes else None

    def _gather(self, stream: int, offset: Index, place: Value, piece: Piece) -> Value:
        """The elements at computed places, which count from the offset."""
        lane = self.frame.schedule.lane
        stride = self._stride(stream, lane) if lane >= 0 else as_index(0)
        if place.lanes == 1:
            held = self._named("g", place)
            return self._load(stream, offset + name(held.name), piece)
        if stride.terms:
            along = Calc("mul", (Iota(I64, piece.lanes), FromIndex(stride, I64)), I64, piece.lanes)
            place = Calc("add", (place, along), I64, piece.lanes)
            offset = offset + stride * piece.offset
        held = self._named("g", place)
        valid = 0 if piece.valid == piece.lanes else piece.valid
        memory = _memory(self.frame, stream)
        return self._named("x", Gather(f"{self.pointer}{stream}", memory, offset, held, valid))

    def _named(self, prefix: str, value: Value) -> Ref:
        """A variable that holds a value, the same one for the same value."""
        if value not in self.named:
            ref = Ref(f"{prefix}{self.prefix}{len(self.named)}", value.dtype, value.lanes)
            self.named[value] = ref
            self.statements.append(Let(ref, value))
        return self.named[value]

    def _stride(self, stream: int, d: int) -> Index:
        layout = self.frame.layouts.get(stream)
        if layout is None:
            return self.frame.problem.streams[stream].strides[d]
        return layout.stride(d, FULL) if layout.has(d, FULL) else layout.stride(d, INNER)

    def _load(self, stream: int, offset: Index, piece: Piece, inside: Value | None = None) -> Value:
        lane = self.frame.schedule.lane
        stride = self._stride(stream, lane) if lane >= 0 else as_index(0)
        lanes = piece.lanes if stride.terms else 1
        if lane >= 0 and piece.offset:
            offset = offset + stride * piece.offset
        valid = piece.valid if lanes == piece.lanes else 1
        if stream in self.frame.layouts:
            valid = lanes
        load = Load(
            f"{self.pointer}{stream}",
            _memory(self.frame, stream),
            offset,
            lanes,
            stride if lanes > 1 else 1,
            0 if valid == lanes else valid,
        )
        if inside is None:
            return self._named("x", load)
        zero = Literal(0, load.dtype)
        return self._named("x", Calc("select", (inside, load, zero), load.dtype))


def _inside(value: Value, extent: Index) -> Value:
    """An index as NumPy takes it, from the end where negative, and moved into the axis."""
    lanes, count = value.lanes, FromIndex(extent, I64)
    wide = value if value.dtype == I64 else Calc("cast", (value,), I64, lanes)
    zero = Literal(0, I64)
    from_end = Calc("add", (wide, count), I64, lanes)
    negative = Calc("lt", (wide, zero), U8, lanes)
    counted = Calc("select", (negative, from_end, wide), I64, lanes)
    last = FromIndex(extent - 1, I64)
    return Calc("max", (Calc("min", (counted, last), I64, lanes), zero), I64, lanes)
