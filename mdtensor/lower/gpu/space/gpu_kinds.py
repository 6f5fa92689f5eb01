"""The registry of kinds of schedules on a GPU.

The search space, the ranking of candidates, the estimates of schedules, and which emitter makes
the kernels, follow from `KINDS`.
"""

from __future__ import annotations

from functools import lru_cache

from mdtensor.lower.gpu.base.gpu_kind import GpuKind
from mdtensor.lower.gpu.base.open_choices import Choices
from mdtensor.lower.gpu.register_blocking.reduction_kind import REDUCTION_KIND
from mdtensor.lower.gpu.scan.scan_kind import GROUP_SCAN_KIND, LOOK_BACK_KIND
from mdtensor.lower.gpu.scatter.scatter_kind import SCATTER_KIND, SCATTER_TOGETHER_KIND
from mdtensor.lower.gpu.simple.simple_kind import SIMPLE_KIND
from mdtensor.lower.gpu.streaming.streaming_kinds import PLANES_KIND, POINTS_KIND
from mdtensor.lower.gpu.tensor_cores.tensor_core_kind import MATRICES_KIND
from mdtensor.lower.gpu.tma.tma_kind import BULK_KIND, name_of_bulk
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# In the order in which the search space has them.
KINDS = (
    SIMPLE_KIND,
    SCATTER_KIND,
    SCATTER_TOGETHER_KIND,
    GROUP_SCAN_KIND,
    LOOK_BACK_KIND,
    REDUCTION_KIND,
    POINTS_KIND,
    PLANES_KIND,
    MATRICES_KIND,
    BULK_KIND,
)


@lru_cache(maxsize=16)
def kinds_of(problem: Problem, target: Target) -> dict[str, Choices]:
    """The choices of all kinds of schedules that apply to a problem of fixed extents, by name."""
    found: dict[str, Choices] = {}
    for kind in KINDS:
        if kind.applies(problem, target):
            found |= kind.space(problem, target)
    return found


def kind_on_gpu(problem: Problem, schedule: Schedule) -> GpuKind:
    """The kind of a schedule."""
    return next(kind for kind in KINDS if kind.owns(problem, schedule))


def name_of_kind(problem: Problem, schedule: Schedule) -> str:
    """The name of a schedule's kind in configurations."""
    kind = kind_on_gpu(problem, schedule)
    return name_of_bulk(problem, schedule) if kind is BULK_KIND else kind.name
