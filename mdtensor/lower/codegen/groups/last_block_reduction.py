"""Last-block reduction: the last group to finish combines the partial results of all.

Groups count themselves when their results are in memory. Who combines is a matter of chance, in
which order is not: results depend on the schedule alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mdtensor.lower.codegen.base.destinations import Destination, outputs_of
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.item_numbers import item_numbers
from mdtensor.lower.codegen.base.partial_results import (
    Partials,
    by_one_group,
    combination,
    number_among,
    sources,
)
from mdtensor.lower.codegen.register_blocking.register_blocking import (
    resident_memory,
    resident_tiles,
)
from mdtensor.lower.ir.group_statements import Arrive
from mdtensor.lower.ir.index import ZERO, Index, as_index, name, product
from mdtensor.lower.ir.statements import Allocate, If, LetIndex, Pointer, Statement
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.tiling import DimTiling, tilings_of

LAST = "last"


def counters(frame: Frame) -> Index:
    """The number of counters: one per set of groups that share a reduction."""
    return product(frame.tilings[d].parts for d in frame.problem.kept)


def last_group(frame: Frame, partials: Partials) -> tuple[list[Statement], list[Statement]]:
    """Local arrays, and statements by which the last group combines all partial results."""
    number = number_among(frame.tilings, frame.problem.kept)
    arrays, combine = combined_by_one_group(frame, partials)
    return arrays, [Arrive(LAST, number, partials.count), combine]


def combined_by_one_group(frame: Frame, partials: Partials) -> tuple[list[Statement], If]:
    """Local arrays, and statements that combine all partial results where `LAST` is 1."""
    problem, tilings = frame.problem, frame.tilings
    whole = combination(problem, partials)
    blocks = [tilings[d].block for d in partials.order]
    items = math.prod(frame.schedule.threads)
    schedule = by_one_group(whole, frame.schedule, blocks, items)
    validate(whole, schedule)
    inner = Frame(whole, schedule, tilings_of(whole, schedule), {}, frame.aligned)
    body: list[Statement] = []
    if problem.finish is not None:
        body += [
            Pointer(f"given_I{n}", f"I{n}", dtype, "global", as_index(0))
            for n, dtype in enumerate(problem.inputs)
        ]
    body += sources(problem, partials)
    body += _all_groups(inner.tilings[0])
    body += [*item_numbers(inner), *resident_tiles(inner, _results(frame, partials))]
    return resident_memory(inner), If(as_index(0), "<", name(LAST), tuple(body))


def _all_groups(tiling: DimTiling) -> list[Statement]:
    low = LetIndex(tiling.var("lo"), as_index(0))
    return [low, LetIndex(tiling.var("hi"), tiling.extent)]


def _results(frame: Frame, partials: Partials) -> list[Destination]:
    """The outputs' destinations, with the dims of the combination."""
    return [
        replace(output, strides=(ZERO, *(output.strides[d] for d in partials.order)))
        for output in outputs_of(frame)
    ]


def united(arrays: Sequence[Statement]) -> list[Statement]:
    """Merge local arrays of equal name, each as large as the largest."""
    largest: dict[str, Allocate] = {}
    for array in arrays:
        assert isinstance(array, Allocate)
        before = largest.get(array.name, array)
        largest[array.name] = replace(array, extent=max(array.extent, before.extent))
    return list(largest.values())
