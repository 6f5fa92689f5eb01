"""Steps in parts: the boxes that parts read and write, and the combination of results.

The rule is that of homomorphisms, dim by dim: along `cc` parts lie side by side, along `pw` they
are combined by the operator, along `ps` each one is combined with the carry of all before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from mdtensor.api.parts.cuts import Cuts, ranges_of
from mdtensor.dataclass import dataclass
from mdtensor.translate.combine import Concat, Operator, PrefixSum
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.rewrites.parts import Box, MDHomPart, Range, combination, part_of
from mdtensor.translate.rewrites.stages import finished_apart

# What stands for an array: the key of a task, or the array itself.
N = TypeVar("N")
Tuple = tuple[N, ...]


class Executor(Protocol[N]):
    """The backend for parts: it makes tasks to run later, or computes arrays now.

    Where parts are computed `in_turn`, carries are applied as they come, and no part waits.
    """

    @property
    def in_turn(self) -> bool:
        """Whether carries are applied as soon as they are known."""
        ...

    def read(self, slot: int, box: Box) -> N:
        """Read a box of an operand, a result or a temporary."""
        ...

    def write(self, slot: int, box: Box, value: N) -> None:
        """Write a box of a result or a temporary."""
        ...

    def compute(self, md_hom: MDHom, operands: Sequence[N], begins: Sequence[int]) -> Tuple[N]:
        """Compute the outputs of an `md_hom`; `begins` are its last inputs."""
        ...

    def last(self, value: N, axis: int, shape: Sequence[int]) -> N:
        """The last elements along an axis of an array of a shape; the axis is kept."""
        ...


def run_in_parts(step: Step, cuts: Cuts, executor: Executor[N]) -> None:
    """Run a step in parts cut along its dims; at most one of these is reduced or scanned."""
    cut = [(dim, dim.combine) for dim in step.md_hom.dims if len(cuts[dim.name]) > 2]
    combined = [(dim, c) for dim, c in cut if not isinstance(c, Concat)]
    parts = Parts(step, cuts, executor)
    if not combined:
        for ranges in parts.ranges(step.md_hom.dims):
            part = part_of(step.md_hom, ranges)
            parts.write(part, parts.computed(part, step.operands))
        return
    dim, combine = combined[0]
    if isinstance(combine, PrefixSum):
        parts.scan(dim, combine.op)
    else:
        parts.reduce(combine.op)


@dataclass(frozen=True, slots=True)
class Parts(Generic[N]):
    """The parts of a step: their ranges, reads, computations and writes."""

    step: Step
    cuts: Cuts
    executor: Executor[N]

    def ranges(self, dims: Iterable[Dim]) -> list[dict[str, Range]]:
        """The ranges of all parts of some dims, the last dim fastest."""
        names = [dim.name for dim in dims]
        chosen = itertools.product(*(ranges_of(self.cuts[name]) for name in names))
        return [dict(zip(names, each, strict=True)) for each in chosen]

    def computed(self, part: MDHomPart, slots: Sequence[int], given: Sequence[N] = ()) -> Tuple[N]:
        """Compute a part from inputs given first, and others that are read."""
        boxes = part.reads[len(given) :]
        read = [self.executor.read(*each) for each in zip(slots, boxes, strict=True)]
        return self.executor.compute(part.md_hom, (*given, *read), part.begins)

    def write(self, part: MDHomPart, values: Sequence[N]) -> None:
        """Write the outputs of a part."""
        for each in zip(self.step.results, part.writes, values, strict=True):
            self.executor.write(*each)

    def reduce(self, operator: Operator) -> None:
        """Reduce in parts: partial results are combined pairwise, by a balanced tree."""
        md_hom, last, read = finished_apart(self.step.md_hom)
        for kept in self.ranges(md_hom.kept):
            pairing = combination(operator, [high - low for low, high in kept.values()])
            folded = _Folded[Tuple[N]](self._combined(pairing))
            for reduced in self.ranges(md_hom.reduced):
                folded.add(self.computed(part_of(md_hom, kept | reduced), self.step.operands))
            self._finish(last, read, kept, folded.result())

    def scan(self, dim: Dim, operator: Operator) -> None:
        """Scan in parts: each is scanned, then combined with the carry of the parts before it."""
        md_hom, last, read = finished_apart(self.step.md_hom)
        axis = [kept.name for kept in md_hom.kept].index(dim.name)
        along = ranges_of(self.cuts[dim.name])
        for beside in self.ranges([d for d in md_hom.kept if d.name != dim.name]):
            placed = [
                {d.name: span if d.name == dim.name else beside[d.name] for d in md_hom.kept}
                for span in along
            ]
            shapes = [[high - low for low, high in kept.values()] for kept in placed]
            if self.executor.in_turn:
                self._scan_in_turn(placed, shapes, axis, operator)
                continue
            local = [self.computed(part_of(md_hom, p), self.step.operands) for p in placed]
            totals = [
                tuple(self.executor.last(value, axis, shape) for value in values)
                for values, shape in zip(local[:-1], shapes, strict=False)
            ]
            one = [1 if n == axis else extent for n, extent in enumerate(shapes[0])]
            carries = _scanned(totals, self._combined(combination(operator, one)))
            self._finish(last, read, placed[0], local[0])
            rest = zip(carries, local[1:], placed[1:], shapes[1:], strict=True)
            for carry, values, kept, shape in rest:
                carried = self._combined(combination(operator, shape, axis))(carry, values)
                self._finish(last, read, kept, carried)

    def _scan_in_turn(
        self,
        placed: Sequence[Mapping[str, Range]],
        shapes: Sequence[Sequence[int]],
        axis: int,
        operator: Operator,
    ) -> None:
        """Scan in parts, each combined with the last elements of the previous one right away."""
        md_hom, last, read = finished_apart(self.step.md_hom)
        carry: Tuple[N] | None = None
        for kept, shape in zip(placed, shapes, strict=True):
            values = self.computed(part_of(md_hom, kept), self.step.operands)
            if carry is not None:
                values = self._combined(combination(operator, shape, axis))(carry, values)
            carry = tuple(self.executor.last(value, axis, shape) for value in values)
            self._finish(last, read, kept, values)

    def _combined(self, md_hom: MDHom) -> Callable[[Tuple[N], Tuple[N]], Tuple[N]]:
        return lambda left, right: self.executor.compute(md_hom, (*left, *right), ())

    def _finish(
        self, last: MDHom, read: Sequence[int], ranges: Mapping[str, Range], values: Tuple[N]
    ) -> None:
        """Apply the epilogue and the output's type to combined values, and write them."""
        part = part_of(last, ranges)
        slots = [self.step.operands[number] for number in read]
        self.write(part, self.computed(part, slots, values))


@dataclass(slots=True)
class _Folded(Generic[N]):
    """A fold of values in order by a balanced tree.

    No more values wait at any time than the tree is high.
    """

    combine: Callable[[N, N], N]
    waiting: list[tuple[int, N]] = field(default_factory=list[tuple[int, N]])

    def add(self, value: N) -> None:
        """Push a value, and combine subtrees of equal size."""
        count = 1
        while self.waiting and self.waiting[-1][0] == count:
            before, left = self.waiting.pop()
            count, value = count + before, self.combine(left, value)
        self.waiting.append((count, value))

    def result(self) -> N:
        """All values combined."""
        _, value = self.waiting.pop()
        while self.waiting:
            value = self.combine(self.waiting.pop()[1], value)
        return value


def _scanned(values: Sequence[N], combine: Callable[[N, N], N]) -> list[N]:
    """An inclusive scan by a tree: of the pairs of neighbours, then of the elements between.

    >>> _scanned([1, 2, 3, 4, 5], lambda left, right: left + right)
    [1, 3, 6, 10, 15]
    """
    if len(values) < 2:
        return list(values)
    pairs = zip(values[::2], values[1::2], strict=False)
    odd = _scanned([combine(left, right) for left, right in pairs], combine)
    later = range(1, len(values))
    return [
        values[0],
        *(odd[n // 2] if n % 2 else combine(odd[n // 2 - 1], values[n]) for n in later),
    ]
