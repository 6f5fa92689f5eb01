"""Reduction over a thread-block cluster: its first group combines the results of all.

The groups of a cluster run at one time and reach each other's local memory. Each leaves its
results in that of the first one, where they are after a barrier of the cluster: nothing of them
goes through memory, and nobody is counted.
"""

from __future__ import annotations

from dataclasses import replace

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.partial_results import Partials, local_name, number_among
from mdtensor.lower.codegen.groups.last_block_reduction import LAST, combined_by_one_group
from mdtensor.lower.ir.group_statements import BeginCluster, ClusterArrive, ClusterLeaderPointer
from mdtensor.lower.ir.index import ZERO, as_index, name
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import Allocate, Statement
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.tiling import DimTiling


def partials_of_cluster(
    problem: Problem, tilings: tuple[DimTiling, ...], partials: Partials
) -> Partials:
    """The partial results in a cluster's distributed shared memory: one block per group."""
    strides = [ZERO] * len(problem.extents)
    size, before = 1, ZERO
    for d in reversed(partials.order):
        strides[d] = as_index(size)
        if tilings[d].is_split:
            before = before + name(tilings[d].var("z")) * tilings[d].part * -size
        size *= tilings[d].block
    return replace(partials, strides=tuple(strides), size=as_index(size), local=True, before=before)


def groups_of(partials: Partials) -> int:
    """Groups of a cluster."""
    count = partials.count.constant
    assert count is not None
    return count


def begun(frame: Frame, partials: Partials) -> tuple[list[Statement], tuple[Destination, ...]]:
    """Declare the destinations of a group's partial results, and signal the cluster's start."""
    number = number_among(frame.tilings, frame.problem.contracted)
    statements: list[Statement] = []
    destinations: list[Destination] = []
    for k, dtype in enumerate(frame.problem.scalar.result_dtypes):
        memory = register_dtype(dtype)
        extent = groups_of(partials) * (partials.size.constant or 1)
        statements.append(Allocate(local_name(k), memory, "local", extent))
        statements.append(ClusterLeaderPointer(f"C{k}", local_name(k), memory))
        offset = number * partials.size + partials.before
        destinations.append(Destination(f"C{k}", memory, partials.strides, offset, False))
    return [*statements, BeginCluster()], tuple(destinations)


def first_of_cluster(frame: Frame, partials: Partials) -> tuple[list[Statement], list[Statement]]:
    """Local arrays, and statements by which the first group combines all partial results."""
    arrays, body = combined_by_one_group(frame, partials)
    number = number_among(frame.tilings, frame.problem.contracted)
    return arrays, [ClusterArrive(LAST, number), body]
