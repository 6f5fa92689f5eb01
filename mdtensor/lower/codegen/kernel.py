"""(Frame) -> LoopNest: one kernel, whose groups compute a problem or partial results of it.

What is declared comes first: the group's part, the work-items' numbers, where results go, local
memory. Then come the loops, which are those of a loop structure.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from mdtensor.lower.codegen.base.destinations import Destinations, outputs_of, totals_of
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.loop_structure import LoopStructure
from mdtensor.lower.codegen.base.partial_results import Partials, number_among
from mdtensor.lower.codegen.base.partition import group_bounds
from mdtensor.lower.codegen.memory import stage_inputs
from mdtensor.lower.ir.index import ZERO, Index, as_index, name, product, total
from mdtensor.lower.ir.loop_nest import Argument, LoopNest
from mdtensor.lower.ir.statements import IndexCalc, LetIndex, Statement
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scratch_memory import ALIGNMENT, is_aligned, whole_lines


def kernel_of(frame: Frame, structure: LoopStructure, partials: Partials | None = None) -> LoopNest:
    """The kernel of a problem, with the loops of a LoopStructure.

    Where groups have `partials`, they leave those of a reduction there; a scan goes on from them.
    """
    problem, schedule = frame.problem, frame.schedule
    declared, totals = _totals(frame, partials) if partials else ([], ())
    destinations, carries = outputs_of(frame), totals
    if totals and problem.scanned < 0:
        destinations, carries = totals, ()
    loops = partial(structure.loops, carries=carries) if carries else structure.loops
    left = whole_lines(partials.nbytes * len(totals)) if partials else ZERO
    staged, per_group = _staged(frame, left)
    body = (
        *part_bounds(frame),
        *structure.numbers(frame),
        *declared,
        *structure.memory(frame),
        *staged,
        *loops(frame, destinations),
    )
    groups = groups_of(frame)
    return LoopNest(
        "kernel_0",
        arguments_of(problem),
        size_names(problem),
        frame.items + structure.more_items,
        body,
        groups,
        left + per_group * groups,
        maps=structure.maps(frame),
        stores_in_loops=not schedule.resident,
    )


def _totals(frame: Frame, partials: Partials) -> tuple[list[Statement], Destinations]:
    """Declare the destinations of a group's partial results."""
    if partials.local:
        from mdtensor.lower.codegen.groups.cluster_reduction import begun

        return begun(frame, partials)
    number = number_among(frame.tilings, frame.problem.contracted)
    pointers, totals = totals_of(frame, partials, number)
    return [*pointers], totals


def part_bounds(frame: Frame) -> list[Statement]:
    """Declare the bounds of a group's part of every dim."""
    schedule = frame.schedule
    order = schedule.numbered(frame.problem)
    return group_bounds(frame.tilings, order, schedule.swath, _swathed(frame))


def _swathed(frame: Frame) -> tuple[int, int] | None:
    """The two innermost split kept dims, whose groups are numbered in swaths; None without."""
    split = [d for d in frame.schedule.numbered(frame.problem) if frame.tilings[d].is_split]
    pairs = [p for p in itertools.pairwise(split) if not any(frame.problem.reduced[d] for d in p)]
    return pairs[-1] if pairs and frame.schedule.swath > 1 else None


def groups_of(frame: Frame) -> Index:
    """The number of groups."""
    return product(tiling.parts for tiling in frame.tilings)


def arguments_of(problem: Problem) -> tuple[Argument, ...]:
    """Inputs, outputs, and scratch memory, which every kernel has."""
    inputs = [Argument(f"I{n}", dtype, "input") for n, dtype in enumerate(problem.inputs)]
    outputs = [Argument(f"O{n}", dtype, "output") for n, dtype in enumerate(problem.outputs)]
    return (*inputs, *outputs, Argument("scratch", np.dtype(np.uint8), "scratch"))


def size_names(problem: Problem) -> tuple[str, ...]:
    """Names of the run-time sizes, in the launch's order."""
    if not problem.is_general:
        return ()
    blocks = (f"B_{label}" for label in problem.labels)
    parts = (f"P_{label}" for label in problem.labels)
    return (*problem.sizes, *blocks, *parts)


def _staged(frame: Frame, offset: Index) -> tuple[list[Statement], Index]:
    """Declare the staged tiles; return the bytes of scratch memory per group."""
    statements: list[Statement] = []
    sizes = {
        number: whole_lines(layout.size * layout.memory.itemsize)
        for number, layout in frame.layouts.items()
        if layout.region == "scratch"
    }
    skips = sum(not is_aligned(size) for size in (offset, *sizes.values()) if sizes)
    per_group = total(sizes.values()) + ALIGNMENT * (skips + 1 if skips else 0)
    start = offset + per_group * name("group")
    for number, layout in frame.layouts.items():
        if number in sizes:
            aligned, start = _aligned(start, f"line{number}")
            statements += aligned
        statements += stage_inputs.declare(layout, start)
        if number in sizes:
            start = start + sizes[number]
    return statements, per_group


def _aligned(start: Index, held: str) -> tuple[list[Statement], Index]:
    """The next aligned byte offset, as a variable where sizes are symbolic."""
    if is_aligned(start):
        return [], start
    line = LetIndex(held, IndexCalc("/", start + (ALIGNMENT - 1), as_index(ALIGNMENT)))
    return [line], name(held) * ALIGNMENT
