"""Registry entry of GPU reductions with register blocking."""

from __future__ import annotations

from functools import partial

from mdtensor.lower.codegen.kernel_sequence import kernels_of
from mdtensor.lower.codegen.register_blocking.register_blocking import REGISTER_BLOCKS
from mdtensor.lower.gpu.base.block_shapes import item_counts
from mdtensor.lower.gpu.base.device_limits import can_stream, shared_dim
from mdtensor.lower.gpu.base.gpu_cost import gpu_estimate
from mdtensor.lower.gpu.base.gpu_kind import RESIDENT, GpuKind, is_plain, named
from mdtensor.lower.gpu.base.open_choices import (
    CHUNKS,
    DEPTHS,
    EITHER,
    NO,
    NONE,
    ONE,
    STAGES,
    Choices,
    Counts,
    by_dim,
    divisors,
    last_dims,
    only,
    parts_along,
    points_along,
    staged_choices,
    swaths_of,
    tails_of,
)
from mdtensor.lower.gpu.register_blocking.gpu_candidates import (
    can_be_resident,
    gpu_candidates,
    ranked_on_gpu,
)
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.rules.register_blocking_rules import validate_resident
from mdtensor.specs import Target


def reduction(problem: Problem, target: Target) -> Choices:
    """The choices of reductions with register blocking."""
    shared = shared_dim(problem)
    among = {d: item_counts(problem.extent(d)) for d in (*problem.kept, shared) if d >= 0}

    def tiles(d: int) -> Counts:
        if not problem.reduced[d] or (problem.keeps_order and d != problem.contracted[0]):
            return NONE
        extent = problem.extent(d)
        return (0, *sorted({n for n in DEPTHS if n <= max(32, extent)} | divisors(extent)))

    counted = target.counts_groups and not problem.keeps_order
    return Choices(
        points=by_dim(problem, lambda d: points_along(problem, d)),
        items=only(problem, among, ONE),
        chunks=by_dim(problem, lambda d: CHUNKS),
        tiles=by_dim(problem, tiles),
        parts=by_dim(problem, lambda d: parts_along(problem, target, d)),
        blocks=by_dim(problem, lambda d: ONE),
        staged=staged_choices(problem),
        last=last_dims(problem),
        stages=STAGES,
        prefetch=True,
        lanes=bool(problem.kept),
        tails=tails_of(problem),
        swaths=swaths_of(problem),
        streaming=EITHER if can_stream(problem) else NO,
        last_group=EITHER if counted else NO,
        clusters=EITHER if target.clusters and counted else NO,
    )


REDUCTION_KIND = GpuKind(  # reductions with accumulators in registers
    name=RESIDENT,
    applies=lambda problem, _: can_be_resident(problem),
    owns=lambda p, s: is_plain(s) and can_be_resident(p),
    space=named(RESIDENT, lambda p, target: reduction(zero_filled(p), target)),
    rules=(validate_resident,),
    cost=gpu_estimate,
    emit=partial(kernels_of, structure=REGISTER_BLOCKS),
    candidates=gpu_candidates,
    best=ranked_on_gpu,
)
