"""Unaligned rows of a register tile: shuffles shift their stores to aligned vectors.

Peeling aligns the first row of a register tile; the others begin so many elements behind a multiple
of a vector. Each of them keeps the last vector of its results until the next ones are computed:
what is stored is the end of the one and the beginning of the other, at the aligned place between
them. So every row bypasses the caches while all of them share what they read.

No line is stored both ways, which processors take long for: what a row has before its first whole
line, and behind its last one, is cut out of its first and last vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import powers_of_two
from mdtensor.lower.ir.statements import Block, Declare, If, Pointer, Set, Statement, VectorStore
from mdtensor.lower.ir.values import Ref, Shuffle, Slice


@dataclass(frozen=True, slots=True)
class _Vector:
    """A vector store of a row: its value, the row's previous vector, its misalignment in lanes.

    `last` tells whether it is the last one of its row in the register tile.
    """

    store: VectorStore
    value: Ref
    before: Ref
    kept: Ref
    off: int
    last: bool


def kept_rows(first: Sequence[Statement]) -> list[Ref]:
    """The variables that carry the last vector of each unaligned row.

    There are none where all rows begin alike.
    """
    found: list[Ref] = []

    def each(vector: _Vector) -> list[Statement]:
        if vector.off and vector.kept not in found:
            found.append(vector.kept)
        return []

    _rewritten(first, 1, each)
    return found


def begun_rows(first: Sequence[Statement]) -> list[Statement]:
    """The first stores of rows: unaligned rows store only the lanes before an aligned vector."""

    def each(vector: _Vector) -> list[Statement]:
        if not vector.off:
            return [vector.store]
        cut = _first_lanes(vector.value.lanes - vector.off, vector)
        return [*cut, Set(vector.kept, vector.value)]

    return _rewritten(first, 1, each)


def joined_rows(tile: Sequence[Statement], vectors: int) -> list[Statement]:
    """A tile of `vectors` a row, whose unaligned rows store aligned vectors, joined from two."""

    def each(vector: _Vector) -> list[Statement]:
        if not vector.off:
            return [vector.store]
        lanes = vector.value.lanes
        picks = tuple(range(lanes - vector.off, 2 * lanes - vector.off))
        joined = replace(
            vector.store,
            index=vector.store.index - vector.off,
            value=Shuffle(vector.before, vector.value, picks),
        )
        return [joined, *([Set(vector.kept, vector.value)] if vector.last else [])]

    return _rewritten(tile, vectors, each)


def ended_rows(first: Sequence[Statement]) -> list[Statement]:
    """Stores of the lanes that unaligned rows still carry at their end."""
    stores: list[Statement] = []

    def each(vector: _Vector) -> list[Statement]:
        stores.extend(_last_lanes(vector.off, vector))
        return []

    _rewritten(first, 1, each)
    unique = list(dict.fromkeys(stores))
    pointers = [statement for statement in first if isinstance(statement, Pointer)]
    written = {store.buffer for store in unique if isinstance(store, VectorStore)}
    return [Block((*(p for p in pointers if p.name in written), *unique))] if unique else []


def declared(rows: Sequence[Ref]) -> list[Statement]:
    """Declarations of the rows' carried vectors."""
    return [Declare(ref) for ref in rows]


def _first_lanes(count: int, vector: _Vector) -> list[Statement]:
    """Stores of the first lanes of a vector."""
    return [_cut(vector, lane, lanes) for lane, lanes in powers_of_two(count, vector.value.lanes)]


def _last_lanes(count: int, vector: _Vector) -> list[Statement]:
    """Stores of the last lanes of a row's carried vector, one vector before the current place."""
    whole = vector.value.lanes
    ends = [(whole - start - lanes, lanes) for start, lanes in powers_of_two(count, whole)]
    before = replace(
        vector,
        store=replace(vector.store, index=vector.store.index - whole),
        value=vector.kept,
    )
    return [_cut(before, lane, lanes) for lane, lanes in reversed(ends)]


def _cut(vector: _Vector, lane: int, lanes: int) -> VectorStore:
    return replace(
        vector.store,
        index=vector.store.index + lane,
        value=Slice(vector.value, lane, lanes),
        streaming=False,
        aligned=False,
    )


def _rewritten(
    statements: Sequence[Statement], vectors: int, each: Callable[[_Vector], list[Statement]]
) -> list[Statement]:
    """Replace a tile's streaming vector stores by `each`; stores are ordered row by row."""
    result: list[Statement] = []
    met = 0
    before: Ref | None = None
    for statement in statements:
        match statement:
            case If(lhs, op, rhs, body, otherwise):
                branches = (tuple(_rewritten(b, vectors, each)) for b in (body, otherwise))
                result.append(If(lhs, op, rhs, *branches))
            case VectorStore(value=Ref() as value, streaming=True):
                row, number = divmod(met, vectors)
                kept = Ref(f"last{row}", value.dtype, value.lanes)
                if not number or before is None:
                    before = kept
                off = (statement.index.constant or 0) % value.lanes
                last = number == vectors - 1
                result += each(_Vector(statement, value, before, kept, off, last))
                before = value
                met += 1
            case _:
                result.append(statement)
    return result
