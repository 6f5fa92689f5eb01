"""Schedules worth considering for a problem on a target: where untuned calls and searches start.

Every candidate is made from the strides of the accesses and the facts of the target; no shape of
computation has a candidate of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.lower.cost import bytes_moved, estimate, reads_around
from mdtensor.lower.gpu_candidates import misfit, ranked_on_gpu
from mdtensor.lower.gpu_cost import gpu_estimate
from mdtensor.lower.gpu_points import point_estimate, ranked_points
from mdtensor.lower.gpu_scans import ranked_scans, scan_estimate
from mdtensor.lower.gpu_scatters import ranked_scatters, scatter_estimate
from mdtensor.lower.index import as_index
from mdtensor.lower.lanes import most_lanes
from mdtensor.lower.nest import register_dtype
from mdtensor.lower.problem import Problem, Stream
from mdtensor.lower.schedule import Schedule, is_valid, rows_across, validate
from mdtensor.lower.selection import selection_of
from mdtensor.specs import Target
from mdtensor.translate.trees import dims_in, params_in

GROUPS_PER_CORE = 4
# Groups that are more than cores even out what else the machine does: fewer have to be better by
# this much.
CLEARLY = 0.93
# Seconds of work from which waking the device's other threads pays.
WORTH_THREADS = 12e-6
# Elements that vectors may gather for one point: each is code of its own, and Intel's compiler was
# seen to fail on texts of some hundred thousand characters.
_MOST_GATHERED = 128
_ROWS = (2, 4, 6, 8, 12)
_COPIES = (1, 4, 8)
_WINDOW = 12  # a window that is no longer is unrolled as a whole,
_MOST_UNROLLED = 320  # if no more vectors are computed so
_REDUCTION_TILE = 256
_LANE_TILE = 512
_ROWS_BESIDE, _UNROLLED_ROWS = 64, 4  # that are walked side by side, and computed at once
_AHEAD_BYTES = 4096  # that a row is asked for ahead of what is read
_FAR = 1 << 20  # what a stride that is a name counts as


def lane_width(problem: Problem, target: Target) -> int:
    """Lanes that fill a vector register with the widest element of the results."""
    widest = max(register_dtype(t).itemsize for t in problem.scalar.result_dtypes)
    return max(1, min(most_lanes(problem), target.vector_bytes // widest))


def lane_dims(problem: Problem, width: int) -> tuple[int, ...]:
    """Dims that can be lanes: those that some access walks with stride one, the output's first.

    Where results lie next to each other along short dims only, which would leave lanes of vectors
    of `width` empty, also the longer ones whose neighbours a staged tile can bring together.
    """
    written = [
        d
        for d in problem.result_dims
        if not (problem.keeps_order and problem.reduced[d])
        and any(w.strides[d].constant == 1 for w in problem.writes)
    ]
    read = [
        d
        for d in problem.dims
        if not (problem.keeps_order and problem.reduced[d])
        and any(stream.strides[d].constant == 1 for stream in problem.streams)
    ]
    far: list[int] = []
    if problem.contracted and not any(_is_long(problem, d, width) for d in written):
        far = [
            d
            for d in problem.kept
            if _is_long(problem, d, width)
            and any(s.uses(d) and problem.is_plain(n) for n, s in enumerate(problem.streams))
        ]
        far.sort(key=lambda d: min(_distance(w.strides[d].constant) for w in problem.writes))
    found = dict.fromkeys((*written, *read, *far[:2]))
    return tuple(d for d in found if gathers_along(problem, d) * width <= _MOST_GATHERED)


def gathers_along(problem: Problem, d: int) -> int:
    """Number of reads whose computed index differs from lane to lane of a dim."""
    varies: list[bool] = []
    found = 0
    for read in problem.reads:
        expressions = [part.expr for part in read.computed]
        computed = any(
            problem.labels[d] in dims_in(expr) or any(varies[n] for n in params_in(expr))
            for expr in expressions
        )
        found += computed
        varies.append(computed or problem.streams[read.stream].uses(d))
    return found


def _is_long(problem: Problem, d: int, width: int) -> bool:
    extent = problem.extents[d].constant
    return extent is None or extent >= width


def nearest_first(problem: Problem) -> tuple[int, ...]:
    """Dims by how close their neighbours lie in memory, farthest first: an order for loops."""

    def distance(d: int) -> tuple[float, int]:
        strides = [
            _distance(access.strides[d].constant)
            for access in (*problem.writes, *problem.streams)
            if access.strides[d].terms
        ]
        return -(sum(strides) / len(strides) if strides else 0.0), d

    return tuple(sorted(problem.dims, key=distance))


def _distance(stride: int | None) -> int:
    return _FAR if stride is None else abs(stride)


def combining_order(problem: Problem) -> tuple[int, ...]:
    """The combined dims, farthest first, or in their own order where the operator needs that."""
    if problem.keeps_order:
        return problem.contracted
    return tuple(d for d in nearest_first(problem) if problem.reduced[d])


def plain(problem: Problem, asm: str = "cpu") -> Schedule:
    """The simplest schedule: one group, one point at a time."""
    ones = (1,) * len(problem.extents)
    order = nearest_first(problem)
    return Schedule(
        asm=asm,
        parts=ones,
        tiles=(0,) * len(ones),
        threads=ones,
        registers=ones,
        lane=-1,
        width=1,
        group_order=order,
        loop_order=tuple(d for d in order if not problem.reduced[d]),
        reduce_order=combining_order(problem),
        staged=("",) * len(problem.streams),
    )


def can_scatter(problem: Problem) -> bool:
    """Whether a dim can be indexed by what the scalar function selects."""
    return selection_of(problem) is not None and not problem.keeps_order


def scattering(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule that scatters, without all that does not go with that."""
    selection = selection_of(problem)
    assert selection is not None
    count = len(problem.extents)
    return replace(
        schedule,
        tiles=(0,) * count,
        registers=tuple(schedule.registers[d] if problem.reduced[d] else 1 for d in problem.dims),
        parts=tuple(1 if d == selection.dim else p for d, p in enumerate(schedule.parts)),
        lane=-1,
        width=1,
        staged=("",) * len(problem.streams),
        tail="split",
        streaming=False,
        peel=False,
        transposed=False,
        ahead=0,
        scatter=True,
    )


def cpu_candidates(
    problem: Problem, target: Target, *, general: bool = False
) -> Iterator[Schedule]:
    """Schedules with various lanes, register tiles and staging; all dims in one part.

    Those for `general` kernels fit the problem whatever its strides are.
    """
    base = plain(problem)
    yield base
    if can_scatter(problem):
        longest = base.reduce_order[-1]
        for count in _COPIES:
            registers = tuple(count if d == longest else 1 for d in problem.dims)
            yield scattering(problem, replace(base, registers=registers))
    width = lane_width(problem, target)
    if width < 2:
        return
    for lane in lane_dims(problem, width):
        for rows in _row_dims(problem, lane):
            for count in _ROWS if rows >= 0 else (1,):
                for vectors in (1, 2, 3, 4):
                    if count * vectors > target.vector_registers - vectors - 1:
                        continue
                    registers = [1] * len(problem.extents)
                    registers[lane] = vectors * width
                    if rows >= 0:
                        registers[rows] = count
                    order = _innermost(base.loop_order, lane)
                    flat = replace(
                        base,
                        registers=tuple(registers),
                        lane=lane,
                        width=width,
                        loop_order=order,
                        group_order=_innermost(base.group_order, lane),
                    )
                    for made in (flat, *_windows(problem, flat)):
                        yield made
                        yield from _beyond_caches(problem, made, target, general=general)
                        for staged in _staged(problem, made):
                            yield staged
                            yield from _streamed(problem, staged, target, general=general)
                    yield from _side_by_side(problem, flat)
        yield from _transposed(problem, base, lane, width, target, general=general)


def _windows(problem: Problem, flat: Schedule) -> Iterator[Schedule]:
    """The same with windows unrolled whose neighbours have elements in common, one dim or all."""
    if problem.keeps_order or problem.scanned >= 0:
        return
    sliding = [d for d in flat.reduce_order if _slides(problem, flat, d)]
    for dims in (sliding[-1:], sliding) if len(sliding) > 1 else (sliding,):
        registers = tuple(
            problem.extent(d) if d in dims else r for d, r in enumerate(flat.registers)
        )
        if dims and math.prod(registers) <= _MOST_UNROLLED * flat.width:
            yield replace(flat, registers=registers)


def _slides(problem: Problem, flat: Schedule, d: int) -> bool:
    """Whether the points of a register tile read a stream at common places along a reduced dim."""
    extent = problem.extents[d].constant
    if extent is None or not 1 < extent <= _WINDOW or d == flat.lane:
        return False
    near = [k for k in problem.kept if k != flat.lane and flat.registers[k] > 1]
    steps = [(s.strides[k].constant, s.strides[d].constant) for s in problem.streams for k in near]
    return any(
        one and step and abs(one) < abs(step) * extent and one % step == 0 for one, step in steps
    )


def _transposed(
    problem: Problem, base: Schedule, lane: int, width: int, target: Target, *, general: bool
) -> Iterator[Schedule]:
    """Register tiles whose rows are neighbours, where results lie far apart along the lanes.

    They cover results that lie together, as many as fill a vector, or a part of one.
    """
    if problem.reduced[lane] or problem.scanned >= 0 or not rows_across(problem, lane):
        return
    for wanted in (width, width // 2, width // 4):
        rows = _rows_together(problem, lane, wanted)
        count = math.prod(rows.values())
        for vectors in range(1, min(4, -(-problem.extent(lane) // width)) + 1):
            if count < 2 or count * vectors > target.vector_registers - vectors - 1:
                continue
            flat = replace(
                base,
                registers=tuple(
                    vectors * width if d == lane else rows.get(d, 1) for d in problem.dims
                ),
                lane=lane,
                width=width,
                transposed=True,
            )
            for streaming in (False,) if general else (False, True):
                made = replace(flat, streaming=streaming)
                if is_valid(problem, made):
                    yield made
                    yield from _staged(problem, made)


def _rows_together(problem: Problem, lane: int, wanted: int) -> dict[int, int]:
    """Points per dim, whose results lie together, up to a number of them."""
    strides = problem.writes[0].strides
    rows: dict[int, int] = {}
    together = 1
    for d in sorted(problem.kept, key=lambda d: _distance(strides[d].constant)):
        if d != lane and strides[d].constant == together and wanted >= 2 * together:
            rows[d] = min(problem.extent(d), wanted // together)
            together *= rows[d]
    return rows


def _in_turn(problem: Problem, candidates: Iterator[Schedule]) -> Iterator[Schedule]:
    """The same, and those whose groups scan in turn, once a scanned dim is divided."""
    for candidate in candidates:
        yield candidate
        if problem.scanned >= 0:
            yield replace(candidate, in_turn=True)


def _row_dims(problem: Problem, lane: int) -> tuple[int, ...]:
    """Kept dims whose points can share what is loaded along the lane dim; -1 for none."""
    along = [(n, stream) for n, stream in enumerate(problem.streams) if stream.uses(lane)]
    sharing = [
        d
        for d in problem.kept
        if d != lane and any(not stream.uses(d) or _overlap(problem, n, d) for n, stream in along)
    ]
    return (*sharing, -1) if len(sharing) < 3 else (*sharing[-3:], -1)


def _overlap(problem: Problem, number: int, d: int) -> bool:
    """Whether neighbours along a dim read the same places of a stream."""
    stride = problem.streams[number].strides[d].constant
    offsets = {as_index(read.offset).constant for read in problem.reads if read.stream == number}
    known = {offset for offset in offsets if offset is not None}
    return stride is not None and any(offset + stride in known for offset in known)


def _beyond_caches(
    problem: Problem, flat: Schedule, target: Target, *, general: bool
) -> Iterator[Schedule]:
    """The same for what comes from memory and goes there: asked for ahead, past the caches."""
    if bytes_moved(problem) < target.l2_bytes * target.cores:
        return
    ahead = _ahead(problem, flat)
    # Where distances are names, it can't be told which reads another iteration has made before.
    asks = not general and reads_around(problem)
    if asks:
        yield replace(flat, ahead=ahead)
    order = _innermost(flat.loop_order, flat.lane)
    peeled = replace(flat, streaming=True, peel=True, loop_order=order)
    rows = any(flat.registers[d] > 1 for d in problem.kept if d != flat.lane)
    streaming = [] if general else [replace(flat, streaming=True)]
    streaming += [] if general and rows else [peeled]
    for schedule in streaming:
        if is_valid(problem, schedule):
            yield schedule
            if asks:
                yield replace(schedule, ahead=ahead)
            return


def _streamed(
    problem: Problem, staged: Schedule, target: Target, *, general: bool
) -> Iterator[Schedule]:
    """The same past the caches, where results are more than caches hold and written once."""
    large = bytes_moved(problem) >= target.l2_bytes * target.cores
    streamed = replace(staged, streaming=True)
    if large and not general and is_valid(problem, streamed):
        yield streamed


def _ahead(problem: Problem, schedule: Schedule) -> int:
    """Iterations of the innermost loop that walk through some hundred elements."""
    d = (schedule.reduce_order or schedule.loop_order)[-1]
    nbytes = schedule.registers[d] * max(dtype.itemsize for dtype in problem.inputs)
    return max(1, min(16, _AHEAD_BYTES // nbytes))


def _innermost(order: tuple[int, ...], lane: int) -> tuple[int, ...]:
    return (*(d for d in order if d != lane), lane) if lane in order else order


def _staged(problem: Problem, flat: Schedule) -> Iterator[Schedule]:
    """The same in cache tiles, with the streams along the lane dim, or all, staged."""
    if not problem.contracted or problem.reduced[flat.lane] or problem.scanned >= 0:
        return
    along = [
        s.uses(flat.lane) and n < problem.finish_streams and problem.is_plain(n)
        for n, s in enumerate(problem.streams)
    ]
    if not any(along):
        return
    tiles = [0] * len(problem.extents)
    far = tuple(
        "scratch" if used and s.strides[flat.lane].constant != 1 else ""
        for used, s in zip(along, problem.streams, strict=True)
    )
    if any(far) and not all(far):
        yield replace(flat, staged=far)
    register = flat.registers[flat.lane]
    tiles[flat.lane] = max(1, _LANE_TILE // register) * register
    innermost = flat.reduce_order[-1]
    if problem.accumulates_in_place:
        tiles[innermost] = _REDUCTION_TILE
    order = (flat.lane, *(d for d in flat.group_order if problem.reduced[d]))
    order = (*order, *(d for d in flat.group_order if d not in order))
    yield replace(
        flat,
        tiles=tuple(tiles),
        group_order=order,
        staged=tuple("scratch" if used else "" for used in along),
    )


def _side_by_side(problem: Problem, flat: Schedule) -> Iterator[Schedule]:
    """The same in tiles of some rows of a reduced dim, whose pages are walked side by side.

    For points that share nothing: where they do, rows are staged or stay in the caches.
    """
    shares = any(flat.registers[d] > 1 for d in problem.kept if d != flat.lane)
    if not problem.contracted or problem.reduced[flat.lane] or shares or problem.scanned >= 0:
        return
    if not problem.accumulates_in_place or problem.keeps_order:
        return
    rows = flat.reduce_order[-1]
    tiles = tuple(_ROWS_BESIDE if d == rows else 0 for d in problem.dims)
    registers = tuple(
        _UNROLLED_ROWS if d == rows else count for d, count in enumerate(flat.registers)
    )
    yield replace(flat, tiles=tiles, registers=registers)


def with_parts(
    problem: Problem,
    schedule: Schedule,
    target: Target,
    *,
    split_reductions: bool,
    general: bool = False,
) -> tuple[float, Schedule]:
    """The schedule divided among groups, if more than one thread pays, and its estimate."""
    seconds, _, made = best_division(
        problem, schedule, target, split_reductions=split_reductions, general=general
    )
    return seconds, made


def best_division(
    problem: Problem,
    schedule: Schedule,
    target: Target,
    *,
    split_reductions: bool,
    general: bool = False,
    serial: float | None = None,
) -> tuple[float, int, Schedule]:
    """A schedule among as many groups as pay: its estimate, their number, the schedule.

    `serial` is the estimate in one part, where it is known.
    """

    def among(groups: int) -> tuple[float, int, Schedule]:
        made = divided(problem, schedule, target, groups, split_reductions=split_reductions)
        return estimate(problem, made, target, general=general), groups, made

    whole = schedule
    if not schedule.inline or schedule.in_turn:
        whole = replace(schedule, inline=True, in_turn=False)
    seconds = estimate(problem, whole, target, general=general) if serial is None else serial
    if seconds < WORTH_THREADS or target.cores == 1:
        return seconds, 1, whole
    best = among(GROUPS_PER_CORE * target.cores)
    if best[0] >= seconds:
        return seconds, 1, whole
    if schedule.lane >= 0 and best[2].parts[schedule.lane] > 1:
        # Rows along the lanes are cut: fewer and longer pieces may be better.
        longer = among(target.cores)
        best = longer if longer[0] < CLEARLY * best[0] else best
    return best


def divided(
    problem: Problem, schedule: Schedule, target: Target, groups: int, *, split_reductions: bool
) -> Schedule:
    """The schedule divided among about so many groups."""
    extents = [problem.extent(d) for d in problem.dims]
    parts = parts_among(
        problem, schedule, target, groups, extents, split_reductions=split_reductions
    )
    shared = problem.scanned >= 0 and parts[problem.scanned] > 1
    in_turn = schedule.in_turn and shared
    return replace(schedule, parts=parts, inline=False, in_turn=in_turn)


def parts_among(
    problem: Problem,
    schedule: Schedule,
    target: Target,
    groups: int,
    extents: Sequence[int],
    *,
    split_reductions: bool,
) -> tuple[int, ...]:
    """Parts of the dims of a problem, or of a structure, for about so many groups.

    Parts go to kept dims first: to those whose parts share no staged tile, then to those with
    most blocks, the lane dim last; to reduced ones if that is allowed and cores are idle still.
    """
    staged = [s for s, region in zip(problem.streams, schedule.staged, strict=True) if region]
    blocks = {d: -(-extent // schedule.registers[d]) for d, extent in enumerate(extents)}
    parts = _parts(problem, schedule, blocks, staged, groups)
    if schedule.in_turn:
        groups = max(groups, -(-bytes_moved(problem) // target.l2_bytes))
    if split_reductions and math.prod(parts) < target.cores:
        longest = sorted(problem.contracted, key=lambda d: -blocks[d])
        for d in (problem.contracted if problem.keeps_order else longest)[:1]:
            parts[d] = max(1, min(groups, blocks[d]))
    return tuple(parts)


def _parts(
    problem: Problem,
    schedule: Schedule,
    blocks: Mapping[int, int],
    staged: Sequence[Stream],
    wanted: int,
) -> list[int]:
    """Parts of the kept dims, so many together as are wanted, as far as there are blocks."""
    parts = [1] * len(problem.extents)

    def preference(d: int) -> tuple[bool, bool, int]:
        copied_again = any(not stream.uses(d) for stream in staged)
        return copied_again, d == schedule.lane, -blocks[d]

    kept = problem.kept
    if schedule.scatter:
        kept = tuple(d for d in kept if any(s.uses(d) for s in problem.streams))
    for d in sorted(kept, key=preference):
        missing = -(-wanted // math.prod(parts))
        if missing > 1:
            parts[d] = max(1, min(missing, blocks[d]))
    return parts


def ranked(
    problem: Problem,
    target: Target,
    *,
    split_reductions: bool = True,
    general: bool = False,
    pause: Callable[[], None] | None = None,
) -> list[tuple[float, Schedule]]:
    """All candidates with their estimated seconds, the best first.

    `pause` is called between candidates by a thread that should leave time to others.
    """
    if target.kind == "gpu":
        last = (0.0, gpu_schedule(problem, target))
        if general:
            return [last]
        rank = ranked_on_gpu if problem.contracted else ranked_points
        rank = ranked_scans if problem.scanned >= 0 else rank
        found = [*ranked_scatters(problem, target), *rank(problem, target)]
        return [*sorted(found, key=lambda pair: pair[0]), last]
    found: list[tuple[float, Schedule]] = []
    candidates = cpu_candidates(problem, target, general=general)
    for candidate in candidates if general else _in_turn(problem, candidates):
        if pause is not None:
            pause()
        found.append(
            with_parts(
                problem, candidate, target, split_reductions=split_reductions, general=general
            )
        )
    found.sort(key=lambda pair: pair[0])
    return found


def estimated(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Seconds that a problem with fixed extents takes by a schedule, roughly."""
    if target.kind != "gpu":
        return estimate(problem, schedule, target)
    if schedule.resident and schedule.scatter:
        return scatter_estimate(problem, schedule, target)
    if schedule.resident and problem.scanned >= 0:
        return scan_estimate(problem, schedule, target)
    by_points = schedule.resident and not problem.contracted
    return (point_estimate if by_points else gpu_estimate)(problem, schedule, target)


def broken_rule(problem: Problem, schedule: Schedule, target: Target) -> str:
    """What keeps a schedule from running on a device, as far as is known; else an empty string."""
    if target.kind == "gpu":
        return misfit(problem, schedule, target)
    try:
        validate(problem, schedule)
    except LoweringError as error:
        return str(error)
    return ""


def gpu_schedule(problem: Problem, target: Target) -> Schedule:
    """A correct schedule for the GPU family: one point a work-item, blocks of up to 256."""
    base = plain(problem, "gpu")
    threads = [1] * len(problem.extents)
    parts = [1] * len(problem.extents)
    left = min(256, target.max_threads)
    for d in reversed(base.loop_order):
        extent = problem.extents[d].constant or 1 << 20
        threads[d] = min(left, 1 << (max(1, extent) - 1).bit_length())
        left //= threads[d]
        parts[d] = max(1, min(-(-extent // threads[d]), 1 << 16))
    shared = problem.contracted and problem.scanned < 0 and not problem.keeps_order
    if math.prod(threads) == 1 and shared:
        longest = base.reduce_order[-1]
        threads[longest] = min(256, target.max_threads)
    order = (*base.reduce_order, *base.loop_order)
    return replace(base, threads=tuple(threads), parts=tuple(parts), group_order=order)
