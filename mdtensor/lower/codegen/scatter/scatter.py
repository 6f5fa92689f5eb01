"""Scatter: elements are combined into partial results at a computed index (histograms).

Every group has copies of its own, one for each unrolled step, so that neighbouring elements that
select the same point do not wait for each other. A second kernel combines all copies.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, tile_of
from mdtensor.lower.codegen.base.stream_pointers import bases
from mdtensor.lower.codegen.base.tuple_variables import lets
from mdtensor.lower.codegen.base.value_from_expr import combined, identity_of
from mdtensor.lower.codegen.body.reduction_loops import combining_loops
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.register_types import I64
from mdtensor.lower.ir.statements import If, Let, LetIndex, Loop, Pointer, Statement, VectorStore
from mdtensor.lower.ir.values import Calc, Load, Ref, Value
from mdtensor.lower.problem.simd_lanes import LANES
from mdtensor.lower.schedule.machine_model import asm_of

_ONE = LaneVector(0, 1, 1)


def copies(frame: Frame) -> int:
    """The number of copies of the partial results per group."""
    return math.prod(frame.schedule.registers[d] for d in frame.problem.contracted)


def scatter(
    frame: Frame, dim: int, destinations: Sequence[Destination], size: Index
) -> list[Statement]:
    """Combine all elements of a group into its copies; `dim` is the scattered one.

    The scalar function of the frame's problem gives the values and the index; `size` is the
    number of elements of one copy.
    """
    operator = frame.operator
    around = [d for d in frame.schedule.loop_order if d != dim]
    kept = {d: name(frame.tilings[d].var("r")) for d in around}
    point = name("point")
    neutral = identity_of(operator)

    def place(k: int, copy: Index | int, at: Index) -> Index:
        strides = destinations[k].strides
        inside = total(strides[d] * index for d, index in kept.items())
        return size * copy + inside + strides[dim] * at

    # Pointers of the group's own: for each element compilers would else add where it begins.
    own = [f"own{k}" for k in range(len(destinations))]
    pointers = [
        Pointer(pointer, d.pointer, d.memory, "global", d.offset, const=False)
        for pointer, d in zip(own, destinations, strict=True)
    ]

    def cleared(values: Sequence[Value]) -> tuple[Statement, ...]:
        return tuple(
            VectorStore(own[k], d.memory, place(k, name("copy"), point), value)
            for k, (d, value) in enumerate(zip(destinations, values, strict=True))
        )

    one, zero = as_index(1), as_index(0)
    extent = frame.problem.extents[dim]
    clear: list[Statement] = [LetIndex("point", zero, mutable=True)]
    alike: list[Statement] = []
    if asm_of(frame.schedule.asm).vectors and all(d.strides[dim] == one for d in destinations):
        vectors = [Ref(f"neutral{k}", value.dtype, LANES) for k, value in enumerate(neutral)]
        alike += lets(vectors, neutral)
        clear.append(Loop("point", None, extent, as_index(LANES), cleared(vectors)))
    clear.append(Loop("point", None, extent, one, cleared(neutral)))
    start = Loop("copy", zero, as_index(copies(frame)), one, tuple(clear))

    tile = tile_of(frame, dict.fromkeys(frame.problem.kept, 1))

    def at_point(counts: Mapping[int, int], lanes: str | None) -> list[Statement]:
        order = frame.schedule.reduce_order
        body = Body(frame, tile, counts, "p", lanes)
        found: list[Statement] = []
        for copy, step in enumerate(itertools.product(*(range(counts[d]) for d in order))):
            steps = tuple(zip(order, step, strict=True))
            problem = frame.problem
            *values, index = body.values(problem.scalar, problem.reads, tile.points[0], steps, _ONE)
            found += body.statements
            body.statements.clear()
            held = [Ref(f"v{copy}_{k}", value.dtype) for k, value in enumerate(values)]
            found += lets(held, values)
            at = Ref(f"at{copy}", I64)
            index, positive = _without_sign(index, at)
            found.append(Let(at, index))
            spots = [place(k, copy, name(at.name)) for k in range(len(held))]
            before = [Load(own[k], d.memory, spots[k]) for k, d in enumerate(destinations)]
            after = [Ref(f"n{copy}_{k}", ref.dtype) for k, ref in enumerate(held)]
            results = combined(operator, before, held)
            inside: list[Statement] = lets(after, results)
            inside += [
                VectorStore(own[k], d.memory, spots[k], after[k])
                for k, d in enumerate(destinations)
            ]
            below = If(name(at.name), "<", problem.extents[dim], tuple(inside))
            found.append(replace(positive, body=(below,)))
        return found

    statements: list[Statement] = [
        *alike,
        start,
        *bases(frame),
        *combining_loops(frame, tile, at_point),
    ]
    for d in reversed(around):
        tiling = frame.tilings[d]
        low, high = name(tiling.var("t")), name(tiling.var("e"))
        statements = [Loop(tiling.var("r"), low, high, one, tuple(statements))]
    here = frame.tilings[dim]
    return [LetIndex(here.var("r"), name(here.var("t"))), *pointers, *statements]


def _without_sign(index: Value, at: Ref) -> tuple[Value, If]:
    """The index to store in `at`, and a test, without a body yet, that it is not negative.

    A narrow one is widened with zeros, and a negative one thus as large as no positive one:
    processors take an instruction more for a load that copies the sign.
    """
    if isinstance(index, Calc) and index.op == "cast":
        (narrow,) = index.args
        size = narrow.dtype.itemsize
        if narrow.dtype.kind == "i" and size < I64.itemsize:
            unsigned = Calc("cast", (narrow,), np.dtype(f"u{size}"))
            most = as_index(1 << 8 * size - 1)
            return replace(index, args=(unsigned,)), If(name(at.name), "<", most, ())
    return index, If(as_index(-1), "<", name(at.name), ())
