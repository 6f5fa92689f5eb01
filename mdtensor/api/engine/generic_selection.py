"""Selection of a general kernel for a shape, and of its number of parts.

A general kernel takes extents, strides and numbers of parts when it is launched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from mdtensor.api.engine.generic_kernels import Decision
from mdtensor.api.engine.kernel_choice import Structures
from mdtensor.api.engine.scratch_bound import fits_scratch_limit
from mdtensor.lower.cpu.cost.cpu_cost import estimate
from mdtensor.lower.cpu.parallelism import best_division, parts_among
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import scattering
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target


def decide(
    structure: Structures, sizes: tuple[int, ...], problem: Problem, target: Target
) -> Decision | None:
    """The decision of the cost model for a shape: the best kernel, and its number of groups.

    None where all kernels take more scratch memory than the shape may have.
    """

    def fits(schedule: Schedule, variant: Schedule) -> bool:
        return serves(structure, sizes, variant, schedule.parts, lambda: problem)

    wholes = [(v, whole) for v in tuple(structure.variants) if fits(whole := _in_one_part(v), v)]
    if not wholes:
        return None
    estimates = [estimate(problem, w, target, general=True) for _, w in wholes]
    serial = min(estimates)
    variant, whole = wholes[estimates.index(serial)]
    seconds, groups, _ = best_division(
        problem,
        whole,
        target,
        _splits_reductions(problem, variant),
        lambda schedule: fits(schedule, variant),
        general=True,
        serial=serial,
    )
    decision = Decision(variant, groups, seconds)
    structure.decide(sizes, decision)
    return decision


def serves(
    structure: Structures,
    sizes: tuple[int, ...],
    variant: Schedule,
    parts: Sequence[int],
    problem: Callable[[], Problem],
) -> bool:
    """Whether a general kernel stays within a shape's limit of scratch memory."""
    source, _ = structure.variants[variant]
    return fits_scratch_limit(source, (*sizes, *launch_sizes(sizes, variant, parts)), problem)


def parts_of(
    structure: Structures, sizes: tuple[int, ...], decision: Decision, target: Target
) -> tuple[int, ...]:
    """The number of parts of each dim that suit a shape, under a decision."""
    variant, general = decision.variant, structure.general
    if decision.groups == 1:
        return (1,) * len(variant.parts)
    return parts_among(
        general,
        variant,
        target,
        decision.groups,
        sizes[: len(variant.parts)],
        split_reductions=_splits_reductions(general, variant),
    )


def spread(
    structure: Structures, sizes: tuple[int, ...], decision: Decision, target: Target
) -> Schedule:
    """The general schedule of a decision, with the parts for a shape."""
    parts = parts_of(structure, sizes, decision, target)
    return replace(decision.variant, parts=parts, inline=decision.groups == 1)


def block_by_block(problem: Problem, variant: Schedule) -> Schedule:
    """A general GPU schedule in which every block of the kept dims is a part."""
    parts = tuple(
        1
        if problem.reduced[d]
        else -(-problem.extent(d) // (variant.registers[d] * variant.threads[d]))
        for d in problem.dims
    )
    return replace(variant, parts=parts)


def without_parts(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule of a general kernel, whose number of parts is set at launch."""
    parts = tuple(0 if not problem.reduced[d] or schedule.parts[d] > 1 else 1 for d in problem.dims)
    general = replace(schedule, parts=parts, inline=False)
    return scattering(problem, general) if schedule.scatter else general


def launch_sizes(sizes: Sequence[int], schedule: Schedule, wanted: Sequence[int]) -> list[int]:
    """The launch-time sizes of a general kernel: blocks per part and parts, of every dim.

    They are those of `lower.schedule.tiling` for a dim of this extent, which the first sizes are.
    """
    lengths: list[int] = []
    parts: list[int] = []
    for d, count in enumerate(wanted):
        blocks = -(-sizes[d] // (schedule.registers[d] * schedule.threads[d]))
        lengths.append(-(-blocks // max(1, count)))
        parts.append(-(-blocks // lengths[d]))
    return [*lengths, *parts]


@lru_cache(1024)
def _in_one_part(schedule: Schedule) -> Schedule:
    """The schedule with one part per dim, inline in the calling thread."""
    return replace(schedule, parts=(1,) * len(schedule.parts), inline=True)


def _splits_reductions(problem: Problem, variant: Schedule) -> bool:
    """Whether a general schedule splits a reduction over groups."""
    return any(variant.parts[d] == 0 for d in problem.contracted)
