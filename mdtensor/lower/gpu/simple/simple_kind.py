"""Registry entry of GPU schedules without register blocking."""

from __future__ import annotations

from mdtensor.lower.codegen.kernel_sequence import tiled_kernels
from mdtensor.lower.gpu.base.block_shapes import item_counts
from mdtensor.lower.gpu.base.device_limits import shared_dim
from mdtensor.lower.gpu.base.gpu_cost import gpu_estimate
from mdtensor.lower.gpu.base.gpu_kind import SIMPLE, GpuKind, named
from mdtensor.lower.gpu.base.open_choices import (
    NONE,
    ONE,
    WHOLE,
    Choices,
    by_dim,
    last_dims,
    only,
    parts_along,
    points_along,
    swaths_of,
)
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.rules.valid import validate_work_items
from mdtensor.specs import Target


def simple(problem: Problem, target: Target) -> Choices:
    """The choices of schedules without register blocking."""
    shared = shared_dim(problem)
    among = {d: item_counts(problem.extent(d)) for d in (*problem.kept, shared) if d >= 0}
    return Choices(
        points=by_dim(problem, lambda d: points_along(problem, d)),
        items=only(problem, among, ONE),
        chunks=by_dim(problem, lambda d: (WHOLE,)),
        tiles=by_dim(problem, lambda d: NONE),
        parts=by_dim(problem, lambda d: parts_along(problem, target, d)),
        blocks=by_dim(problem, lambda d: ONE),
        staged=(("",),) * len(problem.streams),
        last=last_dims(problem),
        resident=False,
        swaths=swaths_of(problem),
    )


SIMPLE_KIND = GpuKind(
    name=SIMPLE,
    applies=lambda _problem, _target: True,
    owns=lambda _, s: not (s.resident or s.scatter or s.tensor),
    space=named(SIMPLE, simple),
    rules=(validate_work_items,),
    cost=gpu_estimate,
    emit=tiled_kernels,
)
