"""(Problems on a block of rows, ChainSchedule) -> the text of a program for a chain by rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.kernels.kernel_source import ALIGNMENT, KernelSource
from mdtensor.kernels.languages import Language
from mdtensor.kernels.program import RENDER
from mdtensor.lower.codegen.base.index_width import have_narrow_indices
from mdtensor.lower.codegen.fuse_rows import OnRows, RowBlocks, joined_by_rows
from mdtensor.lower.lowering import lowered
from mdtensor.lower.pass_runner import Pass
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.chain_schedule import ChainSchedule
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.rewrites.shared_rows import ChainStage
from mdtensor.translate.rewrites.total_operators import forgets


def chain_program_of(
    steps: Sequence[tuple[Problem, ChainStage]],
    rest: Sequence[tuple[Problem, ChainStage]],
    schedule: ChainSchedule,
    extents: Sequence[int],
    arrays: Sequence[int],
    between: Mapping[int, int],
    language: Language,
) -> KernelSource:
    """A program that computes a chain of problems block of rows by block of rows.

    `extents` are the rows along each dim. The chain on a block are the `steps`, on a ragged last
    one the `rest`. `arrays` are numbered; `between` has the bytes per group of intermediate ones.
    Raises LoweringError where a schedule has several groups, or does not fit.
    """
    blocks = RowBlocks(tuple(extents), schedule.lengths)

    def on_rows(problem: Problem, piece: ChainStage, how: Schedule, *, aligned: bool) -> OnRows:
        head = f"{problem_key(problem)}\n{how.describe(problem)}"
        buffers = (*piece.md_hom.inputs, *piece.md_hom.outputs)
        sizes = tuple([buffer.spec.dtype.itemsize for buffer in buffers])
        steps = [s * size for own, size in zip(piece.strides, sizes, strict=True) for s in own]
        begins_aligned = aligned and not any(step % ALIGNMENT for step in steps)
        (kernel, *others) = lowered(problem, how, head, aligned=begins_aligned and how.resident)
        if others or how.streaming:
            raise LoweringError("only what one group runs as one kernel is joined")
        pairs = piece.overwritten if how.writes_where_it_reads else ()
        return OnRows(kernel, piece.slots, piece.strides, sizes, pairs)

    def rendered(*, aligned: bool) -> KernelSource:
        every = [*zip(steps, schedule.steps, strict=True), *zip(rest, schedule.rest, strict=True)]
        parts = [on_rows(*step, how, aligned=aligned) for step, how in every]
        nest = FUSE_ROWS(
            parts[: len(steps)], parts[len(steps) :], blocks, schedule.groups, arrays, between
        )
        is_narrow = all(
            have_narrow_indices(problem, how, (part.kernel,), part.most_further(extents))
            for part, ((problem, _), how) in zip(parts, every, strict=True)
        )
        spelled = language.narrowed() if is_narrow and language.narrow_index else language
        return replace(RENDER([nest], spelled, inline=False), fragile=fragile)

    fragile = any(p.operator is not None and forgets(p.operator) for p, _ in steps)
    any_place = rendered(aligned=False)
    if not any(how.resident for how in schedule.steps):
        return any_place
    whole = rendered(aligned=True)
    return whole if whole == any_place else replace(whole, unaligned=any_place)


FUSE_ROWS = Pass("fuse rows", joined_by_rows)
