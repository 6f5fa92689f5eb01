"""Reduction among work-items that share points: warp shuffles, then local memory.

Every step combines neighbours, so the order of elements is kept; the first of the work-items that
share a point then holds its result. Where they are neighbours, those of a warp exchange values
first, and only one of each warp goes through local memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.tuple_variables import sets_at_once
from mdtensor.lower.codegen.base.value_from_expr import combined
from mdtensor.lower.ir.group_statements import Barrier, WarpShuffle
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import (
    EXCHANGE,
    Allocate,
    If,
    IndexCalc,
    Let,
    LetIndex,
    Set,
    Statement,
    VectorStore,
)
from mdtensor.lower.ir.values import Load, Ref
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.translate.combine import Operator

PLACE = "place"  # number of a work-item among those that share its points
_WORTH_SHARING_OUT = 4  # points from which work-items combine some each


@dataclass(frozen=True, slots=True)
class Sharing:
    """The sharing of points among work-items: `count` work-items per point, out of `items`.

    `accumulators` has a tuple of variables for each point. Work-items that share points are
    neighbours, or `items // count` apart.
    """

    operator: Operator
    count: int
    items: int
    neighbours: bool
    accumulators: tuple[tuple[Ref, ...], ...]

    @property
    def _by_warps(self) -> bool:
        whole = self.items % WARP == 0 and self.count & (self.count - 1) == 0
        return self.neighbours and whole

    @property
    def _in_warp(self) -> int:
        """Work-items of a warp that share each point."""
        return min(self.count, WARP) if self._by_warps else 1

    def memory(self) -> list[Statement]:
        """Declarations of local memory: an element per point of a warp, or of a work-item."""
        if self.count == 1:
            return []
        refs, points = self.accumulators[0], len(self.accumulators)
        size = points * (self.items // WARP if self._by_warps else self.items)
        held: list[Statement] = [
            Allocate(f"L{k}", ref.dtype, "local", size) for k, ref in enumerate(refs)
        ]
        if not self._by_warps:
            return held
        size = points * self.items
        return [*held, *(Allocate(f"X{k}", r.dtype, EXCHANGE, size) for k, r in enumerate(refs))]

    def statements(self) -> list[Statement]:
        """Reduce shared points; then work-items whose `place` is 0 hold the results."""
        item, apart = name("item"), self.items // self.count
        whole = IndexCalc("/", item, as_index(apart))
        if self.neighbours:
            apart, whole = 1, IndexCalc("%", item, as_index(self.count))
        place = LetIndex(PLACE, whole)
        if not self._by_warps:
            return [place, Barrier(), *self._in_memory(apart)]
        statements: list[Statement] = [place, *self._in_warps(self._in_warp, "")]
        warps = self.count // self._in_warp
        return statements if warps == 1 else [*statements, *self._among_warps(warps)]

    def _in_memory(self, apart: int) -> Iterator[Statement]:
        """Reduce through local memory: point by point among work-items, or as a tree."""
        for u, refs in enumerate(self.accumulators):
            yield from self._stores(name("item") + u * self.items, refs)
        if self.count > 2 and len(self.accumulators) >= _WORTH_SHARING_OUT:
            yield from self._shared_out(apart)
        else:
            yield from self._in_a_tree(apart)

    def _shared_out(self, apart: int) -> Iterator[Statement]:
        """Reduce through local memory, each work-item every `count`-th point, in order.

        Two steps in place of a tree's many; the first work-items then get all of their points.
        """
        place, points = name(PLACE), len(self.accumulators)
        types = [ref.dtype for ref in self.accumulators[0]]
        first = name("item") + place * -apart
        if self.neighbours:
            first = name("item") - place
        yield Barrier()
        for n in range(-(-points // self.count)):
            base = first + (place + n * self.count) * self.items
            held = [Ref(f"s{n}_{k}", dtype) for k, dtype in enumerate(types)]
            body: list[Statement] = [
                Let(ref, Load(f"L{k}", ref.dtype, base), mutable=True) for k, ref in enumerate(held)
            ]
            for q in range(1, self.count):
                others = [Load(f"L{k}", ref.dtype, base + q * apart) for k, ref in enumerate(held)]
                after = [Ref(f"s{n}_{q}_{k}", ref.dtype) for k, ref in enumerate(held)]
                results = combined(self.operator, held, others)
                body += sets_at_once(held, results, after)
            body += self._stores(base, held)
            if (n + 1) * self.count > points:
                body = [If(place + n * self.count, "<", as_index(points), tuple(body))]
            yield from body
        yield Barrier()
        for u, refs in enumerate(self.accumulators):
            where = first + u * self.items
            yield from (Set(ref, Load(f"L{k}", ref.dtype, where)) for k, ref in enumerate(refs))

    def _in_a_tree(self, apart: int) -> Iterator[Statement]:
        """Reduce through local memory as a tree: every step combines pairs, of all points."""
        place = name(PLACE)
        pairs = list(enumerate(self.accumulators))
        for distance in _distances(self.count):
            body: list[Statement] = []
            for u, refs in pairs:
                index = name("item") + u * self.items
                others = [
                    Load(f"L{k}", ref.dtype, index + distance * apart) for k, ref in enumerate(refs)
                ]
                held = [Ref(f"t{u}_{distance}_{k}", r.dtype) for k, r in enumerate(refs)]
                results = combined(self.operator, refs, others)
                body += sets_at_once(refs, results, held)
                body += self._stores(index, held)
            turn = f"turn{distance}"
            yield LetIndex(turn, IndexCalc("%", place, as_index(2 * distance)))
            in_reach = If(place + distance, "<", as_index(self.count), tuple(body))
            yield from (Barrier(), If(name(turn), "<", as_index(1), (in_reach,)))

    @staticmethod
    def _stores(index: Index, refs: Sequence[Ref]) -> list[Statement]:
        return [VectorStore(f"L{k}", ref.dtype, index, ref) for k, ref in enumerate(refs)]

    def _in_warps(self, count: int, prefix: str) -> Iterator[Statement]:
        """A shuffle reduction: the first of every `count` work-items gets the result of all."""
        everything = list(itertools.chain(*self.accumulators))
        width = len(self.accumulators[0])
        for distance in _distances(count):
            others = tuple(
                Ref(f"t{prefix}{n // width}_{distance}_{n % width}", ref.dtype)
                for n, ref in enumerate(everything)
            )
            buffers = tuple(f"X{n % width}" for n in range(len(everything)))
            offsets = tuple(n // width * self.items for n in range(len(everything)))
            values = tuple(everything)
            yield WarpShuffle("down", distance, others, values, self.items, buffers, offsets)
            for u, refs in enumerate(self.accumulators):
                results = combined(self.operator, refs, others[u * width : (u + 1) * width])
                held = [Ref(f"n{prefix}{u}_{distance}_{k}", r.dtype) for k, r in enumerate(refs)]
                yield from sets_at_once(refs, results, held)

    def _among_warps(self, warps: int) -> Iterator[Statement]:
        """Exchange the warps' results through local memory, then reduce them in a warp."""
        all_warps = self.items // WARP
        yield LetIndex("warp", IndexCalc("/", name("item"), as_index(WARP)))
        yield LetIndex("lane", IndexCalc("%", name("item"), as_index(WARP)))
        yield LetIndex("of_warp", IndexCalc("%", name("warp"), as_index(warps)))
        yield LetIndex("of_lane", IndexCalc("%", name("lane"), as_index(warps)))
        stores = [
            store
            for u, refs in enumerate(self.accumulators)
            for store in self._stores(name("warp") + u * all_warps, refs)
        ]
        yield from (Barrier(), If(name("lane"), "<", as_index(1), tuple(stores)), Barrier())
        first = name("warp") - name("of_warp") + name("of_lane")
        for u, refs in enumerate(self.accumulators):
            place = first + u * all_warps
            yield from (Set(ref, Load(f"L{k}", ref.dtype, place)) for k, ref in enumerate(refs))
        yield from self._in_warps(warps, "w")


def _distances(count: int) -> Iterator[int]:
    """The powers of two below a number."""
    return itertools.takewhile(lambda distance: distance < count, (1 << n for n in range(32)))
