"""The register tile: accumulators, the loops over reduced dims, and the unrolled computation.

A tile is a number of points per kept dim, computed by one work-item. Points along the lane dim are
held in vectors (`Piece`s); all others, and all vectors, are separate named variables.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mdtensor.lower.index import Index, as_index, name, total
from mdtensor.lower.nest import (
    If,
    IndexCalc,
    Let,
    LetIndex,
    Load,
    Loop,
    Pointer,
    Ref,
    Set,
    Statement,
    Value,
    register_dtype,
)
from mdtensor.lower.passes.stage_inputs import FULL, INNER, OUTER, Layout
from mdtensor.lower.problem import Problem
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.tiling import DimTiling
from mdtensor.lower.values import combined, identity_of, is_elementwise, value_of


@dataclass(frozen=True, slots=True)
class Piece:
    """A vector along the lane dim: its offset in the tile, its lanes, and how many count."""

    offset: int
    lanes: int
    valid: int


@dataclass(frozen=True, slots=True)
class Frame:
    """All that the passes below the cache tiles read."""

    problem: Problem
    schedule: Schedule
    tilings: tuple[DimTiling, ...]
    layouts: Mapping[int, Layout]

    @property
    def lane_is_reduced(self) -> bool:
        """Whether SIMD lanes hold partial results of one reduction."""
        lane = self.schedule.lane
        return lane >= 0 and self.problem.reduced[lane]

    @property
    def unrolled_kept(self) -> tuple[int, ...]:
        """Kept dims other than the lane dim, in the order in which points are numbered."""
        return tuple(d for d in self.schedule.loop_order if d != self.schedule.lane)


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
    points = tuple(itertools.product(*(range(counts[d]) for d in dims)))
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
    statements = _bases(frame)
    if not frame.problem.contracted:
        body = _Body(frame, tile, {}, "b", lanes=None)
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
    return [*statements, *_reduce(frame, tile, 0, {}, None)]


def single_accumulators(frame: Frame, tile: Tile) -> tuple[tuple[Ref, ...], ...]:
    """Per point, the scalars that take what is left of a reduced lane dim after whole vectors."""
    remainder = frame.problem.extents[frame.schedule.lane].constant
    if remainder is not None and remainder % frame.schedule.width == 0:
        return ()
    return tuple(
        tuple(Ref(ref.name.replace("a", "s", 1), ref.dtype) for ref in vectors[0])
        for vectors in tile.accumulators
    )


def _bases(frame: Frame) -> list[Statement]:
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
        statements.append(_pointer(frame, number, f"b{number}", offset))
    return statements


def _pointer(frame: Frame, number: int, target: str, offset: Index) -> Pointer:
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


def _reduce(
    frame: Frame,
    tile: Tile,
    level: int,
    counts: Mapping[int, int],
    lanes: str | None,
) -> list[Statement]:
    """The loops over reduced dims from `level` on, inside them the unrolled body."""
    order = frame.schedule.reduce_order
    if level == len(order):
        body = _Body(frame, tile, counts, "p", lanes)
        return [*_stream_pointers(frame), *body.with_reduction()]
    d = order[level]
    tiling = frame.tilings[d]
    var, end = tiling.var("r"), name(tiling.var("e"))
    start = name(tiling.var("t"))
    if tiling.threads > 1:
        start = start + name(tiling.var("x")) * tiling.register

    def inner(count: int, mode: str | None = lanes) -> tuple[Statement, ...]:
        return tuple(_reduce(frame, tile, level + 1, {**counts, d: count}, mode))

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
        if single_accumulators(frame, tile):
            loops.append(Loop(var, None, end, one, inner(1, "single")))
    elif tiling.remainder is None or tiling.threads > 1:
        if tiling.register > 1:
            loops.append(Loop(var, None, end, as_index(1), inner(1)))
    else:
        loops.append(If(name(var) + tiling.remainder, "<=", end, inner(tiling.remainder)))
    return loops


def _stream_pointers(frame: Frame) -> list[Statement]:
    """A pointer per stream to the current point of the reduced dims."""
    statements: list[Statement] = []
    for number, stream in enumerate(frame.problem.streams):
        reduced = [d for d in frame.schedule.reduce_order if stream.uses(d)]
        layout = frame.layouts.get(number)
        offset = as_index(0)
        for d in reduced:
            var = name(frame.tilings[d].var("r"))
            if layout is None:
                offset = offset + stream.strides[d] * var
            else:
                inside = var - name(frame.tilings[d].var("t"))
                offset = offset + _staged_offset(layout, frame, d, inside, statements)
        statements.append(_pointer(frame, number, f"p{number}", offset))
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
class _Body:
    """The unrolled body: loads, shared between points, and one computation per point and piece.

    `counts` has the unrolled points of every reduced dim; `lanes` tells how a reduced lane dim
    runs: "vectors" (its whole register tile), "vector" (one), "single" (element by element).
    """

    frame: Frame
    tile: Tile
    counts: Mapping[int, int]
    pointer: str
    lanes: str | None
    loads: dict[tuple[int, Index, int, int], Ref] = field(
        default_factory=dict[tuple[int, Index, int, int], Ref]
    )
    statements: list[Statement] = field(default_factory=list[Statement])

    def without_reduction(self) -> list[Statement]:
        scalar = self.frame.problem.scalar
        for u, point in enumerate(self.tile.points):
            for p, piece in enumerate(self.tile.pieces):
                params = self._params(point, (), piece)
                for ref, result in zip(self.tile.accumulators[u][p], scalar.results, strict=True):
                    self.statements.append(Let(ref, value_of(result, params), mutable=True))
        return self.statements

    def with_reduction(self) -> list[Statement]:
        operator = self.frame.problem.operator
        assert operator is not None
        scalar = self.frame.problem.scalar
        dims = [d for d in self.frame.schedule.reduce_order if d != self.frame.schedule.lane]
        direct = is_elementwise(operator)
        for step in itertools.product(*(range(self.counts[d]) for d in dims)):
            reduced = tuple(zip(dims, step, strict=True))
            for u, point in enumerate(self.tile.points):
                for piece, refs in self._targets(u):
                    params = self._params(point, reduced, piece)
                    values = [value_of(result, params) for result in scalar.results]
                    results = combined(operator, refs, values)
                    self._assign(refs, results, direct or len(refs) == 1)
        return self.statements

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

    def _params(
        self, point: tuple[int, ...], reduced: tuple[tuple[int, int], ...], piece: Piece
    ) -> list[Value]:
        frame = self.frame
        fixed = [*zip(frame.unrolled_kept, point, strict=True), *reduced]
        params: list[Value] = []
        for read in frame.problem.reads:
            offset = as_index(0 if read.stream in frame.layouts else read.offset)
            for d, step in fixed:
                if step:
                    offset = offset + self._stride(read.stream, d) * step
            params.append(self._load(read.stream, offset, piece))
        return params

    def _stride(self, stream: int, d: int) -> Index:
        layout = self.frame.layouts.get(stream)
        if layout is None:
            return self.frame.problem.streams[stream].strides[d]
        return layout.stride(d, FULL) if layout.has(d, FULL) else layout.stride(d, INNER)

    def _load(self, stream: int, offset: Index, piece: Piece) -> Value:
        lane = self.frame.schedule.lane
        stride = self._stride(stream, lane) if lane >= 0 else as_index(0)
        lanes = piece.lanes if stride.terms else 1
        if lane >= 0 and piece.offset:
            offset = offset + stride * piece.offset
        valid = piece.valid if lanes == piece.lanes else 1
        if stream in self.frame.layouts:
            valid = lanes
        key = (stream, offset, lanes, valid)
        if key not in self.loads:
            memory = _memory(self.frame, stream)
            ref = Ref(f"x{len(self.loads)}", register_dtype(memory), lanes)
            load = Load(
                f"{self.pointer}{stream}",
                memory,
                offset,
                lanes,
                stride if lanes > 1 else 1,
                0 if valid == lanes else valid,
            )
            self.loads[key] = ref
            self.statements.append(Let(ref, load))
        return self.loads[key]
