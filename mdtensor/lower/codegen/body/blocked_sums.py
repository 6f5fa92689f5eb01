"""Blocked summation: sums of floats whose accumulators take a block of terms at a time.

An accumulator that takes one term after the other loses a bit each time the sum doubles. So behind
a block of steps it is added to a total by Kahan's summation, which keeps what an addition rounds
off for the next one, and the accumulator begins again. The error is that of a block, whatever the
number of terms. Only a loop that goes on adds to the total, so short sums cost a comparison.

A block has `TERMS` terms, and the totals are free, where loads bind a loop; where accumulators
share all that is loaded, as in products of matrices, it has `LONG`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import Frame, Tile
from mdtensor.lower.codegen.base.tuple_variables import sets
from mdtensor.lower.codegen.base.value_from_expr import identity_of
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.register_types import U8
from mdtensor.lower.ir.statements import If, Let, LetIndex, Set, Statement, Step
from mdtensor.lower.ir.values import Calc, Literal, Ref, Value
from mdtensor.translate.combine import Operator
from mdtensor.translate.trees import params_in

TERMS, LONG = 32, 512
_FLUSHES, _LEFT = "flushes", "left"


@dataclass(frozen=True, slots=True)
class BlockedSums:
    """The totals of a register tile's accumulators: `steps` of the innermost loop are a block.

    `sums` are the accumulators that are floats that are added up, with the neutral element of each.
    The loop goes through other dims too where it is `nested`.
    """

    steps: int
    sums: tuple[tuple[Ref, Literal], ...]
    nested: bool
    block: int

    def declarations(self) -> list[Statement]:
        """Declares the totals, what they lack, and counters."""
        statements: list[Statement] = [LetIndex(_FLUSHES, as_index(0), mutable=True)]
        if self.nested:
            statements.append(LetIndex(_LEFT, as_index(self.elements), mutable=True))
        for ref, _ in self.sums:
            statements.append(Let(_total(ref), Literal(-0.0, ref.dtype, ref.lanes), mutable=True))
            statements.append(Let(_lost(ref), Literal(0.0, ref.dtype, ref.lanes), mutable=True))
        return statements

    @property
    def elements(self) -> int:
        """Points of the innermost dim that a block has."""
        return self.steps * self.block

    def flush(self) -> list[Statement]:
        """Adds the accumulators to their totals, and begins them again."""
        again = sets([ref for ref, _ in self.sums], [neutral for _, neutral in self.sums])
        return [*self._added(), Step(_FLUSHES, 1), *again]

    def _added(self) -> list[Statement]:
        """Adds the accumulators to their totals, less what was rounded off before."""
        statements: list[Statement] = []
        for ref, _ in self.sums:
            total, lost = _total(ref), _lost(ref)
            term, new, off = (Ref(f"{n}{ref.name}", ref.dtype, ref.lanes) for n in "tpq")
            zero = Literal(0.0, ref.dtype, ref.lanes)
            # Infinities and what is no number have lost none.
            is_finite = Calc("eq", (_calc("sub", off, off), zero), np.dtype(U8), ref.lanes)
            statements += [
                Let(term, _calc("sub", ref, lost)),
                Let(new, _calc("add", total, term)),
                Let(off, _calc("sub", _calc("sub", new, total), term)),
                Set(lost, Calc("select", (is_finite, off, zero), ref.dtype, ref.lanes)),
                Set(total, new),
            ]
        return statements

    def flush_when_due(self, left: Index) -> list[Statement]:
        """Counts points that are done, as a number below 0; begins a block where one is full."""
        due = (*self.flush(), Step(_LEFT, self.elements))
        return [Step(_LEFT, left), If(name(_LEFT), "<=", as_index(0), due)]

    def finished(self) -> list[Statement]:
        """Sets the accumulators to the totals, where there are any."""
        statements = [*self._added(), *(Set(ref, _total(ref)) for ref, _ in self.sums)]
        return [If(as_index(0), "<", name(_FLUSHES), tuple(statements))]


def blocked_sums(
    frame: Frame, tile: Tile, accumulators: Sequence[Sequence[Ref]]
) -> BlockedSums | None:
    """The totals of a tile's accumulators; None where no sum of floats is longer than a block."""
    added = [k for k in range(len(frame.operator.dtypes)) if _is_sum(frame.operator, k)]
    if not added:
        return None
    order = frame.schedule.reduce_order
    loops = [_steps(frame, d) for d in order]
    known = [steps for steps in loops if steps is not None]
    lane = frame.schedule.lane
    unrolled = math.prod([frame.schedule.registers[d] for d in order if d != lane])
    steps = max(1, (LONG if _shares_loads(frame) else TERMS) // unrolled)
    if len(known) == len(loops) and math.prod(known) <= steps:
        return None
    neutral = identity_of(frame.operator)
    sums = [(refs[k], neutral[k]) for refs in accumulators for k in added]
    return BlockedSums(steps, tuple(sums), len(order) > 1, frame.tilings[order[-1]].block)


def _shares_loads(frame: Frame) -> bool:
    """Whether several accumulators take each element that a tile loads, as in products."""
    streams = frame.problem.streams
    among = [d for d in frame.problem.kept if frame.tilings[d].register > 1]
    return len(streams) > 1 and all(not all(map(each.uses, among)) for each in streams)


def _steps(frame: Frame, d: int) -> int | None:
    """Steps of the loop over a combined dim, at most; None where its extent is a name."""
    tiling = frame.tilings[d]
    length = tiling.tile or tiling.part.constant or tiling.extent.constant
    return None if length is None else -(-length // tiling.block)


def _is_sum(operator: Operator, k: int) -> bool:
    """Whether an element of the tuples is floats that are added up, and no other one uses it.

    Others would be combined with what is left of a sum behind its last block.
    """
    both, result = [k, k + len(operator.dtypes)], operator.results[k]
    if result.op != "add" or operator.dtypes[k].kind != "f":
        return False
    others = [other for n, other in enumerate(operator.results) if n != k]
    is_alone = not any(set(both).intersection(params_in(other)) for other in others)
    return is_alone and sorted(arg.number for arg in result.args if arg.op == "param") == both


def _total(ref: Ref) -> Ref:
    return Ref(f"h{ref.name}", ref.dtype, ref.lanes)


def _lost(ref: Ref) -> Ref:
    return Ref(f"l{ref.name}", ref.dtype, ref.lanes)


def _calc(op: str, lhs: Value, rhs: Value) -> Calc:
    return Calc(op, (lhs, rhs), lhs.dtype, max(lhs.lanes, rhs.lanes))
