"""The registry of kinds of schedules on a processor."""

from __future__ import annotations

from mdtensor.lower.codegen.kernel_sequence import scattered_kernels, tiled_kernels
from mdtensor.lower.codegen.kind import Kind
from mdtensor.lower.cpu.cost.cpu_cost import estimate
from mdtensor.lower.schedule.default_schedule import can_scatter
from mdtensor.lower.schedule.rules.scatter_rules import validate_scatter

CPU_KINDS = (
    Kind(
        name="scatter",
        applies=lambda problem, _: can_scatter(problem),
        owns=lambda _, schedule: schedule.scatter,
        rules=(validate_scatter,),
        cost=estimate,
        emit=scattered_kernels,
    ),
    Kind(
        name="tiles",
        applies=lambda _problem, _target: True,
        owns=lambda _, schedule: not schedule.scatter,
        rules=(),
        cost=estimate,
        emit=tiled_kernels,
    ),
)
