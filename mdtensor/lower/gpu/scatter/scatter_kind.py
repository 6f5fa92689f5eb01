"""Registry entries of scatters on GPUs, and the kernels of cooperative ones."""

from __future__ import annotations

from dataclasses import replace

from mdtensor.lower.codegen.base.destinations import Destinations
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.item_numbers import item_numbers
from mdtensor.lower.codegen.kernel_sequence import LoopNests, scattered_in, scattered_kernels
from mdtensor.lower.gpu.base.gpu_cost import gpu_estimate
from mdtensor.lower.gpu.base.gpu_kind import SCATTER, SCATTER_TOGETHER, GpuKind, named
from mdtensor.lower.gpu.base.open_choices import (
    CHUNKS,
    NONE,
    ONE,
    POWERS,
    Choices,
    by_dim,
    only,
    parts_along,
    points_along,
)
from mdtensor.lower.gpu.scatter.cooperative_scatter import scatter_blocks, scatter_memory
from mdtensor.lower.gpu.scatter.scatter_candidates import (
    can_scatter_together,
    scatter_candidates,
    scatter_estimate,
    scattered_dim,
)
from mdtensor.lower.gpu.simple.simple_kind import simple
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.statements import Statement
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import can_scatter
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.rules.register_blocking_rules import validate_resident
from mdtensor.lower.schedule.rules.scatter_rules import validate_scatter
from mdtensor.specs import Target


def scattered(problem: Problem, target: Target) -> Choices:
    """The choices of scatters by single work-items, each into a copy of its own."""
    one = simple(problem, target)
    return replace(
        one,
        points=by_dim(problem, lambda d: one.points[d] if problem.reduced[d] else ONE),
        items=by_dim(problem, lambda d: ONE),
    )


def scattered_together(problem: Problem, target: Target) -> Choices:
    """The choices of cooperative scatters into a group's copy in local memory."""
    d = scattered_dim(problem)
    items = tuple(n for n in POWERS if n >= WARP)
    return Choices(
        points=only(problem, {d: points_along(problem, d)}, ONE),
        items=only(problem, {d: items}, ONE),
        chunks=only(problem, {d: CHUNKS}, ONE),
        tiles=by_dim(problem, lambda d: NONE),
        parts=only(problem, {d: parts_along(problem, target, d)}, ONE),
        blocks=by_dim(problem, lambda d: ONE),
        staged=(("",),) * len(problem.streams),
        last=(True,),
    )


def scattered_together_kernels(frame: Frame) -> LoopNests:
    """A kernel that scatters into one copy per group, and one that combines the copies."""

    def loops(inner: Frame, dim: int, totals: Destinations, _size: Index) -> list[Statement]:
        memory = scatter_memory(inner, dim)
        return [*item_numbers(frame), *memory, *scatter_blocks(inner, dim, totals)]

    return scattered_in(frame, 1, loops)


SCATTER_KIND = GpuKind(
    name=SCATTER,
    applies=lambda problem, _: can_scatter(problem),
    owns=lambda _, s: s.scatter and not s.resident,
    space=named(SCATTER, scattered),
    rules=(validate_scatter,),
    cost=gpu_estimate,
    emit=scattered_kernels,
)

SCATTER_TOGETHER_KIND = GpuKind(
    name=SCATTER_TOGETHER,
    applies=lambda problem, _: can_scatter_together(problem),
    owns=lambda _, s: s.scatter and s.resident,
    space=named(SCATTER_TOGETHER, scattered_together),
    rules=(validate_resident, validate_scatter),
    cost=scatter_estimate,
    emit=scattered_together_kernels,
    candidates=scatter_candidates,
)
