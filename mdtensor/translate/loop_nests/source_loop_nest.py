"""A loop nest as data: its loops, reads, reductions and stores.

The scalar values in a nest are expressions whose parameters number the entries of one table. An
entry is an element that is read, or the result of a reduction that a loop carries out. So a nest
is its table and its stores, in the order of the text (002, section 7.2.2: the access relation).
"""

from __future__ import annotations

import ast
from dataclasses import field

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.translate.combine import Operator
from mdtensor.translate.loop_nests.affine_conditions import at_least_zero
from mdtensor.translate.scalar import I64, Expr, apply, const, index_of
from mdtensor.translate.trees import dims_in, params_in
from mdtensor.translate.views import AffineIndex

UNKNOWN = 1 << 62
"""The extent of a loop that no array ends."""


@dataclass(frozen=True, slots=True)
class DataRange:
    """A data-dependent range of iterations, [begin, end); both are int64 expressions."""

    begin: Expr
    end: Expr

    def test(self, dim: str) -> Expr:
        """The condition that a dim's index is within the range."""
        index = index_of(dim)
        return apply("and", apply("le", self.begin, index), apply("lt", index, self.end))

    @property
    def count(self) -> Expr:
        """The number of iterations."""
        return apply("max", self.end - self.begin, const(0, I64))


@dataclass(frozen=True, slots=True)
class SourceLoop:
    """A `for` loop over dim `name`, with iterations numbered from 0.

    Iterations for which one of `conditions` is below zero do not exist: the bounds of a triangular
    loop. Nor do those outside of `range`, which arrays tell: the extent of such a loop is that of
    the arrays that it walks, `UNKNOWN` until these are known. `variable` and `line` are for
    messages.
    """

    name: str
    extent: int
    conditions: tuple[AffineIndex, ...] = ()
    variable: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    range: DataRange | None = field(default=None, compare=False)

    @property
    def tests(self) -> tuple[Expr, ...]:
        """The conditions for an iteration to exist."""
        affine = tuple(map(at_least_zero, self.conditions))
        return affine if self.range is None else (*affine, self.range.test(self.name))

    def __repr__(self) -> str:
        return f"{self.name}:{self.extent}"


Loops = tuple[SourceLoop, ...]


@dataclass(frozen=True, slots=True)
class SourceRead:
    """A read of a buffer's element, after the first `time` stores of the program.

    `conditions` are those under which it is read, as far as they are affine, at least 0 each.
    """

    buffer: str
    index: tuple[Expr, ...]
    dtype: np.dtype
    time: int
    loops: Loops
    conditions: tuple[AffineIndex, ...]
    node: ast.AST = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reduced:
    """The reduction of `term` over `loops`, within the loops `outer`."""

    operator: Operator
    loops: Loops
    outer: Loops
    term: Expr

    @property
    def dtype(self) -> np.dtype:
        """The type of the reduction."""
        return self.operator.dtypes[0]


@dataclass(frozen=True, slots=True)
class Carried:
    """A loop-carried local variable at the start of an iteration of `loop`."""

    name: str
    loop: SourceLoop
    dtype: np.dtype


Entry = SourceRead | Reduced | Carried


@dataclass(frozen=True, slots=True)
class SourceStore:
    """A store `buffer[index] = value` within `loops`, under `conditions` (see `SourceRead`)."""

    buffer: str
    index: tuple[Expr, ...]
    value: Expr
    loops: Loops
    conditions: tuple[AffineIndex, ...]
    node: ast.AST = field(compare=False, repr=False)


@dataclass(slots=True)
class Nest:
    """A function's loop nests: the table of entries, and the stores, ordered by time."""

    entries: list[Entry] = field(default_factory=list[Entry])
    stores: list[SourceStore] = field(default_factory=list[SourceStore])

    def reads_of(self, *values: Expr) -> dict[int, SourceRead]:
        """All reads that values depend on, transitively, by position."""
        entries = ((n, self.entries[n]) for n in self.entries_of(*values))
        return {n: entry for n, entry in entries if isinstance(entry, SourceRead)}

    def entries_of(self, *values: Expr) -> list[int]:
        """Positions of all entries that values depend on, in dependence order."""
        found: dict[int, None] = {}
        for value in values:
            self._collect(value, found)
        return list(found)

    def dims_of(self, *values: Expr) -> set[str]:
        """Names of the dims that values depend on, also by way of reads."""
        found = {dim for value in values for dim in dims_in(value)}
        for position in self.entries_of(*values):
            match self.entries[position]:
                case SourceRead(index=index):
                    found |= {dim for axis in index for dim in dims_in(axis)}
                case Reduced(term=term):
                    found |= set(dims_in(term))
                case _:
                    pass
        return found

    def _collect(self, value: Expr, found: dict[int, None]) -> None:
        for position in params_in(value):
            if position in found:
                continue
            match self.entries[position]:
                case SourceRead(index=index):
                    for axis in index:
                        self._collect(axis, found)
                case Reduced(term=term):
                    self._collect(term, found)
                case Carried():
                    pass
            found[position] = None

    def add(self, entry: Entry) -> Expr:
        """Append an entry; the parameter that stands for it."""
        self.entries.append(entry)
        return Expr("param", (), entry.dtype, len(self.entries) - 1)
