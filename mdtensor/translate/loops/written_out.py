"""Unrolled loops: consecutive assignments joined into one to several elements.

What an iteration stores reaches the later ones as a value (store-to-load forwarding), so none of
them waits for another, and all can be results of one kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from mdtensor.translate.graphs import count_of_nodes
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.source_loop_nest import Nest, Reduced
from mdtensor.translate.loops.assignments import Assignment
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.scalar import Expr, cast
from mdtensor.translate.trees import params_in, substitute
from mdtensor.translate.views import AffineIndex

OPERATIONS = 256
"""Different operations of one assignment to several elements, at most.

Compilers take exponential time for long chains of selections.
"""

Index = tuple[AffineIndex, ...]


def joined(
    nest: Nest, source: FunctionSource, listed: Sequence[Assignment], unrolled: Collection[int]
) -> list[Assignment]:
    """Join consecutive assignments within the loops at lines `unrolled`.

    Assignments to elements of one buffer that follow one another become one.
    """
    spans = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(source.node)
        if isinstance(node, ast.For) and node.lineno in unrolled
    ]
    runs: list[_Run] = []
    for assignment in listed:
        line: int = getattr(assignment.node, "lineno", 0)
        is_inside = any(line in span for span in spans)
        if not (is_inside and runs and runs[-1].takes(assignment)):
            runs.append(_Run(nest, assignment, is_open=is_inside))
    return [assignment for run in runs for assignment in run.assignments(listed)]


class _Run:
    """Consecutive assignments to elements of one buffer in the same loops."""

    def __init__(self, nest: Nest, first: Assignment, *, is_open: bool) -> None:
        self._nest = nest
        self._members = [first]
        self._written: dict[Index, list[tuple[int, Expr]]] = {}
        self._is_open = is_open and self._is_plain(first)
        self._write(first.index, first.time, first.value)

    def takes(self, assignment: Assignment) -> bool:
        """Add an assignment if it can join the run; whether it was added."""
        first = self._members[0]
        is_alike = (assignment.buffer, assignment.kept) == (first.buffer, first.kept)
        if not (self._is_open and is_alike and self._is_plain(assignment)):
            return False
        value = self._forwarded(assignment)
        if value is None or not self._is_known(assignment.index):
            return False
        if count_of_nodes([value, *self._results().values()]) > OPERATIONS:
            return False
        self._members.append(assignment)
        self._write(assignment.index, assignment.time, value)
        return True

    def assignments(self, listed: Sequence[Assignment]) -> list[Assignment]:
        """The joined assignment, or the members if others read an intermediate state."""
        first, last = self._members[0], self._members[-1]
        others = [a for a in listed if not first.time <= a.time <= last.time]
        if len(self._members) == 1 or any(
            read.buffer == first.buffer and first.time < read.time <= last.time
            for other in others
            for read in self._nest.reads_of(other.value).values()
        ):
            return self._members
        (index, value), *also = self._results().items()
        return [
            Assignment(
                first.buffer, index, first.kept, value, last.time, last.node, also=tuple(also)
            )
        ]

    def _is_plain(self, assignment: Assignment) -> bool:
        """Whether the loops have no conditions, and the value no reductions."""
        entries = (self._nest.entries[n] for n in self._nest.entries_of(assignment.value))
        is_reduced = any(isinstance(entry, Reduced) for entry in entries)
        return not is_reduced and not any(loop.tests for loop in assignment.kept)

    def _forwarded(self, assignment: Assignment) -> Expr | None:
        """The value with earlier stores of the run forwarded; None if that is undecidable."""
        direct = params_in(assignment.value)
        held: dict[int, Expr] = {}
        for position, read in self._nest.reads_of(assignment.value).items():
            if read.buffer != assignment.buffer or read.time <= self._members[0].time:
                continue
            axes = [affine_from_expr(axis) for axis in read.index]
            index = tuple(axis for axis in axes if axis is not None)
            is_own = len(index) == len(axes) and read.loops == assignment.kept
            if not is_own or position not in direct or not self._is_known(index):
                return None
            before = [value for time, value in self._written.get(index, ()) if time < read.time]
            if before:
                held[position] = cast(before[-1], read.dtype)
        return substitute(assignment.value, held) if held else assignment.value

    def _is_known(self, index: Index) -> bool:
        """Whether an index is equal to or disjoint from each element that the run wrote."""
        return all(other == index or _are_apart(other, index) for other in self._written)

    def _write(self, index: Index, time: int, value: Expr) -> None:
        self._written.setdefault(index, []).append((time, value))

    def _results(self) -> dict[Index, Expr]:
        return {index: values[-1][1] for index, values in self._written.items()}


def _are_apart(one: Index, other: Index) -> bool:
    """Whether two indices differ along an axis in all iterations.

    What is below 0 may be counted from the end.
    """
    return any(
        not a.coefficients and not b.coefficients and a.offset != b.offset
        for a, b in zip(one, other, strict=True)
        if min(a.offset, b.offset) >= 0
    )
