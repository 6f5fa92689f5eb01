"""Registry entries of the GPU kinds without a reduction."""

from __future__ import annotations

from functools import partial

from mdtensor.lower.codegen.kernel_sequence import kernels_of
from mdtensor.lower.gpu.base.block_shapes import item_counts
from mdtensor.lower.gpu.base.device_limits import can_stream
from mdtensor.lower.gpu.base.gpu_kind import PLANES, RESIDENT, GpuKind, is_plain, named
from mdtensor.lower.gpu.base.open_choices import (
    CHUNKS,
    EITHER,
    NO,
    NONE,
    ONE,
    YES,
    Choices,
    by_dim,
    only,
    points_along,
    staged_choices,
    swaths_of,
)
from mdtensor.lower.gpu.streaming.plane_candidates import plane_estimate
from mdtensor.lower.gpu.streaming.plane_resources import streamed_bytes, streams_planes
from mdtensor.lower.gpu.streaming.planes import plane_dim
from mdtensor.lower.gpu.streaming.pointwise import POINTWISE
from mdtensor.lower.gpu.streaming.pointwise_candidates import (
    point_candidates,
    point_estimate,
    shares_along,
)
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.rules.register_blocking_rules import validate_resident
from mdtensor.specs import Target

_BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128)  # of a group without a reduction
_PLANES = (2, 3, 4, 5, 6, 7, 8)  # that are computed with, and on their way
_MARCHED = (8, 16, 32, 64, 128, 256, 512)  # planes of a group


def points(problem: Problem) -> Choices:
    """The choices of pointwise problems."""
    return Choices(
        points=by_dim(problem, lambda d: points_along(problem, d)),
        items=by_dim(problem, lambda d: item_counts(problem.extent(d))),
        chunks=by_dim(problem, lambda d: CHUNKS),
        tiles=by_dim(problem, lambda d: NONE),
        parts=by_dim(problem, lambda d: ONE),
        blocks=by_dim(problem, lambda d: _BLOCKS),
        staged=staged_choices(problem),
        last=NO,
        lanes=bool(problem.kept),
        leads=True,
        tails=("overlap", "split"),
        swaths=swaths_of(problem),
        streaming=EITHER if can_stream(problem) else NO,
        marches=EITHER if any(shares_along(problem, d) for d in problem.kept) else NO,
    )


def planes(problem: Problem, target: Target) -> Choices:
    """The choices of 2.5-D streaming with prefetched planes."""
    d = plane_dim(problem)
    others = [e for e in problem.dims if e != d]
    return Choices(
        points=only(problem, {e: points_along(problem, e) for e in others}, ONE),
        items=only(problem, {e: item_counts(problem.extent(e)) for e in others}, ONE),
        chunks=only(problem, dict.fromkeys(others, CHUNKS), ONE),
        tiles=by_dim(problem, lambda d: NONE),
        parts=by_dim(problem, lambda d: ONE),
        blocks=only(problem, {d: _MARCHED}, ONE),
        staged=(("local",),) * len(problem.streams),
        last=NO,
        padding=NONE,
        as_source=NO,
        stages=_PLANES,
        tails=("overlap", "split"),
        swaths=swaths_of(problem),
        results=("", "local") if target.bulk_copies else ("",),
        marches=YES,
    )


def _has_planes(problem: Problem, _: Target) -> bool:
    shares = not problem.contracted and plane_dim(problem) >= 0
    return shares and any(shares_along(problem, d) for d in problem.kept)


POINTS_KIND = GpuKind(  # points that share what they read
    name=RESIDENT,
    applies=lambda problem, _: not problem.contracted,
    owns=lambda p, s: is_plain(s) and not p.contracted and not streams_planes(s),
    space=named(RESIDENT, lambda problem, _: points(problem)),
    rules=(validate_resident,),
    cost=point_estimate,
    emit=partial(kernels_of, structure=POINTWISE),
    candidates=point_candidates,
    local=streamed_bytes,
)

PLANES_KIND = GpuKind(
    name=PLANES,
    applies=_has_planes,
    owns=lambda p, s: is_plain(s) and not p.contracted and streams_planes(s),
    space=named(PLANES, planes),
    rules=(validate_resident,),
    cost=plane_estimate,
    emit=partial(kernels_of, structure=POINTWISE),
    candidates=point_candidates,
    local=streamed_bytes,
)
