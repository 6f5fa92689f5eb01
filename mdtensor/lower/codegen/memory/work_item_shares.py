"""The share of a work-item in a cooperative copy: its pieces, and their coordinates.

All pieces of a tile are numbered along its walks, the first fastest; work-item `i` of `n` has those
of number i, i + n, i + 2n, … Where that makes whole rows of every walk, a work-item divides for the
coordinates of its first piece alone, and the others are constants further.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.memory.copy_traversal import TraversalLoop, Walks
from mdtensor.lower.ir.index import ZERO, Index, as_index, name
from mdtensor.lower.ir.statements import If, IndexCalc, LetIndex, Statement

# A piece's number among all of the tile, and the number of them that it must be below.
Bound = tuple[Index, int]


@dataclass(frozen=True, slots=True)
class CopyAccess:
    """One access of a copy: its number, its coordinates by dim, and its bounds check.

    A dim without a coordinate has one element. `within` is None where every work-item has such a
    piece.
    """

    number: int
    coordinates: Mapping[int, Index]
    within: Bound | None

    def along(self, d: int) -> Index:
        """The coordinate of the access's first element along a dim."""
        return self.coordinates.get(d, ZERO)

    def guarded(self, statement: Statement) -> Statement:
        """The statement under the access's bounds check."""
        if self.within is None:
            return statement
        number, count = self.within
        return If(number, "<", as_index(count), (statement,))


@dataclass(frozen=True, slots=True)
class Share:
    """The accesses of one work-item in a copy, and statements that declare their coordinates.

    Neighbouring work-items copy neighbours along the first of the `walks`.
    """

    walks: Walks
    setup: tuple[Statement, ...]
    pieces: tuple[CopyAccess, ...]


def count_of_pieces(walks: Walks, items: int) -> int:
    """The largest number of pieces that a work-item copies."""
    return -(-math.prod(walk.length for walk in walks) // items)


def share_in_rows(walks: Walks, items: int) -> Share | None:
    """A share whose pieces are at constant offsets from its first; None where they are not."""
    rows = list(_rows(walks, items))
    setup = [statement for row in rows for statement in row.first()]
    pieces: list[CopyAccess] = []
    for n, _, within in _numbered(walks, items):
        coordinates: dict[int, Index] = {}
        for row in rows:
            position = row.position(n)
            if position is None:
                return None
            d = row.walk.axis.dim
            coordinates[d] = coordinates.get(d, ZERO) + position
        pieces.append(CopyAccess(n, coordinates, within))
    return Share(walks, tuple(setup), tuple(pieces))


def divided_share(walks: Walks, items: int) -> Share:
    """A share whose pieces' coordinates are each computed by divisions."""
    setup: list[Statement] = []
    pieces: list[CopyAccess] = []
    for n, number, within in _numbered(walks, items):
        coordinates: dict[int, Index] = {}
        rest = number
        for walk in walks:
            length, held = as_index(walk.length), f"{walk.name}_{n}"
            setup.append(LetIndex(held, IndexCalc("%", rest, length)))
            setup.append(LetIndex(f"{held}_rest", IndexCalc("/", rest, length)))
            rest = name(f"{held}_rest")
            d = walk.axis.dim
            coordinates[d] = coordinates.get(d, ZERO) + name(held) * walk.step
        pieces.append(CopyAccess(n, coordinates, within))
    return Share(walks, tuple(setup), tuple(pieces))


def _numbered(walks: Walks, items: int) -> Iterator[tuple[int, Index, Bound | None]]:
    """Per piece of a work-item: its number, its linear number in the group, and its limit."""
    count = math.prod(walk.length for walk in walks)
    for n in range(-(-count // items)):
        number = name("item") + n * items if items > 1 else as_index(n)
        yield n, number, None if (n + 1) * items <= count else (number, count)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A traversal loop as work-items see it; `before` pieces lie in the loops inside."""

    walk: TraversalLoop
    before: int
    items: int
    is_last: bool

    @property
    def is_shared(self) -> bool:
        """Whether work-items are at different steps of the loop, and fill the loops inside."""
        whole = self.items % self.before == 0 and self.before < self.items
        return self.items > 1 and whole and self.walk.length > 1

    def first(self) -> list[Statement]:
        """Declare the coordinate of a work-item's first piece along the loop."""
        if not self.is_shared:
            return []
        length, held = self.walk.length, self.walk.name
        whole = IndexCalc("/", name("item"), as_index(self.before))
        if self.is_last or self.before * length >= self.items:
            return [LetIndex(held, whole)]
        rest = f"{held}_rest"
        return [
            LetIndex(rest, whole),
            LetIndex(held, IndexCalc("%", name(rest), as_index(length))),
        ]

    def position(self, n: int) -> Index | None:
        """The coordinate of a work-item's n-th piece; None where it needs a division."""
        length, before, items, step = self.walk.length, self.before, self.items, self.walk.step
        if length == 1:
            return ZERO
        if before % items == 0:
            return as_index(n * items // before % length * step)
        if not self.is_shared:
            return None
        mine, further = name(self.walk.name) * step, n * (items // before)
        after = before * length
        if self.is_last:
            return mine + further * step
        if items % after == 0:
            return mine
        return mine + further % length * step if after % items == 0 else None


def _rows(walks: Walks, items: int) -> Iterator[_Rows]:
    before = 1
    for n, walk in enumerate(walks):
        yield _Rows(walk, before, items, n == len(walks) - 1)
        before *= walk.length
