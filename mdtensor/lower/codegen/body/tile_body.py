"""The unrolled body of a register tile: its loads, and one computation per point and vector."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.bounds_checks import all_inside, axis_indices
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, Steps, Tile, single_accumulators
from mdtensor.lower.codegen.base.staged_layouts import FULL, INNER
from mdtensor.lower.codegen.base.stream_pointers import memory_of
from mdtensor.lower.codegen.base.tuple_variables import sets, sets_at_once
from mdtensor.lower.codegen.base.value_from_expr import (
    are_large,
    combined,
    is_elementwise,
    value_of,
    values_of,
)
from mdtensor.lower.codegen.body.packed_sums import with_packed_sums
from mdtensor.lower.codegen.body.select_tuple import select_tuple, take_tuple
from mdtensor.lower.codegen.memory.prefetch import asked_ahead
from mdtensor.lower.codegen.memory.traversal import traversed
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.register_types import I64, U8
from mdtensor.lower.ir.statements import Let, Statement
from mdtensor.lower.ir.values import Calc, FromIndex, Gather, Iota, Literal, Load, Ref, Value
from mdtensor.lower.problem.problem import Read
from mdtensor.lower.problem.select_operators import choice_of
from mdtensor.lower.problem.zero_padding import place_of
from mdtensor.translate.scalar_function import ScalarFunction


@dataclass(slots=True)
class Body:
    """The unrolled body of a tile: shared loads, and one computation per point and piece.

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
    # Values already read, by read and position; many points share them.
    known: dict[tuple[Read, Steps, LaneVector], Value] = field(
        default_factory=dict[tuple[Read, Steps, LaneVector], Value]
    )
    statements: list[Statement] = field(default_factory=list[Statement])

    def without_reduction(self) -> list[Statement]:
        """Declare every accumulator as the scalar function's value."""
        scalar = self.frame.problem.scalar
        for u, point in enumerate(self.tile.points):
            for p, piece in enumerate(self.tile.pieces):
                values = self.values(scalar, self.frame.problem.reads, point, (), piece)
                for ref, value in zip(self.tile.accumulators[u][p], values, strict=True):
                    self.statements.append(Let(ref, value, mutable=True))
        return [*self.asked_ahead(), *self.statements]

    def asked_ahead(self) -> list[Statement]:
        """Prefetches of unstaged data that a later iteration will load.

        Remainders in narrower vectors prefetch nothing: no iteration follows.
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
        """Combine every accumulator with the scalar function's values, step by step."""
        operator = self.frame.operator
        scalar = self.frame.problem.scalar
        dims = [d for d in self.frame.schedule.reduce_order if d != self.frame.schedule.lane]
        direct = is_elementwise(operator)
        in_order = self._goes_in_order()
        choice, taken = None, list[Statement]()
        if not direct and not are_large(scalar.results):
            choice = choice_of(self.frame.problem, in_order=in_order)
        packed = () if choice is None else with_packed_sums(choice.results)
        positions = [self.frame.tilings[d].positions(self.counts[d]) for d in dims]
        steps = list(itertools.product(*positions))
        for step, (u, point) in traversed(self.frame, self.tile.points, self.counts, steps):
            reduced = tuple(zip(dims, step, strict=True))
            for piece, refs in self._targets(u):
                reads = self.frame.problem.reads
                params, index = self._params(reads, point, reduced, piece)
                if choice is not None and self.frame.schedule.resident:
                    prefix = f"v{self.prefix}{len(taken)}"
                    taken += take_tuple(choice, refs, params, index, prefix)
                    continue
                results: Sequence[Value]
                if choice is not None:
                    values = values_of(packed, params, index, self._part, name_shared=True)
                    own = [self._part(v) if isinstance(v, Calc) else v for v in values]
                    results = select_tuple(choice, refs, own, params, index)
                else:
                    values = values_of(scalar.results, params, index, self._part)
                    results = combined(operator, refs, values, in_order=in_order)
                self._assign(refs, results, direct or len(refs) == 1)
        return [*self.asked_ahead(), *self.statements, *taken]

    def _goes_in_order(self) -> bool:
        """Whether an accumulator takes elements in the order of the combined dims."""
        schedule, dims = self.frame.schedule, self.frame.problem.contracted
        single = all(schedule.registers[d] == schedule.threads[d] == 1 for d in dims[:-1])
        return schedule.reduce_order == dims and single

    def _assign(self, refs: Sequence[Ref], results: Sequence[Value], direct: bool) -> None:
        if direct:
            self.statements += sets(refs, results)
            return
        held = [
            Ref(f"n{len(self.statements)}_{k}", ref.dtype, ref.lanes) for k, ref in enumerate(refs)
        ]
        self.statements += sets_at_once(refs, results, held)

    def _targets(self, u: int) -> list[tuple[LaneVector, tuple[Ref, ...]]]:
        if self.lanes == "single":
            return [(LaneVector(0, 1, 1), single_accumulators(self.frame, self.tile)[u])]
        pairs = list(zip(self.tile.pieces, self.tile.accumulators[u], strict=True))
        return pairs[:1] if self.lanes == "vector" else pairs

    def values(
        self,
        function: ScalarFunction,
        reads: Sequence[Read],
        point: tuple[int, ...],
        reduced: Steps,
        piece: LaneVector,
        before: Sequence[Value] = (),
    ) -> list[Value]:
        """The values of a function at a point and piece; `before` are its leading arguments."""
        params, index = self._params(reads, point, reduced, piece, before)
        return values_of(function.results, params, index, self._part)

    def _params(
        self,
        reads: Sequence[Read],
        point: tuple[int, ...],
        reduced: Steps,
        piece: LaneVector,
        before: Sequence[Value] = (),
    ) -> tuple[list[Value], Callable[[str], Value]]:
        """The arguments of a function at a point and piece, after `before`, and its indices."""
        steps = (*zip(self.frame.unrolled_kept, point, strict=True), *reduced)

        def index(label: str) -> Value:
            return self._index(self.frame.problem.labels.index(label), steps, piece)

        params: list[Value] = list(before)
        for read in reads:
            stream = self.frame.problem.streams[read.stream]
            if read.computed or stream.axes:
                params.append(self._read(read, steps, piece, params, index))
                continue
            own = tuple(pair for pair in steps if stream.uses(pair[0]))
            if (found := self.known.get((read, own, piece))) is None:
                found = self._read(read, steps, piece, params, index)
                self.known[read, own, piece] = found
            params.append(found)
        return params, index

    def _index(self, d: int, steps: Steps, piece: LaneVector) -> Value:
        """The index of a dim at a point; a vector along the lanes of a piece."""
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
        piece: LaneVector,
        params: Sequence[Value],
        index: Callable[[str], Value],
    ) -> Value:
        problem = self.frame.problem
        layout = self.frame.layouts.get(read.stream)
        offset = layout.start_of(read.offset) if layout else place_of(problem, read)
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
            inside = _inside(value_of(part.expr, params, index, self._part), part.extent)
            step = Calc("mul", (inside, FromIndex(part.stride, I64)), I64, inside.lanes)
            lanes = step.lanes if place is None else max(place.lanes, step.lanes)
            place = step if place is None else Calc("add", (place, step), I64, lanes)
        assert place is not None
        return self._gather(read.stream, offset, place, piece)

    def _inside(self, stream: int, steps: Steps) -> Value | None:
        """The condition that an element lies inside its array; None where nothing is padded."""
        if stream in self.frame.layouts:
            return None
        further = dict(steps)

        def at(d: int) -> Index:
            if self.frame.is_clamped(d):
                return self.frame.clamped(d, further.get(d, 0))
            return name(self.frame.tilings[d].var("r")) + further.get(d, 0)

        axes = self.frame.problem.streams[stream].axes
        return all_inside(axis_indices(axes, at)) if axes else None

    def _gather(self, stream: int, offset: Index, place: Value, piece: LaneVector) -> Value:
        """A gather at computed indices, relative to the read's offset."""
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
        memory = memory_of(self.frame, stream)
        return self._named("x", Gather(f"{self.pointer}{stream}", memory, offset, held, valid))

    def _part(self, value: Value) -> Ref:
        return self._named("part", value)

    def _named(self, prefix: str, value: Value) -> Ref:
        """A variable for a value; equal values share one."""
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

    def _begins_a_block(self, lane: int) -> bool:
        """Whether padded vectors start at blocks, so that staged tiles hold all their lanes.

        What is left of an extent that is not known takes several vectors, one behind the other.
        """
        return lane >= 0 and self.frame.tilings[lane].remainder is not None

    def _load(
        self, stream: int, offset: Index, piece: LaneVector, inside: Value | None = None
    ) -> Value:
        lane = self.frame.schedule.lane
        stride = self._stride(stream, lane) if lane >= 0 else as_index(0)
        lanes = piece.lanes if stride.terms else 1
        if lane >= 0 and piece.offset:
            offset = offset + stride * piece.offset
        valid = piece.valid if lanes == piece.lanes else 1
        if stream in self.frame.layouts and self._begins_a_block(lane):
            valid = lanes
        load = Load(
            f"{self.pointer}{stream}",
            memory_of(self.frame, stream),
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
    """An index with NumPy's wrap-around of negative values, clamped to the axis."""
    lanes, count, last = value.lanes, FromIndex(extent, I64), FromIndex(extent - 1, I64)
    if _is_unsigned(value):
        return Calc("min", (value, last), I64, lanes)
    wide = value if value.dtype == I64 else Calc("cast", (value,), I64, lanes)
    zero = Literal(0, I64)
    from_end = Calc("add", (wide, count), I64, lanes)
    negative = Calc("lt", (wide, zero), U8, lanes)
    counted = Calc("select", (negative, from_end, wide), I64, lanes)
    return Calc("max", (Calc("min", (counted, last), I64, lanes), zero), I64, lanes)


def _is_unsigned(value: Value) -> bool:
    """Whether an int64 value was cast from a narrower unsigned type, so is never negative."""
    if not isinstance(value, Calc) or value.op != "cast" or value.dtype != I64:
        return False
    (source,) = value.args
    return source.dtype.kind == "u" and source.dtype.itemsize < I64.itemsize
