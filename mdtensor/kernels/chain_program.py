"""(Problems on a block of rows, ChainSchedule) -> the text of a program for a chain by rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.languages import Language
from mdtensor.kernels.program import RENDER
from mdtensor.lower.codegen.fuse_rows import Blocks, OnRows, joined_by_rows
from mdtensor.lower.lowering import lowered
from mdtensor.lower.pass_runner import Pass
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.chain_schedule import ChainSchedule
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.rewrites.shared_rows import Piece
from mdtensor.translate.rewrites.total_operators import forgets


def chain_program_of(
    steps: Sequence[tuple[Problem, Piece]],
    rest: Sequence[tuple[Problem, Piece]],
    schedule: ChainSchedule,
    extents: Sequence[int],
    arrays: Sequence[int],
    between: Mapping[int, int],
    language: Language,
) -> KernelSource:
    """One program that computes a chain block of rows by block of rows.

    There are so many rows along each dim. The chain on a block are the `steps`, on a ragged last
    one the `rest`. Numbers stand for `arrays`; those `between` have so many bytes for each group.
    Raises LoweringError where a schedule has several groups, or does not fit.
    """

    def on_rows(problem: Problem, piece: Piece, schedule: Schedule) -> OnRows:
        head = f"{problem_key(problem)}\n{schedule.describe(problem)}"
        (kernel, *others) = lowered(problem, schedule, head)
        if others or schedule.streaming:
            raise LoweringError("only what one group runs as one kernel is joined")
        buffers = (*piece.md_hom.inputs, *piece.md_hom.outputs)
        sizes = tuple([buffer.spec.dtype.itemsize for buffer in buffers])
        pairs = piece.overwritten if schedule.writes_where_it_reads else ()
        return OnRows(kernel, piece.slots, piece.strides, sizes, pairs)

    parts = [on_rows(*s, how) for s, how in zip(steps, schedule.steps, strict=True)]
    others = [on_rows(*s, how) for s, how in zip(rest, schedule.rest, strict=True)]
    blocks = Blocks(tuple(extents), schedule.lengths)
    nest = FUSE_ROWS(parts, others, blocks, schedule.groups, arrays, between)
    fragile = any(p.operator is not None and forgets(p.operator) for p, _ in steps)
    return replace(RENDER([nest], language, inline=False), fragile=fragile)


FUSE_ROWS = Pass("fuse rows", joined_by_rows)
