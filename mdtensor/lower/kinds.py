"""The registry of kinds of schedules of every device, by machine model."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.lower.codegen.kind import Kind
from mdtensor.lower.cpu.cpu_kinds import CPU_KINDS
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.schedule import Schedule


def kinds_for(asm: str) -> Sequence[Kind]:
    """The kinds of a machine model. First calls on processors do without modules for GPUs."""
    if not asm_of(asm).cooperative:
        return CPU_KINDS
    from mdtensor.lower.gpu.space.gpu_kinds import KINDS

    return KINDS


def kind_of(problem: Problem, schedule: Schedule) -> Kind:
    """The kind of a schedule."""
    return next(kind for kind in kinds_for(schedule.asm) if kind.owns(problem, schedule))
