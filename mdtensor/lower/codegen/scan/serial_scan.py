"""Chained scan: every group waits for the carry from the group before it.

A group reduces its part, adds what the group before says to that, tells the next one, and scans
the part while the caches still hold it: memory is read once. Groups are numbered in the order in
which they begin, so that the one waited for is under way.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.partial_results import Partials
from mdtensor.lower.codegen.base.tuple_variables import lets, sets
from mdtensor.lower.codegen.base.value_from_expr import combined, identity_of
from mdtensor.lower.codegen.scan.look_back import words_of
from mdtensor.lower.ir.group_statements import Await, Post
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import If, Let, Loop, Statement, VectorStore
from mdtensor.lower.ir.values import Load, Ref

_SUM = 1
Tuples = tuple[Ref, ...]


def counters_in_turn(frame: Frame, partials: Partials) -> Index:
    """The number of counters (uint32): the groups' ticket, then the words of every total."""
    return partials.count * partials.size * (2 * words_of(_tuple(frame, "total"))) + 2


def taken_over(
    frame: Frame, partials: Partials, bounds: Sequence[Statement]
) -> tuple[Statement, ...]:
    """Replace a group's totals R0, R1, … by its carry; `bounds` declare its part.

    The inclusive sum is published before the part is scanned, which takes longest.
    """
    problem, tilings = frame.problem, frame.tilings
    operator = frame.operator
    before, told, own, after = (_tuple(frame, p) for p in ("before", "told", "total", "after"))
    part = name(tilings[problem.scanned].var("z"))
    point = total(partials.strides[d] * name(tilings[d].var("n")) for d in problem.kept)
    place = part * partials.size + point

    def word(at: Index) -> Index:
        return at * words_of(own) + 1

    take: list[Statement] = [Await("state", word(place - partials.size), told)]
    take += sets(before, told)
    step: list[Statement] = lets(before, identity_of(operator), mutable=True)
    step += [Let(ref, Load(f"R{k}", ref.dtype, place)) for k, ref in enumerate(own)]
    step.append(If(as_index(0), "<", part, tuple(take)))
    sums = combined(operator, before, own)
    step += lets(after, sums)
    step.append(Post(word(place), _SUM, after))
    step += [VectorStore(f"R{k}", ref.dtype, place, ref) for k, ref in enumerate(before)]
    for d in reversed(problem.kept):
        low, high = name(tilings[d].var("lo")), name(tilings[d].var("hi"))
        step = [Loop(tilings[d].var("n"), low, high, as_index(1), tuple(step))]
    pointers = partials.pointers(problem.scalar.result_dtypes)
    return (*bounds, *pointers, *step)


def _tuple(frame: Frame, prefix: str) -> Tuples:
    types = frame.problem.scalar.result_dtypes
    return tuple(Ref(f"{prefix}_{k}", register_dtype(dtype)) for k, dtype in enumerate(types))
