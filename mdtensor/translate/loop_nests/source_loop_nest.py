"""What a loop nest does, as values: its loops, the elements that it reads, what it stores.

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
    """The iterations from `begin` up to `end`, which are int64 and take entries of a nest."""

    begin: Expr
    end: Expr

    def test(self, dim: str) -> Expr:
        """Whether the index of a dim lies inside."""
        index = index_of(dim)
        return apply("and", apply("le", self.begin, index), apply("lt", index, self.end))

    @property
    def count(self) -> Expr:
        """The number of iterations."""
        return apply("max", self.end - self.begin, const(0, I64))


@dataclass(frozen=True, slots=True)
class SourceLoop:
    """One `for`: `name` is the dim that its iterations are, numbered from 0.

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
        """What must hold for an iteration to exist."""
        affine = tuple(map(at_least_zero, self.conditions))
        return affine if self.range is None else (*affine, self.range.test(self.name))

    def __repr__(self) -> str:
        return f"{self.name}:{self.extent}"


Loops = tuple[SourceLoop, ...]


@dataclass(frozen=True, slots=True)
class SourceRead:
    """An element of a buffer, as it is after the first `time` stores of the text.

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
    """All values of `term` combined while `loops` run, inside of the loops `outer`."""

    operator: Operator
    loops: Loops
    outer: Loops
    term: Expr

    @property
    def dtype(self) -> np.dtype:
        """The type in which values are combined."""
        return self.operator.dtypes[0]


@dataclass(frozen=True, slots=True)
class Carried:
    """A local variable at the beginning of an iteration of `loop`."""

    name: str
    loop: SourceLoop
    dtype: np.dtype


Entry = SourceRead | Reduced | Carried


@dataclass(frozen=True, slots=True)
class SourceStore:
    """`buffer[index] = value` inside of `loops`, where `conditions` hold (see `SourceRead`)."""

    buffer: str
    index: tuple[Expr, ...]
    value: Expr
    loops: Loops
    conditions: tuple[AffineIndex, ...]
    node: ast.AST = field(compare=False, repr=False)


@dataclass(slots=True)
class Nest:
    """The table and the stores of a function's loop nests; a store's time is its position."""

    entries: list[Entry] = field(default_factory=list[Entry])
    stores: list[SourceStore] = field(default_factory=list[SourceStore])

    def reads_of(self, *values: Expr) -> dict[int, SourceRead]:
        """All reads that values depend on, also through indices and reductions, by position."""
        entries = ((n, self.entries[n]) for n in self.entries_of(*values))
        return {n: entry for n, entry in entries if isinstance(entry, SourceRead)}

    def entries_of(self, *values: Expr) -> list[int]:
        """Positions of all entries that values depend on, those that others need first."""
        found: dict[int, None] = {}
        for value in values:
            self._collect(value, found)
        return list(found)

    def dims_of(self, *values: Expr) -> set[str]:
        """Names of the dims that values depend on, also through what they read."""
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
        """The parameter that stands for a new entry."""
        self.entries.append(entry)
        return Expr("param", (), entry.dtype, len(self.entries) - 1)
