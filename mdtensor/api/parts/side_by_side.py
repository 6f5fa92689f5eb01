"""Independent steps side by side: a part of an operand that several read is read once.

A stencil is such a computation: one step for the points inside, others for those at its borders.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import TypeVar

from mdtensor.api.parts.cuts import Cuts, ranges_of
from mdtensor.api.parts.parted_step import Executor, Parts
from mdtensor.errors import TranslationError
from mdtensor.translate.combine import Concat
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.rewrites.parts import Box, MDHomPart, part_of

N = TypeVar("N")
_FEW = 16  # indices that are looked for one by one in others


def are_independent(steps: Sequence[Step], cuts: Sequence[Cuts]) -> bool:
    """Whether the parts of all steps may run in any order.

    That holds where none reads or writes what another one writes, and where parts lie side by side.
    """
    if any(
        len(cut[dim.name]) > 2 and not isinstance(dim.combine, Concat)
        for step, cut in zip(steps, cuts, strict=True)
        for dim in step.md_hom.dims
    ):
        return False
    written = {slot for step in steps for slot in step.results}
    if any(slot in written for step in steps for slot in step.operands):
        return False
    try:
        boxes = [_written(step, cut) for step, cut in zip(steps, cuts, strict=True)]
    except TranslationError:  # results that are no box
        return False
    return not any(
        slot == other and _meet(box, beside)
        for ones, others in itertools.combinations(boxes, 2)
        for slot, box in ones
        for other, beside in others
    )


def run_side_by_side(steps: Sequence[Step], cuts: Sequence[Cuts], executor: Executor[N]) -> None:
    """Runs the parts of independent steps in the order of their operands' elements."""
    pairs = zip(steps, cuts, strict=True)
    several = [_placed(Parts(step, cut, executor)) for step, cut in pairs]
    for _, parts, part in heapq.merge(*several, key=operator.itemgetter(0)):
        parts.write(part, parts.computed(part, parts.step.operands))


def _placed(parts: Parts[N]) -> Iterator[tuple[int, Parts[N], MDHomPart]]:
    """The parts of a step, each with its begin in the first operand, along the first axis."""
    for ranges in parts.ranges(parts.step.md_hom.dims):
        part = part_of(parts.step.md_hom, ranges)
        yield part.reads[0][0].start if part.reads and part.reads[0] else 0, parts, part


def _written(step: Step, cuts: Cuts) -> list[tuple[int, Box]]:
    """The boxes that a step writes, with their slots; short dims are cut if need be.

    Raises TranslationError where they are no boxes even so.
    """
    spans = {
        dim.name: ranges_of(cuts[dim.name])
        if len(cuts[dim.name]) == dim.extent + 1 <= _FEW
        else [(0, dim.extent)]
        for dim in step.md_hom.dims
    }
    found: list[tuple[int, Box]] = []
    for each in itertools.product(*spans.values()):
        part = part_of(step.md_hom, dict(zip(spans, each, strict=True)))
        found += zip(step.results, part.writes, strict=True)
    return found


def _meet(one: Box, other: Box) -> bool:
    """Whether two boxes may overlap."""
    return not any(_are_apart(a, b) for a, b in zip(one, other, strict=True))


def _are_apart(one: slice, other: slice) -> bool:
    """Whether two slices have no index in common, by a quick, conservative test.

    >>> _are_apart(slice(1, 9), slice(0, 10, 9)), _are_apart(slice(0, 4), slice(3, 5))
    (True, False)
    >>> _are_apart(slice(0, 100), slice(100, 200))
    True
    """
    first, second = (range(s.start, s.stop, s.step or 1) for s in (one, other))
    if max(first.start, second.start) >= min(first.stop, second.stop):
        return True
    few, many = sorted((first, second), key=len)
    return len(few) <= _FEW and not any(index in many for index in few)
