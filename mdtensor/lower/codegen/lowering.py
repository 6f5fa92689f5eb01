"""(Problem, Schedule) -> LoopNests: the one way from a computation to kernels.

One kernel computes a problem alone. Where groups share a reduction, they leave totals, and a second
kernel combines these: it is the lowering of one more problem; or the last group does, or the first
one of a cluster. Where groups share a scanned dim, their totals are scanned before the parts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base import staged_layouts
from mdtensor.lower.codegen.base.destinations import totals_of
from mdtensor.lower.codegen.base.frame import Frame
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
from mdtensor.lower.codegen.cpu.interleaved_vectors import interleaved
from mdtensor.lower.codegen.groups import cluster_reduction
from mdtensor.lower.codegen.groups.last_block_reduction import counters, last_group, united
from mdtensor.lower.codegen.kernel import (
    arguments_of,
    groups_of,
    kernel_of,
    part_bounds,
    size_names,
)
from mdtensor.lower.codegen.register_blocking.register_blocking import item_numbers
from mdtensor.lower.codegen.register_blocking.tensor_core_tile import validate_tensor
from mdtensor.lower.codegen.scan.look_back import counters_of
from mdtensor.lower.codegen.scan.scan_tile import scan_of_partials
from mdtensor.lower.codegen.scan.serial_scan import counters_in_turn, taken_over
from mdtensor.lower.codegen.scatter.cooperative_scatter import scatter_blocks, scatter_memory
from mdtensor.lower.codegen.scatter.scatter import copies, scatter
from mdtensor.lower.codegen.tma.tma_layout import validate_bulk
from mdtensor.lower.codegen.tma.wgmma_store import validate_results
from mdtensor.lower.ir.index import Index, as_index, product
from mdtensor.lower.ir.loop_nest import Argument, LoopNest
from mdtensor.lower.ir.statements import Allocate, Block, Statement
from mdtensor.lower.pass_runner import Pass, run
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scatter_pattern import selected, selecting
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of

LoopNests = tuple[LoopNest, ...]
_COUNTERS = Argument("counters", np.dtype(np.uint32), "counters")


def lowered(
    problem: Problem, schedule: Schedule, head: str = "", *, aligned: bool = False
) -> LoopNests:
    """The kernels of a problem, to be run one after the other with the same arguments.

    Those for `aligned` buffers, which begin at multiples of 16 bytes, may access several elements
    at once. `head` is a comment at the beginning of each. Raises LoweringError where the schedule
    does not fit the problem.
    """
    computed = run(schedule.rewrites(problem), problem)
    kernels = EMIT(computed, schedule, head, aligned=aligned)
    return run(NEST_PASSES, kernels) if asm_of(schedule.asm).vectors else kernels


def _emitted(problem: Problem, schedule: Schedule, head: str, *, aligned: bool) -> LoopNests:
    kernels = _kernels(_frame(problem, schedule, aligned=aligned))
    return tuple(replace(kernel, name=f"kernel_{n}", head=head) for n, kernel in enumerate(kernels))


def _interleaved(kernels: LoopNests) -> LoopNests:
    return tuple(replace(kernel, body=interleaved(kernel.body)) for kernel in kernels)


EMIT = Pass("emit loops", _emitted)
NEST_PASSES = (Pass("interleave vectors", _interleaved),)


def _frame(problem: Problem, schedule: Schedule, *, aligned: bool) -> Frame:
    """Checks a schedule; returns the tiled problem with the layouts of its staged inputs."""
    validate(problem, schedule)
    if schedule.tensor:
        validate_tensor(problem, schedule)
    if schedule.results and not schedule.march:
        validate_results(problem, schedule)
    if schedule.bulk:
        validate_bulk(problem, schedule)
        if not aligned:
            raise LoweringError("bulk copies need arrays that begin at multiples of 16 bytes")
    tilings = tilings_of(problem, schedule)
    layouts = staged_layouts.layouts_of(problem, schedule, tilings)
    return Frame(problem, schedule, tilings, layouts, aligned)


def _kernels(frame: Frame) -> LoopNests:
    if frame.schedule.scatter:
        return _scattered(frame)
    if frame.schedule.resident and frame.problem.scanned >= 0:
        return (_scanned_together(frame),)
    partials = partials_of(frame.problem, frame.schedule, frame.tilings)
    if partials is None:
        return (kernel_of(frame),)
    if frame.problem.scanned >= 0:
        return _scanned_in_parts(frame, partials)
    return _reduced_in_parts(frame, partials)


def _reduced_in_parts(frame: Frame, partials: Partials) -> LoopNests:
    """A split reduction: groups leave partial results, which are combined afterwards."""
    if frame.schedule.cluster:
        partials = cluster_reduction.partials_of_cluster(frame.problem, frame.tilings, partials)
    first = _totals(frame, partials)
    if frame.schedule.last_group:
        return (_counting(_going_on(first, *last_group(frame, partials)), counters(frame)),)
    if frame.schedule.cluster:
        nest = _going_on(first, *cluster_reduction.first_of_cluster(frame, partials))
        return (replace(nest, cluster=cluster_reduction.groups_of(partials)),)
    return first, _second_stage(frame, partials)


def _scanned_in_parts(frame: Frame, partials: Partials) -> LoopNests:
    """A scan in three phases: totals of the parts, a scan of the totals, a scan of each part."""
    first, last = _totals(frame, partials), kernel_of(frame, partials)
    if not frame.schedule.in_turn:
        return first, _between(frame, partials, first), last
    blocks = (first.body, taken_over(frame, partials, part_bounds(frame)), last.body)
    nest = replace(last, body=tuple(map(Block, blocks)), in_order=True)
    return (_counting(nest, counters_in_turn(frame, partials)),)


def _totals(frame: Frame, partials: Partials) -> LoopNest:
    """The kernel in which every group writes the total of its part."""
    part = replace(frame.problem, scanned=-1, finish=None)
    return kernel_of(replace(frame, problem=part), partials)


def _scanned_together(frame: Frame) -> LoopNest:
    """A scan in one kernel: work-items exchange totals, and groups look back."""
    nest = kernel_of(frame)
    if not frame.tilings[frame.problem.scanned].is_split:
        return nest
    return _counting(replace(nest, in_order=True), counters_of(frame))


def _counting(nest: LoopNest, count: Index) -> LoopNest:
    """The kernel with counters as one more argument."""
    return replace(nest, arguments=(*nest.arguments, _COUNTERS), counters=count)


def _going_on(nest: LoopNest, arrays: Sequence[Statement], then: Sequence[Statement]) -> LoopNest:
    """The kernel with more local arrays, and with statements appended."""
    own = [s for s in nest.body if isinstance(s, Allocate)]
    rest = [s for s in nest.body if not isinstance(s, Allocate)]
    return replace(nest, body=(*united([*own, *arrays]), *rest, *then))


def _between(frame: Frame, partials: Partials, first: LoopNest) -> LoopNest:
    """The kernel in which one group scans the totals of all groups."""
    pointers = partials.pointers(frame.problem.scalar.result_dtypes)
    body = (*pointers, *scan_of_partials(frame, partials.count, partials.size))
    return replace(first, threads=1, body=body, groups=as_index(1), scratch=as_index(0))


def _scattered(frame: Frame) -> tuple[LoopNest, LoopNest]:
    """The kernel that scatters into copies, and the one that combines the copies."""
    problem, tilings = frame.problem, frame.tilings
    selection = selected(problem)
    together = frame.schedule.resident
    own = 1 if together else copies(frame)
    count = product((own, *(tilings[d].parts for d in problem.contracted)))
    partials = Partials(count, *dense(problem, problem.kept), problem.kept)
    inner = replace(frame, problem=selecting(problem, selection))
    order = frame.schedule.group_order
    group = number_among(tilings, problem.contracted)
    pointers, totals = totals_of(frame, partials, group * own)
    body: list[Statement] = [*group_bounds(tilings, order), *pointers]
    if together:
        body += [*item_numbers(frame), *scatter_memory(inner, selection.dim)]
        body += scatter_blocks(inner, selection.dim, totals)
    else:
        body += cache_tiles(
            tilings, order, lambda _level: scatter(inner, selection.dim, totals, partials.size)
        )
    first = LoopNest(
        "kernel_0",
        arguments_of(problem),
        size_names(problem),
        frame.items,
        tuple(body),
        groups_of(frame),
        partials.nbytes * len(totals),
        stores_in_loops=not together,
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
    nest = kernel_of(Frame(second, plain, tilings_of(second, plain), {}, of.aligned))
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
