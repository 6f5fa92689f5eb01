"""Fusion of consecutive assignments to the same element.

`w[i] = 0`, then a reduction into `w[i]`, then `w[i] = alpha * w[i]` is a reduction with an
epilogue.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.source_loop_nest import Nest, Reduced, SourceLoop, SourceRead
from mdtensor.translate.loop_nests.updates import identity
from mdtensor.translate.loops.assignments import Assignment
from mdtensor.translate.scalar import Expr, apply, cast
from mdtensor.translate.trees import params_in, rewritten, substitute, with_args, with_dims


def fused(nest: Nest, listed: Sequence[Assignment]) -> list[Assignment]:
    """Fuse assignments as far as possible."""
    found = list(listed)
    position = 0
    while position < len(found):
        before = _writer_before(found, position)
        joined = None if before is None else _joined(nest, found, before, position)
        if before is None or joined is None:
            position += 1
            continue
        found[position] = joined
        del found[before]
        position = 0
    return found


class Versions:
    """Versions of buffers that reads see, as by `version_of`, for lists that do not change."""

    def __init__(self, listed: Sequence[Assignment]) -> None:
        self._times: dict[str, list[int]] = {}
        for assignment in listed:
            self._times.setdefault(assignment.buffer, []).append(assignment.time)
        for times in self._times.values():
            times.sort()

    def of(self, read: SourceRead) -> int:
        """The number of assignments to the read's buffer before it."""
        return bisect_left(self._times.get(read.buffer, ()), read.time)


def version_of(listed: Sequence[Assignment], read: SourceRead) -> int:
    """The number of assignments to the read's buffer before it."""
    return sum(a.buffer == read.buffer and a.time < read.time for a in listed)


def _writer_before(listed: Sequence[Assignment], position: int) -> int | None:
    buffer = listed[position].buffer
    return next((n for n in reversed(range(position)) if listed[n].buffer == buffer), None)


def _joined(
    nest: Nest, listed: Sequence[Assignment], before: int, position: int
) -> Assignment | None:
    """The second assignment with the first one's value substituted for its reads; or None."""
    first, second = listed[before], listed[position]
    loops = _matching(first, second)
    if loops is None:
        return None
    version = sum(a.buffer == first.buffer for a in listed[: before + 1])
    own: list[int] = []
    for number, assignment in enumerate(listed):
        for n, read in nest.reads_of(*assignment.values).items():
            if read.buffer != first.buffer or version_of(listed, read) != version:
                continue
            if number != position or n not in params_in(assignment.value):
                return None
            if tuple(map(affine_from_expr, read.index)) != second.index:
                return None
            own.append(n)
    if _has_reduction(nest, first.value) and _has_reduction(nest, second.value):
        return None
    held = nest.entries[own[0]].dtype if own else first.value.dtype
    moved = cast(on_loops(nest, first.value, loops), held)
    return replace(second, value=simplified(substitute(second.value, dict.fromkeys(own, moved))))


def _matching(first: Assignment, second: Assignment) -> dict[str, SourceLoop] | None:
    """A mapping from dims of the first to loops of the second, if both write the same elements."""
    if first.also or second.also:
        return None
    loops: dict[str, SourceLoop] = {}
    extents = {loop.name: loop.extent for loop in first.kept}
    by_name = {loop.name: loop for loop in second.kept}
    for lhs, rhs in zip(first.index, second.index, strict=True):
        if lhs.offset != rhs.offset or len(lhs.coefficients) != len(rhs.coefficients):
            return None
        for (dim, c), (other, d) in zip(lhs.coefficients, rhs.coefficients, strict=True):
            loop = by_name[other]
            if c != d or extents[dim] != loop.extent or loops.setdefault(dim, loop) != loop:
                return None
    one_to_one = len(set(loops.values())) == len(by_name) == len(loops) == len(extents)
    return loops if one_to_one else None


def _has_reduction(nest: Nest, value: Expr) -> bool:
    return any(isinstance(nest.entries[n], Reduced) for n in nest.entries_of(value))


def on_loops(nest: Nest, value: Expr, loops: Mapping[str, SourceLoop]) -> Expr:
    """Move a value to other loops, with new entries."""
    if all(dim == loop.name for dim, loop in loops.items()):
        return value
    entries: dict[int, Expr] = {}
    names = {dim: loop.name for dim, loop in loops.items()}

    def moved(expr: Expr) -> Expr:
        return with_dims(substitute(expr, entries), names)

    for position in nest.entries_of(value):
        match nest.entries[position]:
            case SourceRead() as read:
                index = tuple(map(moved, read.index))
                inside = tuple(loops.get(loop.name, loop) for loop in read.loops)
                new = nest.add(replace(read, index=index, loops=inside))
            case Reduced() as reduced:
                outer = tuple(loops.get(loop.name, loop) for loop in reduced.outer)
                new = nest.add(replace(reduced, term=moved(reduced.term), outer=outer))
            case _:
                continue
        entries[position] = new
    return moved(value)


def simplified(expr: Expr) -> Expr:
    """Remove neutral operands, and selections that exclude each other."""
    return rewritten(expr, _Simpler().rule)


class _Simpler:
    """The bottom-up rewrite rule, with the set of conditions met so far."""

    def __init__(self) -> None:
        self._conditions: set[Expr] = set()

    def rule(self, expr: Expr) -> Expr:
        """Simplify a node with simplified arguments."""
        if expr.op in ("add", "mul", "min", "max"):
            return _without_neutral(expr)
        return self._selection(expr) if expr.op == "select" else expr

    def _selection(self, expr: Expr) -> Expr:
        condition, then, otherwise = expr.args
        if condition in self._conditions:
            known = (
                _assuming(condition, then, holds=True),
                _assuming(condition, otherwise, holds=False),
            )
            if any(map(operator.is_not, known, (then, otherwise))):
                return simplified(with_args(expr, (condition, *known)))
        self._conditions.add(condition)
        if otherwise.op == "select" and _excludes(condition, otherwise.args[0]):
            return apply("select", otherwise.args[0], otherwise.args[1], then)
        return expr


def _assuming(condition: Expr, expr: Expr, *, holds: bool) -> Expr:
    """The expression under the assumption that a condition holds, or does not."""

    def chosen(node: Expr) -> Expr:
        is_known = node.op == "select" and node.args[0] == condition
        return node.args[1 if holds else 2] if is_known else node

    return rewritten(expr, chosen)


def _without_neutral(expr: Expr) -> Expr:
    """A reduction operation without a neutral operand, such as 0 of a sum.

    The only float that a sum with 0 changes is -0.
    """
    for known, other in (expr.args, expr.args[::-1]):
        if known.op == "const" and known.value == identity(expr.op, known):
            return other
    return expr


def _excludes(condition: Expr, other: Expr) -> bool:
    """Whether one condition is the negation of the other."""
    return (condition.op == "not" and condition.args[0] == other) or (
        other.op == "not" and other.args[0] == condition
    )
