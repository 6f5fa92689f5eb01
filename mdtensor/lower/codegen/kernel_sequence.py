"""The sequence of kernels that computes a problem.

One kernel computes a problem alone. Where groups share a reduction, they leave totals, and a second
kernel combines these: it is the lowering of one more problem; or the last group does, or the first
one of a cluster. Where groups share a scanned dim, their totals are scanned before the parts are.
Emitters that few kernels need are loaded when they are needed: first calls wait for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.lower.codegen.base.destinations import Destinations, totals_of
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.loop_structure import LoopStructure
from mdtensor.lower.codegen.base.partial_results import (
    Partials,
    by_a_kernel,
    combination,
    dense,
    number_among,
    partials_of,
    shared_out,
    sources,
)
from mdtensor.lower.codegen.base.partition import cache_tiles, group_bounds
from mdtensor.lower.codegen.cpu.tiled_loops import TILED
from mdtensor.lower.codegen.kernel import (
    arguments_of,
    groups_of,
    kernel_of,
    part_bounds,
    size_names,
)
from mdtensor.lower.ir.index import Index, as_index, product
from mdtensor.lower.ir.loop_nest import Argument, LoopNest
from mdtensor.lower.ir.statements import Allocate, Block, Statement
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scatter_pattern import selected, selecting
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of

LoopNests = tuple[LoopNest, ...]
_COUNTERS = Argument("counters", np.dtype(np.uint32), "counters")


def kernels_of(frame: Frame, structure: LoopStructure) -> LoopNests:
    """The kernels of a problem whose groups may share a reduction."""
    partials = partials_of(frame.problem, frame.schedule, frame.tilings)
    if partials is None:
        return (kernel_of(frame, structure),)
    return _reduced_in_parts(frame, structure, partials)


def tiled_kernels(frame: Frame) -> LoopNests:
    """The kernels of a tiled problem whose groups may share a reduction or a scan."""
    partials = partials_of(frame.problem, frame.schedule, frame.tilings)
    if partials is None or frame.problem.scanned < 0:
        return kernels_of(frame, TILED)
    return _scanned_in_parts(frame, partials)


def scattered_kernels(frame: Frame) -> LoopNests:
    """A kernel that scatters into each group's copies, and one that combines the copies."""
    from mdtensor.lower.codegen.scatter.scatter import copies, scatter

    tilings, order = frame.tilings, frame.schedule.group_order

    def body(inner: Frame, dim: int, totals: Destinations, size: Index) -> list[Statement]:
        return cache_tiles(tilings, order, lambda _level: scatter(inner, dim, totals, size))

    return scattered_in(frame, copies(frame), body)


def _reduced_in_parts(frame: Frame, structure: LoopStructure, partials: Partials) -> LoopNests:
    """A split reduction: groups leave partial results, which are combined afterwards."""
    unfinished = replace(frame, problem=_unfinished(frame.problem))
    if frame.schedule.cluster:
        from mdtensor.lower.codegen.groups import cluster_reduction

        partials = cluster_reduction.partials_of_cluster(frame.problem, frame.tilings, partials)
        first = kernel_of(unfinished, structure, partials)
        nest = _going_on(first, *cluster_reduction.first_of_cluster(frame, partials))
        return (replace(nest, cluster=cluster_reduction.groups_of(partials)),)
    first = kernel_of(unfinished, structure, partials)
    if frame.schedule.last_group:
        from mdtensor.lower.codegen.groups.last_block_reduction import counters, last_group

        return (counting(_going_on(first, *last_group(frame, partials)), counters(frame)),)
    return first, _second_stage(frame, partials)


def _scanned_in_parts(frame: Frame, partials: Partials) -> LoopNests:
    """A scan in three phases: totals of the parts, a scan of the totals, a scan of each part."""
    totals = replace(frame, problem=_unfinished(frame.problem))
    first, last = kernel_of(totals, TILED, partials), kernel_of(frame, TILED, partials)
    if not frame.schedule.in_turn:
        return first, _between(frame, partials, first), last
    from mdtensor.lower.codegen.scan.serial_scan import counters_in_turn, taken_over

    blocks = (first.body, taken_over(frame, partials, part_bounds(frame)), last.body)
    nest = replace(last, body=tuple(map(Block, blocks)), in_order=True)
    return (counting(nest, counters_in_turn(frame, partials)),)


def _unfinished(problem: Problem) -> Problem:
    """A problem without its scan and epilogue: a group's partial reduction."""
    return replace(problem, scanned=-1, finish=None)


def counting(nest: LoopNest, count: Index) -> LoopNest:
    """The kernel with an argument for counters added."""
    return replace(nest, arguments=(*nest.arguments, _COUNTERS), counters=count)


def _going_on(nest: LoopNest, arrays: Sequence[Statement], then: Sequence[Statement]) -> LoopNest:
    """The kernel with local arrays added and statements appended."""
    from mdtensor.lower.codegen.groups.last_block_reduction import united

    own = [s for s in nest.body if isinstance(s, Allocate)]
    rest = [s for s in nest.body if not isinstance(s, Allocate)]
    return replace(nest, body=(*united([*own, *arrays]), *rest, *then))


def _between(frame: Frame, partials: Partials, first: LoopNest) -> LoopNest:
    """The kernel in which one group scans the totals of all groups."""
    from mdtensor.lower.codegen.scan.scan_tile import scan_of_partials

    pointers = partials.pointers(frame.problem.scalar.result_dtypes)
    body = (*pointers, *scan_of_partials(frame, partials.count, partials.size))
    return replace(first, threads=1, body=body, groups=as_index(1), scratch=as_index(0))


def scattered_in(
    frame: Frame,
    own: int,
    loops: Callable[[Frame, int, Destinations, Index], list[Statement]],
) -> LoopNests:
    """Two kernels: groups scatter into `own` copies each by `loops`, the second combines copies."""
    problem, tilings, schedule = frame.problem, frame.tilings, frame.schedule
    selection = selected(problem)
    count = product((own, *(tilings[d].parts for d in problem.contracted)))
    partials = Partials(count, *dense(problem, problem.kept), problem.kept)
    inner = replace(frame, problem=selecting(problem, selection))
    group = number_among(tilings, problem.contracted)
    pointers, totals = totals_of(frame, partials, group * own)
    body = loops(inner, selection.dim, totals, partials.size)
    first = LoopNest(
        "kernel_0",
        arguments_of(problem),
        size_names(problem),
        frame.items,
        (*group_bounds(tilings, schedule.group_order), *pointers, *body),
        groups_of(frame),
        partials.nbytes * len(totals),
        stores_in_loops=not schedule.resident,
    )
    return first, _second_stage(frame, partials)


def _second_stage(of: Frame, partials: Partials) -> LoopNest:
    """A kernel that combines the partial results of groups."""
    problem, schedule = of.problem, of.schedule
    second = combination(problem, partials)
    plain = by_a_kernel(second, schedule)
    if asm_of(schedule.asm).cooperative:
        plain = shared_out(second, plain)
    validate(second, plain)
    structure = _structure_of(plain)
    nest = kernel_of(Frame(second, plain, tilings_of(second, plain), {}, of.aligned), structure)
    renamed = tuple(
        replace(argument, name=f"given_{argument.name}") if argument.role == "input" else argument
        for argument in arguments_of(problem)
    )
    return replace(
        nest,
        arguments=renamed,
        sizes=size_names(problem),
        body=(*sources(problem, partials), *nest.body),
        scratch=as_index(0),
    )


def _structure_of(schedule: Schedule) -> LoopStructure:
    """The loop structure of a reduction that is not split among groups."""
    if not schedule.resident:
        return TILED
    from mdtensor.lower.codegen.register_blocking.register_blocking import REGISTER_BLOCKS

    return REGISTER_BLOCKS
