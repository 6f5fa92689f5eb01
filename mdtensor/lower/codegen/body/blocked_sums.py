"""Blocked summation: accumulators of float sums are flushed to compensated totals by blocks.

An accumulator that takes one term after the other loses a bit each time the sum doubles. So behind
a block of steps it is added to a total by Kahan's summation, which keeps what an addition rounds
off for the next one, and the accumulator begins again. The error is that of a block, whatever the
number of terms. Only a loop that goes on adds to the total, so short sums cost a comparison.

A block has `TERMS` terms, and the totals are free, where loads bind a loop; half as many where a
thread has one sum at a time, whose vectors are added to one total together. Where accumulators
share all that is loaded, as in products of matrices, a block has `LONG`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import Frame, Tile, single_accumulators
from mdtensor.lower.codegen.base.tuple_variables import sets
from mdtensor.lower.codegen.base.value_from_expr import identity_of
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.register_types import U8
from mdtensor.lower.ir.statements import If, Increment, Let, LetIndex, Set, Statement
from mdtensor.lower.ir.values import Calc, Literal, Ref, Value
from mdtensor.translate.combine import Operator
from mdtensor.translate.trees import params_in

TERMS, LONG = 32, 256
_FLUSHES, _LEFT = "flushes", "left"


@dataclass(frozen=True, slots=True)
class BlockedSums:
    """Compensated totals of a register tile's accumulators, flushed every `steps` iterations.

    `sums` are the accumulators that are floats that are added up, those of one total together, with
    the neutral element of each. The loop goes through other dims too where it is `nested`.
    """

    steps: int
    sums: tuple[tuple[tuple[Ref, ...], Literal], ...]
    nested: bool
    block: int

    def declarations(self) -> list[Statement]:
        """Declare the totals, their compensations, and counters."""
        statements: list[Statement] = [LetIndex(_FLUSHES, as_index(0), mutable=True)]
        if self.nested:
            statements.append(LetIndex(_LEFT, as_index(self.elements), mutable=True))
        for (ref, *_), _ in self.sums:
            statements.append(Let(_total(ref), Literal(-0.0, ref.dtype, ref.lanes), mutable=True))
            statements.append(Let(_lost(ref), Literal(0.0, ref.dtype, ref.lanes), mutable=True))
        return statements

    @property
    def elements(self) -> int:
        """Points of the innermost dim in a block."""
        return self.steps * self.block

    def flush(self) -> list[Statement]:
        """Add the accumulators to their totals, and reset them."""
        return [*self._added(), Increment(_FLUSHES, 1), *self._again(0)]

    def _again(self, first: int) -> list[Statement]:
        """Reset each total's accumulators, from number `first` on."""
        pairs = [(ref, neutral) for refs, neutral in self.sums for ref in refs[first:]]
        return sets([ref for ref, _ in pairs], [neutral for _, neutral in pairs])

    def _added(self) -> list[Statement]:
        """Add the accumulators to their totals by Kahan summation."""
        statements: list[Statement] = []
        for refs, _ in self.sums:
            ref = refs[0]
            total, lost = _total(ref), _lost(ref)
            term, new, off = (Ref(f"{n}{ref.name}", ref.dtype, ref.lanes) for n in "tpq")
            zero = Literal(0.0, ref.dtype, ref.lanes)
            # Infinities and what is no number have lost none.
            is_finite = Calc("eq", (_calc("sub", off, off), zero), np.dtype(U8), ref.lanes)
            statements += [
                Let(term, _calc("sub", _added_up(refs), lost)),
                Let(new, _calc("add", total, term)),
                Let(off, _calc("sub", _calc("sub", new, total), term)),
                Set(lost, Calc("select", (is_finite, off, zero), ref.dtype, ref.lanes)),
                Set(total, new),
            ]
        return statements

    def flush_when_due(self, left: Index) -> list[Statement]:
        """Count points of the block down, and flush at its end; `left` is their negated number."""
        due = (*self.flush(), Increment(_LEFT, self.elements))
        return [Increment(_LEFT, left), If(name(_LEFT), "<=", as_index(0), due)]

    def finished(self) -> list[Statement]:
        """Set the accumulators to the totals, if anything was flushed."""
        statements = [*self._added(), *(Set(ref, _total(ref)) for (ref, *_), _ in self.sums)]
        statements += self._again(1)
        return [If(as_index(0), "<", name(_FLUSHES), tuple(statements))]


def blocked_sums(frame: Frame, tile: Tile) -> BlockedSums | None:
    """The blocked sums of a tile; None where no float sum is longer than a block."""
    added = [k for k in range(len(frame.operator.dtypes)) if _is_sum(frame.operator, k)]
    if not added:
        return None
    order = frame.schedule.reduce_order
    loops = [_steps(frame, d) for d in order]
    known = [steps for steps in loops if steps is not None]
    lane = frame.schedule.lane
    unrolled = math.prod([frame.schedule.registers[d] for d in order if d != lane])
    along_lanes = lane >= 0 and not frame.lane_is_reduced
    terms = TERMS if along_lanes or frame.items > 1 else TERMS // 2
    steps = max(1, (LONG if _shares_loads(frame) else terms) // unrolled)
    if len(known) == len(loops) and math.prod(known) <= steps:
        return None
    neutral = identity_of(frame.operator)
    nested = len(order) > 1
    sums = [
        (tuple([refs[k] for refs in together]), neutral[k])
        for together in _together(frame, tile, nested=nested)
        for k in added
    ]
    return BlockedSums(steps, tuple(sums), nested, frame.tilings[order[-1]].block)


def _together(frame: Frame, tile: Tile, *, nested: bool) -> Iterator[Sequence[Sequence[Ref]]]:
    """Groups of accumulators that share a total, as they are combined in the end anyway.

    Scalar ones have totals only where the loop is `nested`: else they take less than a vector.
    """
    for vectors in tile.accumulators:
        if frame.lane_is_reduced:
            yield vectors
        else:
            yield from [[refs] for refs in vectors]
    if frame.lane_is_reduced and nested:
        yield from [[refs] for refs in single_accumulators(frame, tile)]


def _shares_loads(frame: Frame) -> bool:
    """Whether every loaded element feeds several accumulators, as in matrix products."""
    streams = frame.problem.streams
    among = [d for d in frame.problem.kept if frame.tilings[d].register > 1]
    return len(streams) > 1 and all(not all(map(each.uses, among)) for each in streams)


def _steps(frame: Frame, d: int) -> int | None:
    """The most iterations of the loop over a combined dim; None where its extent is symbolic."""
    tiling = frame.tilings[d]
    length = tiling.tile or tiling.part.constant or tiling.extent.constant
    return None if length is None else -(-length // tiling.block)


def _is_sum(operator: Operator, k: int) -> bool:
    """Whether a tuple element is a sum of floats that no other element depends on.

    Others would be combined with what is left of a sum behind its last block.
    """
    both, result = [k, k + len(operator.dtypes)], operator.results[k]
    if result.op != "add" or operator.dtypes[k].kind != "f":
        return False
    others = [other for n, other in enumerate(operator.results) if n != k]
    is_alone = not any(set(both).intersection(params_in(other)) for other in others)
    return is_alone and sorted(arg.number for arg in result.args if arg.op == "param") == both


def _added_up(refs: Sequence[Ref]) -> Value:
    """The pairwise sum of accumulators."""
    if len(refs) == 1:
        return refs[0]
    half = len(refs) // 2
    return _calc("add", _added_up(refs[:half]), _added_up(refs[half:]))


def _total(ref: Ref) -> Ref:
    return Ref(f"h{ref.name}", ref.dtype, ref.lanes)


def _lost(ref: Ref) -> Ref:
    return Ref(f"l{ref.name}", ref.dtype, ref.lanes)


def _calc(op: str, lhs: Value, rhs: Value) -> Calc:
    return Calc(op, (lhs, rhs), lhs.dtype, max(lhs.lanes, rhs.lanes))
