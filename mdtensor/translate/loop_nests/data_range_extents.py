"""Extents of loops with data-dependent bounds, inferred from the arrays that they index.

Python stops with an error where an iteration reads behind the end of an array. So an array that all
iterations read at their index says how many there can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.translate.graphs import folded
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.source_loop_nest import (
    UNKNOWN,
    Entry,
    Loops,
    Nest,
    Reduced,
    SourceLoop,
    SourceRead,
    SourceStore,
)
from mdtensor.translate.scalar import Expr
from mdtensor.translate.views import AffineIndex

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """The value that iterations of loops compute, and the element where they store it.

    `is_nothing` says of a value that it changes nothing. What must hold for iterations to exist is
    a condition in the value, or stands in `tests`.
    """

    loops: Loops
    value: Expr
    buffer: str = ""
    index: tuple[Expr, ...] = ()
    is_nothing: Callable[[Expr], bool] = lambda value: False
    tests: tuple[Expr, ...] = ()


def settle_extents(
    nest: Nest, shapes: Shapes, results: Sequence[Statement] = ()
) -> Mapping[str, SourceLoop]:
    """Infer the extents of data-dependent loops in a nest; returns these loops by name.

    `shapes` are those of the buffers. `results` are statements that are no stores of the nest.
    """
    statements = [*results, *_statements(nest)]
    every = {loop.name: loop for each in statements for loop in each.loops}
    every |= {loop.name: loop for entry in nest.entries for loop in _around(entry)}
    known: dict[str, SourceLoop] = {}

    def settled(loop: SourceLoop) -> SourceLoop:
        if loop.range is None or loop.name in known:
            return known.get(loop.name, loop)
        extent = _extent(nest, shapes, loop, statements)
        end = affine_from_expr(loop.range.end)
        if end is not None:  # loops around say how far it goes, too
            around = {name: settled(every[name]).extent for name in end.dims}
            if max(around.values(), default=0) < UNKNOWN:
                extent = max(0, min(extent, end.bounds(around)[1]))
        known[loop.name] = replace(loop, extent=extent)
        return known[loop.name]

    for loop in every.values():
        settled(loop)

    def moved(loops: Loops) -> Loops:
        return tuple([known.get(loop.name, loop) for loop in loops])

    if not known:
        return known
    for position, entry in enumerate(nest.entries):
        if isinstance(entry, SourceRead):
            nest.entries[position] = replace(entry, loops=moved(entry.loops))
        elif isinstance(entry, Reduced):
            outer = moved(entry.outer)
            nest.entries[position] = replace(entry, loops=moved(entry.loops), outer=outer)
    nest.stores[:] = [replace(store, loops=moved(store.loops)) for store in nest.stores]
    return known


def _around(entry: Entry) -> Loops:
    return entry.loops if isinstance(entry, SourceRead) else getattr(entry, "outer", ())


def _statements(nest: Nest) -> Iterator[Statement]:
    for store in nest.stores:
        yield Statement(store.loops, store.value, store.buffer, store.index, _held(nest, store))
    for entry in nest.entries:
        if isinstance(entry, Reduced):
            yield Statement(entry.loops, entry.term, is_nothing=_is_identity(entry))


def _held(nest: Nest, store: SourceStore) -> Callable[[Expr], bool]:
    """A predicate of whether a value is the stored element itself."""

    def is_held(value: Expr) -> bool:
        entry = nest.entries[value.number] if value.op == "param" else None
        return isinstance(entry, SourceRead) and (entry.buffer, entry.index) == (
            store.buffer,
            store.index,
        )

    return is_held


def _is_identity(reduced: Reduced) -> Callable[[Expr], bool]:
    identity = reduced.operator.identity

    def is_identity(value: Expr) -> bool:
        return identity is not None and value.op == "const" and value.value == identity[0]

    return is_identity


def _extent(nest: Nest, shapes: Shapes, loop: SourceLoop, statements: Sequence[Statement]) -> int:
    """The number of iterations that have an effect without reading out of bounds."""
    inside = [each for each in statements if loop in each.loops]
    reach = _Reach(nest, shapes, loop.name)
    reaches = [_of_statement(reach, each, loop) for each in inside]
    always = min((first for first, _ in reaches), default=UNKNOWN)
    if always < UNKNOWN:
        return always
    return max((sometimes for _, sometimes in reaches), default=UNKNOWN)


def _of_statement(reach: _Reach, statement: Statement, loop: SourceLoop) -> tuple[int, int]:
    """Iterations that a statement permits: if it always has an effect, and where it does.

    What it does under a condition only, or in loops inside that may be empty, says nothing of
    iterations where it does nothing.
    """
    place = statement.loops.index(loop)
    tests = {test for each in statement.loops for test in each.tests}
    given = {test for each in statement.loops[: place + 1] for test in each.tests}
    guarded = any(inner.extent == 0 for inner in statement.loops[place + 1 :])
    always = sometimes = UNKNOWN

    def note(found: int) -> None:
        nonlocal always, sometimes
        always = always if guarded else min(always, found)
        sometimes = min(sometimes, found)

    value, waiting = _bare(statement.value), list(statement.tests)
    while True:
        for condition in waiting:
            note(reach.of(condition))
            guarded = guarded or condition not in given
        if value.op != "select" or not statement.is_nothing(_bare(value.args[2])):
            break
        waiting, value = list(_conditions(value.args[0], tests)), _bare(value.args[1])
    note(min(reach.of(value), reach.of_element(statement.buffer, statement.index)))
    return always, sometimes


def _conditions(test: Expr, whole: set[Expr]) -> Iterator[Expr]:
    """Conjuncts in order; conjunctions in `whole` are not split."""
    if test.op != "and" or test in whole:
        yield test
        return
    for arg in test.args:
        yield from _conditions(arg, whole)


def _bare(value: Expr) -> Expr:
    while value.op == "cast":
        [value] = value.args
    return value


@dataclass(frozen=True, slots=True)
class _Reach:
    """Bounds the iterations of a dim by the arrays that are read."""

    nest: Nest
    shapes: Shapes
    dim: str

    def of(self, value: Expr) -> int:
        """The iterations in which a value's unconditional reads are in bounds."""
        return folded([value], self._of_node)[0]

    def _of_node(self, node: Expr, args: list[int]) -> int:
        match node.op:
            case "param":
                return self._of_entry(node.number)
            case "select":
                return min(args[0], max(args[1:]))
            case "and" | "or":
                return args[0]
            case _:
                return min(args, default=UNKNOWN)

    def _of_entry(self, number: int) -> int:
        match self.nest.entries[number]:
            case SourceRead(buffer=buffer, index=index):
                return self.of_element(buffer, index)
            case Reduced(loops=loops, term=term):
                found = UNKNOWN
                for loop in loops:
                    found = min([found, *map(self.of, loop.tests)])
                    if loop.tests or not loop.extent:  # it may have no iterations
                        return found
                return min(found, self.of(term))
            case _:
                return UNKNOWN

    def of_element(self, buffer: str, index: tuple[Expr, ...]) -> int:
        """The iterations in which an element is within its buffer."""
        shape = self.shapes.get(buffer, ())
        ends = [self.of(axis) for axis in index]
        if len(shape) == len(index):
            pairs = zip(map(affine_from_expr, index), shape, strict=True)
            ends += [self._end(at, extent) for at, extent in pairs if at is not None]
        return min(ends, default=UNKNOWN)

    def _end(self, index: AffineIndex, extent: int) -> int:
        """The iterations in which an index is within its axis; it may count from the end."""
        coefficients = dict(index.coefficients)
        own = coefficients.pop(self.dim, 0)
        if own > 0 and all(c > 0 for c in coefficients.values()):
            return max(0, (extent - 1 - index.offset) // own + 1)
        if own < 0 and not coefficients:  # which ends where Python has counted from the end
            return max(0, (extent + index.offset) // -own + 1)
        return UNKNOWN
