"""In-register transpose: rows whose results are adjacent in memory are stored as columns.

Where results lie far apart along the lanes, each vector would be written lane by lane. Vectors
whose results are neighbours, lane for lane, are a matrix in registers: its columns are written as
vectors instead. Transposing takes a shuffle for each vector and each doubling of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.statements import Let, Statement, VectorStore
from mdtensor.lower.ir.values import Ref, Shuffle, Slice

# Bytes within which a shuffle moves elements by the cheapest instructions.
BLOCK = 16
# Buffer, variable part of the address, distance between lanes, and their number.
Column = tuple[str, Index, Index, int]


@dataclass(frozen=True, slots=True)
class Rows:
    """A vector of elements from several rows, with each element's lane in its row."""

    ref: Ref
    lanes: tuple[int, ...]


def transposed_rows(
    statements: Sequence[Statement], aligned: Mapping[str, bool]
) -> list[Statement]:
    """Replace strided stores of adjacent rows by whole-column stores of their transpose.

    A column is written where the last of its rows was. `aligned` tells of every buffer whether
    tiles begin at multiples of a vector, without which nothing bypasses the caches.
    """
    columns: dict[Column, dict[int, VectorStore]] = {}
    for statement in statements:
        if isinstance(statement, VectorStore) and (column := _column(statement)):
            columns.setdefault(column, {})[statement.index.split()[1]] = statement
    pieces: dict[VectorStore, list[VectorStore]] = {}
    for column, rows in columns.items():
        for piece in _pieces(rows, column[-1]):
            pieces |= dict.fromkeys(piece, piece)
    result: list[Statement] = []
    met: dict[VectorStore, int] = {}
    named = 0
    for statement in statements:
        if not isinstance(statement, VectorStore) or statement not in pieces:
            result.append(statement)
            continue
        piece = pieces[statement]
        met[piece[0]] = met.get(piece[0], 0) + 1
        if met[piece[0]] == len(piece):
            made = _transposed(piece, aligned.get(statement.buffer, False), named)
            named += sum(isinstance(each, Let) for each in made)
            result += made
    return result


def _column(store: VectorStore) -> Column | None:
    """The key that rows to be transposed together share: buffer, address, stride, lanes."""
    stride = as_index(store.stride)
    if store.value.lanes == 1 or stride.constant == 1:
        return None
    return store.buffer, store.index.split()[0], stride, store.value.lanes


def _pieces(rows: Mapping[int, VectorStore], lanes: int) -> list[list[VectorStore]]:
    """Runs of adjacent rows of power-of-two length, at least 2, at most the lanes."""
    pieces: list[list[VectorStore]] = []
    left = sorted(rows)
    while left:
        count = next((n for n, place in enumerate(left) if place != left[0] + n), len(left))
        length = 1 << (min(count, lanes).bit_length() - 1)
        if length > 1:
            pieces.append([rows[place] for place in left[:length]])
        left = left[length:]
    return pieces


def _transposed(piece: Sequence[VectorStore], aligned: bool, named: int) -> list[Statement]:
    """The shuffles of some rows, and the stores of their columns."""
    statements: list[Statement] = []

    def held(value: Slice | Shuffle) -> Ref:
        ref = Ref(f"z{named + len(statements)}", value.dtype, value.lanes)
        statements.append(Let(ref, value))
        return ref

    first, count = piece[0], len(piece)
    lanes = first.value.lanes
    vectors: list[Rows] = []
    for store in piece:
        assert isinstance(store.value, Ref | Slice)
        ref = store.value if isinstance(store.value, Ref) else held(store.value)
        vectors.append(Rows(ref, tuple(range(lanes))))
    distance = 1
    while distance < count:
        low, high = picks(lanes, distance, first.value.dtype.itemsize)
        for n in range(count):
            if not n & distance:
                pair = vectors[n], vectors[n + distance]
                vectors[n], vectors[n + distance] = (
                    Rows(held(Shuffle(pair[0].ref, pair[1].ref, chosen)), _of(pair, chosen))
                    for chosen in (low, high)
                )
        distance *= 2
    place = first.index.split()[1]
    streaming = first.streaming and aligned and count == lanes and place % count == 0
    for vector in vectors:
        for start in range(0, lanes, count):
            whole = count == lanes
            value = vector.ref if whole else Slice(vector.ref, start, count)
            index = first.index + as_index(first.stride) * vector.lanes[start]
            column = replace(first, index=index, value=value, stride=1, streaming=streaming)
            statements.append(column)
    return statements


def picks(lanes: int, distance: int, itemsize: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shuffle masks that merge two vectors of rows into two vectors of twice as many rows.

    Both hold groups of as many rows as those that they hold lie apart. Of each block, the groups
    of its first half alternate in the first vector, those of its second half in the second one.

    >>> picks(4, 1, 4)
    ((0, 4, 1, 5), (2, 6, 3, 7))
    """
    block = min(lanes, max(BLOCK // itemsize, 2 * distance))
    halves: list[tuple[int, ...]] = []
    for half in (0, block // 2):
        groups = [
            start + group + side
            for start in range(half, lanes, block)
            for group in range(0, block // 2, distance)
            for side in (0, lanes)
        ]
        halves.append(tuple(first + n for first in groups for n in range(distance)))
    return halves[0], halves[1]


def _of(pair: tuple[Rows, Rows], chosen: Sequence[int]) -> tuple[int, ...]:
    both = (*pair[0].lanes, *pair[1].lanes)
    return tuple(both[n] for n in chosen)
