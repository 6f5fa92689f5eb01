"""(Problem, Schedule) -> LoopNests: the one way from a computation to kernels.

The order is: groups and cache tiles, staging after the innermost tile loop that an input depends
on, loops over register tiles with what remains of each dim, the register tile itself, the write.
Where groups share a reduction, a second nest combines their results: it is the lowering of one
more problem.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.lower.any_alignment import for_any_alignment
from mdtensor.lower.asm import asm_of
from mdtensor.lower.index import Index, as_index, name, total
from mdtensor.lower.nest import (
    Allocate,
    Argument,
    Block,
    If,
    IndexCalc,
    LetIndex,
    Loop,
    LoopNest,
    Pointer,
    Statement,
    Step,
    register_dtype,
)
from mdtensor.lower.partial_results import (
    CELL,
    Partials,
    by_a_kernel,
    combination,
    dense,
    number_among_groups,
    partials_of,
    shared_out,
    sources,
)
from mdtensor.lower.passes import stage_inputs
from mdtensor.lower.passes.bulk_form import validate_bulk
from mdtensor.lower.passes.bulk_results import validate_results
from mdtensor.lower.passes.bulk_tiles import WARP, bulk_tiles, maps_of
from mdtensor.lower.passes.cluster import (
    begun,
    first_of_cluster,
    groups_of,
    partials_of_cluster,
)
from mdtensor.lower.passes.frame import Frame, powers_of_two, tile_of
from mdtensor.lower.passes.last_group import counters, last_group, united
from mdtensor.lower.passes.look_back import counters_of
from mdtensor.lower.passes.matrix_tile import validate_tensor
from mdtensor.lower.passes.micro_kernel import compute_tile
from mdtensor.lower.passes.partition import cache_tiles, group_bounds, tiles_before
from mdtensor.lower.passes.peel_rows import peeled_loops
from mdtensor.lower.passes.pointwise import pointwise_tiles
from mdtensor.lower.passes.resident import item_numbers, resident_memory, resident_tiles
from mdtensor.lower.passes.scan_in_turn import counters_in_turn, taken_over
from mdtensor.lower.passes.scan_tile import scan_of_partials, scan_tile
from mdtensor.lower.passes.scan_together import scan_blocks, scan_memory
from mdtensor.lower.passes.scatter import copies, scatter
from mdtensor.lower.passes.scatter_together import scatter_blocks, scatter_memory
from mdtensor.lower.passes.write_outputs import Destination, item_turns, shared_memory, write_tile
from mdtensor.lower.problem import Problem
from mdtensor.lower.rules.valid import validate
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.selection import selecting, selection_of
from mdtensor.lower.tiling import DimTiling, tilings_of

_COUNTERS = Argument("counters", np.dtype(np.uint32), "counters")


def lowered(
    problem: Problem, schedule: Schedule, head: str = "", *, aligned: bool = False
) -> tuple[LoopNest, ...]:
    """The kernels of a problem, to be run one after the other with the same arguments.

    Those for `aligned` buffers, which begin at multiples of 16 bytes, may access several elements
    at once. Raises LoweringError where the schedule does not fit the problem.
    """
    guarded, problem = problem, schedule.computed(problem)
    validate(problem, schedule)
    if schedule.tensor:
        validate_tensor(problem, schedule)
    if schedule.results and not schedule.march:
        validate_results(problem, schedule)
    if schedule.bulk:
        validate_bulk(problem, schedule)
        if not aligned:
            schedule = for_any_alignment(guarded, schedule)
            problem = schedule.computed(guarded)
    tilings = tilings_of(problem, schedule)
    layouts = stage_inputs.layouts_of(problem, schedule, tilings)
    frame = Frame(problem, schedule, tilings, layouts, aligned)
    if schedule.scatter:
        return _scattered(frame, head)
    if schedule.resident and problem.scanned >= 0:
        return (_scanned_together(frame, head),)
    partials = partials_of(problem, schedule, tilings)
    if partials is None:
        return (_nest(frame, None, head),)
    if schedule.cluster:
        partials = partials_of_cluster(problem, tilings, partials)
    of_part = replace(frame, problem=replace(problem, scanned=-1, finish=None))
    first = _nest(of_part, partials, head)
    if schedule.last_group:
        return (_finished_by_last_group(frame, partials, first),)
    if schedule.cluster:
        nest = _with_arrays(first, *first_of_cluster(frame, partials))
        return (replace(nest, cluster=groups_of(partials)),)
    if problem.scanned < 0:
        return first, _second_stage(frame, partials, head)
    if schedule.in_turn:
        return (_scanned_in_turn(frame, partials, first),)
    between = _between(frame, partials, first)
    return first, between, replace(_nest(frame, partials, head), name="kernel_2")


def _scanned_together(frame: Frame, head: str) -> LoopNest:
    """The kernel of a scan whose work-items exchange totals, and whose groups tell each other."""
    nest = _nest(frame, None, head)
    if not frame.tilings[frame.problem.scanned].is_split:
        return nest
    return replace(
        nest,
        arguments=(*nest.arguments, _COUNTERS),
        counters=counters_of(frame),
        in_order=True,
    )


def _scanned_in_turn(frame: Frame, partials: Partials, first: LoopNest) -> LoopNest:
    """The kernel whose groups have their totals, take over what comes before, and scan."""
    schedule, last = frame.schedule, _nest(frame, partials, first.head)
    bounds = group_bounds(frame.tilings, schedule.group_order, schedule.swath, _swathed(frame))
    blocks = (first.body, taken_over(frame, partials, bounds), last.body)
    return replace(
        last,
        arguments=(*last.arguments, _COUNTERS),
        body=tuple(map(Block, blocks)),
        counters=counters_in_turn(frame, partials),
        in_order=True,
    )


def _finished_by_last_group(frame: Frame, partials: Partials, first: LoopNest) -> LoopNest:
    """The kernel whose groups leave partial results, and whose last ones combine them."""
    nest = _with_arrays(first, *last_group(frame, partials))
    return replace(nest, arguments=(*first.arguments, _COUNTERS), counters=counters(frame))


def _with_arrays(
    nest: LoopNest, arrays: Sequence[Statement], statements: Sequence[Statement]
) -> LoopNest:
    """A kernel with more arrays at its beginning, and statements at its end."""
    own = [s for s in nest.body if isinstance(s, Allocate)]
    rest = [s for s in nest.body if not isinstance(s, Allocate)]
    return replace(nest, body=(*united([*own, *arrays]), *rest, *statements))


def _scattered(frame: Frame, head: str) -> tuple[LoopNest, LoopNest]:
    """A kernel that goes to the selected points, and one that combines the groups' copies."""
    problem, tilings = frame.problem, frame.tilings
    selection = selection_of(problem)
    assert selection is not None
    together, own = frame.schedule.resident, 1 if frame.schedule.resident else copies(frame)
    count = as_index(own)
    for d in problem.contracted:
        count = count * tilings[d].parts
    strides, size = dense(problem, problem.kept)
    partials = Partials(count, strides, size, problem.kept)
    inner = replace(frame, problem=selecting(problem, selection))
    order = frame.schedule.group_order
    body: list[Statement] = group_bounds(tilings, order)
    group = number_among_groups(problem, tilings)
    destinations: list[Destination] = []
    for k, dtype in enumerate(problem.scalar.result_dtypes):
        memory = register_dtype(dtype)
        body.append(partials.pointer(k, memory, const=False))
        destinations.append(Destination(f"R{k}", memory, strides, group * own * size, False))

    def inside(_level: int) -> list[Statement]:
        return scatter(inner, selection.dim, destinations, size)

    if together:
        body += [*item_numbers(frame), *scatter_memory(inner, selection.dim)]
        body += scatter_blocks(inner, selection.dim, destinations)
    else:
        body += cache_tiles(tilings, order, inside)
    groups = as_index(1)
    for tiling in tilings:
        groups = groups * tiling.parts
    first = LoopNest(
        "kernel_0",
        _arguments(problem),
        _size_names(frame),
        frame.items,
        tuple(body),
        groups,
        count * size * (CELL * len(destinations)),
        head,
        stores_in_loops=not together,
    )
    return first, _second_stage(frame, partials, head)


def _between(frame: Frame, partials: Partials, first: LoopNest) -> LoopNest:
    """One group scans the totals of all groups."""
    types = frame.problem.scalar.result_dtypes
    pointers: list[Statement] = [
        partials.pointer(k, register_dtype(dtype), const=False) for k, dtype in enumerate(types)
    ]
    body = (*pointers, *scan_of_partials(frame, partials.count, partials.size))
    return replace(
        first, name="kernel_1", threads=1, body=body, groups=as_index(1), scratch=as_index(0)
    )


def _nest(frame: Frame, partials: Partials | None, head: str) -> LoopNest:
    problem, schedule, tilings = frame.problem, frame.schedule, frame.tilings
    order = schedule.group_order
    items = math.prod(schedule.threads)
    numbered = schedule.numbered(problem)
    body: list[Statement] = group_bounds(tilings, numbered, schedule.swath, _swathed(frame))
    body += item_numbers(frame) if schedule.resident else _item_numbers(frame, items)
    destinations, carries = _destinations(frame, partials, body)
    offset = partials.nbytes * len(problem.scalar.results) if partials else 0
    if schedule.resident and problem.scanned >= 0:
        body += scan_memory(frame)
    elif schedule.resident and problem.contracted:
        body += resident_memory(frame)
    elif not schedule.resident:
        body += shared_memory(frame) + item_turns(frame)
    staged, per_group = _declare_staged(frame, as_index(offset))
    body += staged
    earlier = tiles_before(tilings, problem.contracted)
    tiled = [d for d in order if tilings[d].tile]

    def inside(level: int) -> list[Statement]:
        statements: list[Statement] = []
        for number, layout in frame.layouts.items():
            if _depth(frame, number, tiled) == level:
                statements += stage_inputs.copy(layout, problem, schedule, tilings)
        if level == len(tiled):
            finish = _Finish(destinations, carries, earlier)
            statements += _register_tiles(frame, 0, {}, finish)
        return statements

    if schedule.resident and problem.scanned >= 0:
        body += scan_blocks(frame, destinations)
    elif schedule.resident and not problem.contracted:
        body += pointwise_tiles(frame, destinations, items)
    elif schedule.bulk:
        body += bulk_tiles(frame, destinations)
    elif schedule.resident:
        body += resident_tiles(frame, destinations)
    else:
        body += cache_tiles(tilings, order, inside)
    groups = as_index(1)
    for tiling in tilings:
        groups = groups * tiling.parts
    return LoopNest(
        "kernel_0",
        _arguments(problem),
        _size_names(frame),
        items + (WARP if schedule.bulk else 0),
        tuple(body),
        groups,
        as_index(offset) + per_group * groups,
        head,
        maps=maps_of(frame) if schedule.bulk else (),
        stores_in_loops=not schedule.resident,
    )


def _swathed(frame: Frame) -> tuple[int, int] | None:
    """The kept dims whose parts are walked in swaths: the innermost neighbours of the order."""
    split = [d for d in frame.schedule.numbered(frame.problem) if frame.tilings[d].is_split]
    pairs = [p for p in itertools.pairwise(split) if not any(frame.problem.reduced[d] for d in p)]
    return pairs[-1] if pairs and frame.schedule.swath > 1 else None


def _depth(frame: Frame, number: int, tiled: Sequence[int]) -> int:
    """After how many of the tile loops a stream's tile is known: the hoisted place of its copy."""
    stream = frame.problem.streams[number]
    return max((n + 1 for n, d in enumerate(tiled) if stream.uses(d)), default=0)


def _arguments(problem: Problem) -> tuple[Argument, ...]:
    inputs = [Argument(f"I{n}", dtype, "input") for n, dtype in enumerate(problem.inputs)]
    outputs = [Argument(f"O{n}", dtype, "output") for n, dtype in enumerate(problem.outputs)]
    return (*inputs, *outputs, Argument("scratch", np.dtype(np.uint8), "scratch"))


def _size_names(frame: Frame) -> tuple[str, ...]:
    """Names of the run-time sizes, in the order in which the launch passes them."""
    if not frame.problem.is_general:
        return ()
    names = list(frame.problem.sizes)
    names += [tiling.var("B") for tiling in frame.tilings]
    names += [tiling.var("P") for tiling in frame.tilings]
    return tuple(names)


def _item_numbers(frame: Frame, items: int) -> list[Statement]:
    """Declares `x_d`, the work-item's number along each dim, the last dim fastest."""
    if items == 1:
        return []
    statements: list[Statement] = []
    rest = name("item")
    for d in reversed(frame.schedule.group_order):
        tiling = frame.tilings[d]
        if tiling.threads == 1:
            continue
        threads = as_index(tiling.threads)
        statements.append(LetIndex(tiling.var("x"), IndexCalc("%", rest, threads)))
        quotient = tiling.var("y")
        statements.append(LetIndex(quotient, IndexCalc("/", rest, threads)))
        rest = name(quotient)
    return statements


def _destinations(
    frame: Frame, partials: Partials | None, body: list[Statement]
) -> tuple[tuple[Destination, ...], tuple[Destination, ...]]:
    """Where results go, and where the carries of a scan come from."""
    problem = frame.problem
    outputs = tuple(
        Destination(
            f"O{write.buffer}",
            problem.outputs[write.buffer],
            write.strides,
            as_index(write.offset),
            frame.schedule.streaming,
        )
        for write in problem.writes
    )
    if partials is None:
        return outputs, ()
    if partials.local:
        first, found = begun(frame, partials)
        body += first
        return found, ()
    group = number_among_groups(problem, frame.tilings)
    left: list[Destination] = []
    for position, dtype in enumerate(problem.scalar.result_dtypes):
        memory = register_dtype(dtype)
        body.append(partials.pointer(position, memory, const=False))
        offset = group * partials.size
        left.append(Destination(f"R{position}", memory, partials.strides, offset, False))
    return (tuple(left), ()) if problem.scanned < 0 else (outputs, tuple(left))


def _declare_staged(frame: Frame, offset: Index) -> tuple[list[Statement], Index]:
    """Declares the staged tiles; returns the bytes of scratch memory that one group needs."""
    statements: list[Statement] = []
    sizes = {
        number: layout.size * layout.memory.itemsize
        for number, layout in frame.layouts.items()
        if layout.region == "scratch"
    }
    pad = stage_inputs.ALIGNMENT
    rounded = {number: _rounded(size, pad) for number, size in sizes.items()}
    per_group = total(rounded.values())
    start = _rounded(offset, pad) + per_group * name("group")
    for number, layout in frame.layouts.items():
        statements += stage_inputs.declare(layout, start)
        if number in rounded:
            start = start + rounded[number]
    return statements, per_group + (pad if offset.terms else 0)


def _rounded(size: Index, multiple: int) -> Index:
    constant = size.constant
    if constant is None:
        return size * 1 + multiple if any(c % multiple for _, c in size.terms) else size
    return as_index(-(-constant // multiple) * multiple)


@dataclass(frozen=True, slots=True)
class _Finish:
    """What is done with a register tile: where it goes, and what it continues."""

    destinations: tuple[Destination, ...]
    carries: tuple[Destination, ...]
    earlier: Index


def _register_tiles(
    frame: Frame, level: int, counts: dict[int, int], finish: _Finish
) -> list[Statement]:
    """The loops over register tiles of the kept dims from `level` on, and what remains of each."""
    order = frame.schedule.loop_order
    if level == len(order):
        tile = tile_of(frame, counts)
        pointers: list[Statement] = []
        destinations = _placed(frame, finish.destinations, "o", pointers)
        if frame.problem.scanned >= 0:
            carries = _placed(frame, finish.carries, "carry", pointers)
            return [*pointers, *scan_tile(frame, tile, destinations, carries)]
        statements = compute_tile(frame, tile)
        return [*pointers, *statements, *write_tile(frame, tile, destinations, finish.earlier)]
    d = order[level]
    tiling = frame.tilings[d]

    def inner(count: int) -> tuple[Statement, ...]:
        return tuple(_register_tiles(frame, level + 1, {**counts, d: count}, finish))

    if frame.schedule.peel and d == frame.schedule.lane:
        return peeled_loops(frame, finish.destinations[0], inner)
    return _tile_loops(frame, d, tiling, inner)


def _placed(
    frame: Frame, destinations: Sequence[Destination], prefix: str, pointers: list[Statement]
) -> list[Destination]:
    """The destinations at the first point of a register tile."""
    placed: list[Destination] = []
    for k, destination in enumerate(destinations):
        offset = destination.offset + total(
            destination.strides[d] * name(frame.tilings[d].var("r")) for d in frame.problem.kept
        )
        pointer = f"{prefix}{k}"
        source, memory = destination.pointer, destination.memory
        pointers.append(Pointer(pointer, source, memory, "global", offset, False))
        placed.append(replace(destination, pointer=pointer))
    return placed


def _tile_loops(
    frame: Frame, d: int, tiling: DimTiling, inner: Callable[[int], tuple[Statement, ...]]
) -> list[Statement]:
    var, end = tiling.var("r"), name(tiling.var("e"))
    start = name(tiling.var("t"))
    if tiling.threads > 1:
        start = start + name(tiling.var("x")) * tiling.register
    extent, register = tiling.extent.constant, tiling.register
    if extent is not None and extent < register:
        return [LetIndex(var, start), *_guarded(tiling, var, end, inner(extent))]
    statements: list[Statement] = [LetIndex(var, start, mutable=True)]
    stop = end + (tiling.block - register)
    statements.append(Loop(var, None, stop, as_index(tiling.block), inner(register)))
    if tiling.remainder is not None:
        if tiling.remainder:
            # "var < end" says the same, but Intel's compiler was seen to store in wrong places
            # then, where the loop before ran once or not at all.
            rest = name(var) + tiling.remainder
            statements.append(If(rest, "<=", end, inner(tiling.remainder)))
        return statements
    if register == 1:
        return statements
    width = frame.schedule.width if d == frame.schedule.lane else 1
    if register > width > 1:
        statements.append(Loop(var, None, end, as_index(width), inner(width)))
    largest = width if width > 1 else 1 << (register - 1).bit_length()
    for _, length in powers_of_two(largest - 1, largest):
        step: Statement = Step(var, length)
        statements.append(If(name(var) + length, "<=", end, (*inner(length), step)))
    return statements


def _guarded(
    tiling: DimTiling, var: str, end: Index, body: tuple[Statement, ...]
) -> list[Statement]:
    return list(body) if tiling.threads == 1 else [If(name(var), "<", end, body)]


def _second_stage(of: Frame, partials: Partials, head: str) -> LoopNest:
    """A kernel that combines the partial results of groups."""
    problem, schedule = of.problem, of.schedule
    second = combination(problem, partials)
    plain = by_a_kernel(second, schedule)
    if asm_of(schedule.asm).cooperative:
        plain = shared_out(second, plain)
    validate(second, plain)
    frame = Frame(second, plain, tilings_of(second, plain), {}, of.aligned)
    nest = _nest(frame, None, head)
    first = _arguments(problem)
    if not first:
        raise LoweringError("a problem without arguments")
    renamed = tuple(
        replace(argument, name=f"given_{argument.name}") if argument.role == "input" else argument
        for argument in first
    )
    sizes = (
        ()
        if not problem.is_general
        else (
            *problem.sizes,
            *(f"B_{label}" for label in problem.labels),
            *(f"P_{label}" for label in problem.labels),
        )
    )
    return replace(
        nest,
        name="kernel_1",
        arguments=renamed,
        sizes=sizes,
        body=(*sources(problem, partials), *nest.body),
        scratch=as_index(0),
    )
