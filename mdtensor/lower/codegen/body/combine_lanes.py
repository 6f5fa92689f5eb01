"""Horizontal reduction of vectors, for several points at once.

A point's vector is halved until one lane is left. Vectors of two points first become one: both
halves of each lie in one shuffle or the other, which are combined. So each of them, and what is
combined later, is a vector with all its lanes at work, and a point takes about one step instead of
one for each doubling of the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.lower.codegen.base.tuple_variables import lets
from mdtensor.lower.codegen.base.value_from_expr import combined
from mdtensor.lower.codegen.memory.transpose_rows import picks
from mdtensor.lower.ir.statements import Statement
from mdtensor.lower.ir.values import Ref, Shuffle, Slice, Value
from mdtensor.translate.combine import Operator

# The vectors of one element of the result each, lane for lane.
Vectors = tuple[Ref, ...]


def combined_lanes(
    operator: Operator, points: Sequence[Vectors], statements: list[Statement]
) -> list[Vectors]:
    """Reduce the lanes of every point; results are declared in `statements`."""
    found: list[Vectors] = []
    lanes = points[0][0].lanes
    while len(found) < len(points):
        left = len(points) - len(found)
        count = 1 << (min(left, lanes).bit_length() - 1)
        block = points[len(found) : len(found) + count]
        found += _Block(operator, len(found), statements).of(block)
    return found


class _Block:
    """A power of two of neighbouring points, from number `first` on, reduced together."""

    def __init__(self, operator: Operator, first: int, statements: list[Statement]) -> None:
        self.operator, self.first, self.statements = operator, first, statements
        self.named = 0

    def of(self, points: Sequence[Vectors]) -> list[Vectors]:
        """The results of each point."""
        vectors, distance = list(points), 1
        while len(vectors) > 1:
            vectors = [
                self._pair(one, other, distance)
                for one, other in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            distance *= 2
        refs = vectors[0]
        while refs[0].lanes > distance:
            half = refs[0].lanes // 2
            low = [Slice(ref, 0, half) for ref in refs]
            high = [Slice(ref, half, half) for ref in refs]
            refs = self._held(combined(self.operator, low, high))
        if distance == 1:
            return [refs]
        return [self._held([Slice(ref, n) for ref in refs]) for n in range(distance)]

    def _pair(self, one: Vectors, other: Vectors, distance: int) -> Vectors:
        """Combine two vectors, each of `distance` interleaved points, into one vector."""
        widest = max(ref.dtype.itemsize for ref in one)
        low, high = (
            self._held([Shuffle(a, b, chosen) for a, b in zip(one, other, strict=True)])
            for chosen in picks(one[0].lanes, distance, widest)
        )
        return self._held(combined(self.operator, low, high))

    def _held(self, values: Sequence[Value]) -> Vectors:
        """Declare variables for values."""
        refs = tuple(
            Ref(f"h{self.first}_{self.named}_{k}", value.dtype, value.lanes)
            for k, value in enumerate(values)
        )
        self.named += 1
        self.statements += lets(refs, values, mutable=True)
        return refs
