"""(Problem, Schedule) -> the text of a program in a dialect of C, or in LLVM IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.languages import Language
from mdtensor.kernels.llvm.language import LLVM
from mdtensor.lower.codegen.base.index_width import have_narrow_indices
from mdtensor.lower.codegen.fuse_kernels import Wired, joined
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.lowering import lowered
from mdtensor.lower.pass_runner import Pass
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.stage_timer import stage
from mdtensor.translate.rewrites.total_operators import forgets


def program_of(
    problem: Problem,
    schedule: Schedule,
    language: Language,
    head: str = "",
    *,
    only_aligned: bool = False,
) -> KernelSource:
    """The program of a problem under a schedule, with `head` as comments at its beginning.

    Where wide accesses need buffers that begin at multiples of 16 bytes, it has a second program
    for others, unless the caller has `only_aligned` ones. Raises LoweringError where the schedule
    does not fit the problem.
    """
    fragile = problem.operator is not None and forgets(problem.operator)

    def rendered(nests: Sequence[LoopNest]) -> KernelSource:
        spelled = NARROW_INDICES(language, problem, schedule, nests)
        with stage("render"):
            source = RENDER(nests, spelled, inline=schedule.inline, streaming=schedule.streaming)
        return replace(source, fragile=fragile)

    def nests_of(schedule: Schedule, *, aligned: bool) -> tuple[LoopNest, ...]:
        with stage("lower"):
            return lowered(problem, schedule, head, aligned=aligned)

    if only_aligned:
        return rendered(nests_of(schedule, aligned=schedule.resident))
    if not schedule.resident:
        return rendered(nests_of(schedule, aligned=False))
    aligned = nests_of(schedule, aligned=True)
    fallback = _for_any_alignment(problem, schedule) if schedule.bulk else schedule
    nests = nests_of(fallback, aligned=False)
    if aligned == nests:
        return rendered(nests)
    return replace(rendered(aligned), unaligned=rendered(nests))


def _for_any_alignment(problem: Problem, schedule: Schedule) -> Schedule:
    from mdtensor.lower.gpu.tma.unaligned import for_any_alignment

    return for_any_alignment(problem, schedule)


def joined_program_of(
    steps: Sequence[tuple[Problem, Schedule, tuple[int, ...]]],
    inputs: Sequence[int],
    outputs: Sequence[int],
    between: Mapping[int, int],
    language: Language,
    heads: Sequence[str],
) -> KernelSource:
    """One program that computes problems in order, each by its own schedule.

    Arrays are numbered; `between` has the bytes of intermediate ones. Raises LoweringError where a
    schedule is not one of the calling thread alone, or does not fit.
    """
    parts: list[Wired] = []
    for (problem, schedule, arrays), head in zip(steps, heads, strict=True):
        (kernel, *others) = lowered(problem, schedule, head)
        if others or not schedule.inline or schedule.streaming:
            raise LoweringError("only what the calling thread runs as one kernel is joined")
        parts.append(Wired(kernel, arrays))
    fragile = any(p.operator is not None and forgets(p.operator) for p, _, _ in steps)
    return replace(
        RENDER([FUSE(parts, inputs, outputs, between)], language, inline=True),
        fragile=fragile,
    )


def _narrowed(
    language: Language, problem: Problem, schedule: Schedule, nests: Sequence[LoopNest]
) -> Language:
    """The language with 32-bit indices if it has them and all indices fit; else itself."""
    may_be_narrow = language.narrow_index and not schedule.long_indices
    narrow = may_be_narrow and have_narrow_indices(problem, schedule, nests)
    return language.narrowed() if narrow else language


def _rendered(
    nests: Sequence[LoopNest], language: Language, *, inline: bool, streaming: bool = False
) -> KernelSource:
    if isinstance(language, LLVM):
        from mdtensor.kernels.llvm import llvm_renderer

        return llvm_renderer.render(nests, language, inline=inline, streaming=streaming)
    from mdtensor.kernels import cstyle

    return cstyle.render(nests, language, inline=inline, streaming=streaming)


NARROW_INDICES = Pass("narrow indices", _narrowed)
FUSE = Pass("fuse kernels", joined)
RENDER = Pass("render", _rendered)
