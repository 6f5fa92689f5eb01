"""(Problem, Schedule) -> LoopNests: the lowering of a computation to kernels.

The kind of the schedule has the emitter, and rules beside those that all schedules keep.
"""

from __future__ import annotations

from dataclasses import replace

from mdtensor.lower.codegen.base import staged_layouts
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.cpu.interleaved_vectors import interleaved
from mdtensor.lower.codegen.kernel_sequence import LoopNests
from mdtensor.lower.kinds import kind_of, kinds_for
from mdtensor.lower.pass_runner import Pass, run
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.rules.valid import RULES, validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of


def lowered(
    problem: Problem, schedule: Schedule, head: str = "", *, aligned: bool = False
) -> LoopNests:
    """The kernels of a problem, to be run in order with the same arguments.

    Those for `aligned` buffers, which begin at multiples of 16 bytes, may access several elements
    at once. `head` is a comment at the beginning of each. Raises LoweringError where the schedule
    does not fit the problem.
    """
    computed = run(schedule.rewrites(problem), problem)
    kernels = EMIT(computed, schedule, head, aligned=aligned)
    return run(NEST_PASSES, kernels) if asm_of(schedule.asm).vectors else kernels


def _emitted(problem: Problem, schedule: Schedule, head: str, *, aligned: bool) -> LoopNests:
    frame = _frame(problem, schedule, aligned=aligned)
    kernels = kind_of(problem, schedule).emit(frame)
    return tuple(replace(kernel, name=f"kernel_{n}", head=head) for n, kernel in enumerate(kernels))


def _interleaved(kernels: LoopNests) -> LoopNests:
    return tuple(replace(kernel, body=interleaved(kernel.body)) for kernel in kernels)


EMIT = Pass("emit loops", _emitted)
NEST_PASSES = (Pass("interleave vectors", _interleaved),)


def _frame(problem: Problem, schedule: Schedule, *, aligned: bool) -> Frame:
    """Check a schedule; return the tiled problem with the layouts of its staged inputs."""
    validate(problem, schedule)
    rules = dict.fromkeys(rule for kind in kinds_for(schedule.asm) for rule in kind.rules)
    for rule in rules:
        if rule not in RULES:
            rule(problem, schedule)
    tilings = tilings_of(problem, schedule)
    layouts = staged_layouts.layouts_of(problem, schedule, tilings)
    return Frame(problem, schedule, tilings, layouts, aligned)
