"""The search space of a problem's schedules on a target, as constrained parameters.

Parameters carry their constraints beside them: those of the formalism, and those that a target
imposes (002, appendix .5.1). A configuration of the space encodes a Schedule.
"""

from __future__ import annotations

from collections.abc import Mapping

from mdtensor.lower.cpu.cpu_configurations import configuration_on_cpu, schedule_on_cpu
from mdtensor.lower.cpu.cpu_space import cpu_parameters
from mdtensor.lower.gpu.space.gpu_configurations import configuration_on_gpu, schedule_on_gpu
from mdtensor.lower.gpu.space.gpu_space import gpu_parameters
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.parameter import SpaceParameter, Value
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target


def parameters_of(problem: Problem, target: Target) -> tuple[SpaceParameter, ...]:
    """The parameters of a problem with fixed extents, for the Space that a search walks."""
    parameters = gpu_parameters if target.kind == "gpu" else cpu_parameters
    return parameters(problem, target)


def schedule_from(problem: Problem, target: Target, configuration: Mapping[str, Value]) -> Schedule:
    """Decode a configuration as a schedule."""
    if target.kind == "gpu":
        return schedule_on_gpu(problem, target, configuration)
    return schedule_on_cpu(problem, configuration)


def configuration_from(problem: Problem, schedule: Schedule) -> dict[str, Value]:
    """Encode a schedule as a configuration; a space repairs values outside it."""
    if schedule.asm == "gpu":
        return configuration_on_gpu(problem, schedule)
    return configuration_on_cpu(problem, schedule)
