"""Candidate schedules for processors: lanes, register tiles, staging, prefetching, streaming.

Every candidate is made from the strides of the accesses and the facts of the target; no shape of
computation has a candidate of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from mdtensor.lower.cpu.candidates_two_dims import tiles_of_two
from mdtensor.lower.cpu.cost.cpu_cost import runs_along_lanes
from mdtensor.lower.cpu.cost.cpu_facts import reads_around
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.data_bounds import regular
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scratch_memory import staged_dtype
from mdtensor.lower.problem.work import bytes_moved, links_of_point
from mdtensor.lower.schedule.default_schedule import (
    can_scatter,
    distance,
    lane_dims,
    lane_width,
    plain,
    scattering,
    short_reductions,
)
from mdtensor.lower.schedule.machine_model import PAGE
from mdtensor.lower.schedule.rules.row_stores import rows_across, unlike_rows
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.schedule.schedule import MOST_AHEAD, Schedule
from mdtensor.specs import Target, is_short_float

_ROWS = (2, 4, 6, 8, 12)
_COPIES = (1, 4, 8)
_MOST_UNROLLED = 320  # vectors that are computed at once where windows are unrolled
_REDUCTION_TILE, _LEAST_STEPS = 256, 32
_UNROLLED_STEPS, _LEAST_TURNS = 4, 8
_LANE_TILE = 512
_ROW_TILE = 64
_ROWS_BESIDE, _UNROLLED_ROWS = 64, 4  # that are walked side by side, and computed at once
# Rows, and vectors, of register tiles whose rows begin differently: larger ones were no faster, and
# compilers take many seconds for them, since the ends of rows are code of their own.
_JOINED_ROWS, _JOINED_VECTORS = 4, 8
_AHEAD_BYTES = 4096  # that a row is asked for ahead of what is read,
_RUN_AHEAD_BYTES = 16384  # and a run that is the only one


def cpu_candidates(
    problem: Problem, target: Target, *, general: bool = False
) -> Iterator[Schedule]:
    """Candidates that vary lanes, register tiles and staging; all dims in one part.

    Those for `general` kernels fit the problem whatever its strides are. With data-dependent
    ranges, they are the valid ones of those for ranges of mean length.
    """
    if problem.bounds is not None:
        made = cpu_candidates(regular(problem), target, general=general)
        yield from (schedule for schedule in made if is_valid(problem, schedule))
        return
    base = plain(problem)
    scatters = can_scatter(problem)
    if not (scatters and general):  # other shapes may have many points to choose among
        yield base
    if scatters:
        longest = base.reduce_order[-1]
        for count in _COPIES:
            registers = tuple(count if d == longest else 1 for d in problem.dims)
            yield scattering(problem, replace(base, registers=registers))
    if scatters and general:
        return
    width = lane_width(problem, target)
    if width < 2:
        return
    for lane in lane_dims(problem, width):
        for rows in _row_dims(problem, lane, target):
            for count in _counts(problem, rows) if rows >= 0 else (1,):
                for vectors in (1, 2, 3, 4):
                    if count * vectors > target.vector_registers - vectors - 1:
                        continue
                    if not general and (vectors - 1) * width >= problem.extent(lane):
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
                    padded = () if general else _padded(problem, flat)
                    for made in (flat, *padded, *_windows(problem, flat)):
                        yield made
                        yield from _beyond_caches(problem, made, target, general=general)
                        for staged in _staged(problem, made, target, general=general):
                            yield staged
                            yield from _streamed(problem, staged, target, general=general)
                            if not general:
                                yield from _unrolled(problem, staged)
                    yield from _side_by_side(problem, flat)
        yield from tiles_of_two(problem, replace(base, lane=lane, width=width), target)
        yield from _transposed(problem, base, lane, width, target, general=general)


def _padded(problem: Problem, flat: Schedule) -> Iterator[Schedule]:
    """A variant of `flat` with a padded last vector, where the rest would take several.

    Only for rows within one register tile: the rest of longer ones matters less.
    """
    extent, lane = problem.extent(flat.lane), flat.lane
    if extent > flat.registers[lane] or problem.reduced[lane] or problem.scanned >= 0:
        return
    if (extent % flat.width).bit_count() > 1:
        yield replace(flat, tail="pad")


def _windows(problem: Problem, flat: Schedule) -> Iterator[Schedule]:
    """Variants of `flat` with sliding windows unrolled, along one dim or along all."""
    if problem.keeps_order or problem.scanned >= 0:
        return
    sliding = [d for d in flat.reduce_order if _slides(problem, flat, d)]
    for dims in (sliding[-1:], sliding) if len(sliding) > 1 else (sliding,):
        registers = tuple(
            problem.extent(d) if d in dims else r for d, r in enumerate(flat.registers)
        )
        if dims and math.prod(registers) <= _MOST_UNROLLED * flat.width:
            made = replace(flat, registers=registers)
            yield made
            if problem.reduced[flat.lane]:
                yield from _read_again(problem, made)


def _read_again(problem: Problem, flat: Schedule) -> Iterator[Schedule]:
    """Variants of `flat` whose innermost loop makes rows read the same elements again."""
    rows = [d for d in problem.kept if flat.registers[d] > 1]
    streams = [s for s in problem.streams if any(s.uses(d) for d in rows)]
    for d in flat.loop_order[:-1]:
        if d not in rows and not any(stream.uses(d) for stream in streams):
            yield replace(flat, loop_order=_innermost(flat.loop_order, d))


def _slides(problem: Problem, flat: Schedule, d: int) -> bool:
    """Whether a register tile's points overlap in their reads along a short reduced dim."""
    extent = problem.extents[d].constant
    if extent is None or d not in short_reductions(problem) or d == flat.lane:
        return False
    near = [k for k in problem.kept if k != flat.lane and flat.registers[k] > 1]
    steps = [(s.strides[k].constant, s.strides[d].constant) for s in problem.streams for k in near]
    return any(
        one and step and abs(one) < abs(step) * extent and one % step == 0 for one, step in steps
    )


def _transposed(
    problem: Problem, base: Schedule, lane: int, width: int, target: Target, *, general: bool
) -> Iterator[Schedule]:
    """Candidates with in-register transposes, where results are strided along the lanes.

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
                    yield from _staged(problem, made, target, general=general)


def _rows_together(problem: Problem, lane: int, wanted: int) -> dict[int, int]:
    """Points per dim of up to `wanted` results that are adjacent in memory."""
    strides = problem.writes[0].strides
    rows: dict[int, int] = {}
    together = 1
    for d in sorted(problem.kept, key=lambda d: distance(strides[d].constant)):
        if d != lane and strides[d].constant == together and wanted >= 2 * together:
            rows[d] = min(problem.extent(d), wanted // together)
            together *= rows[d]
    return rows


def _counts(problem: Problem, rows: int) -> tuple[int, ...]:
    """Row counts of a register tile to try; one divides the extent where possible."""
    extent = problem.extent(rows)
    whole = next((n for n in range(_ROWS[-1], 4, -1) if extent % n == 0), 0)
    return tuple(sorted({*_ROWS, whole} - {0}))


def _row_dims(problem: Problem, lane: int, target: Target) -> tuple[int, ...]:
    """Kept dims whose points can share loads along the lane dim; -1 for none.

    Where what is reduced comes from memory, also those whose rows are runs of their own; where
    tuples are combined, others for what is done while the first row waits.
    """
    along = [(n, stream) for n, stream in enumerate(problem.streams) if stream.uses(lane)]
    sharing = [
        d
        for d in problem.kept
        if d != lane and any(not stream.uses(d) or _overlap(problem, n, d) for n, stream in along)
    ]
    if problem.reduced[lane]:
        waits = links_of_point(problem.scalar, problem.operator) > 1
        comes_from_memory = bytes_moved(problem) > target.l3_bytes
        apart = [
            d
            for d in problem.kept
            if d not in sharing and (waits or (comes_from_memory and _are_runs(problem, lane, d)))
        ]
        sharing = [*apart[-1:], *sharing]
    return (*sharing[-3:], -1)


def _are_runs(problem: Problem, lane: int, d: int) -> bool:
    """Whether neighbours along a dim lie in different pages."""
    return any(
        distance(stream.strides[d].constant) * problem.inputs[stream.buffer].itemsize >= PAGE
        for stream in problem.streams
        if stream.uses(lane) and stream.uses(d)
    )


def _overlap(problem: Problem, number: int, d: int) -> bool:
    """Whether neighbours along a dim read the same places of a stream."""
    stride = problem.streams[number].strides[d].constant
    offsets = {as_index(read.offset).constant for read in problem.reads if read.stream == number}
    known = {offset for offset in offsets if offset is not None}
    return stride is not None and any(offset + stride in known for offset in known)


def _beyond_caches(
    problem: Problem, flat: Schedule, target: Target, *, general: bool
) -> Iterator[Schedule]:
    """Variants of `flat` with prefetching and streaming stores, where data exceed the caches."""
    if bytes_moved(problem) < target.l2_bytes * target.cores:
        return
    ahead = _ahead(problem, flat)
    # Where distances are names, it can't be told which reads another iteration has made before.
    asks = runs_along_lanes(flat) or (not general and reads_around(problem))
    if asks:
        yield replace(flat, ahead=ahead)
    order = _innermost(flat.loop_order, flat.lane)
    peeled = replace(flat, streaming=True, peel=True, loop_order=order)
    rows = any(flat.registers[d] > 1 for d in problem.kept if d != flat.lane)
    streaming = [] if general else [replace(flat, streaming=True)]
    streaming += [] if (general and rows) or _is_long_to_join(problem, peeled) else [peeled]
    for schedule in streaming:
        if is_valid(problem, schedule):
            yield schedule
            if asks:
                yield replace(schedule, ahead=ahead)
            return


def _is_long_to_join(problem: Problem, peeled: Schedule) -> bool:
    """Whether misaligned rows are too many, or too long, to be joined by shuffles."""
    joined = unlike_rows(problem, peeled)
    if not joined:
        return False
    vectors = peeled.registers[peeled.lane] // peeled.width * (joined + 1)
    return joined >= _JOINED_ROWS or vectors > _JOINED_VECTORS


def _streamed(
    problem: Problem, staged: Schedule, target: Target, *, general: bool
) -> Iterator[Schedule]:
    """A variant of `staged` with streaming stores, where data exceed the caches."""
    if general or bytes_moved(problem) < target.l2_bytes * target.cores:
        return
    streamed = replace(staged, streaming=True)
    if is_valid(problem, streamed):
        yield streamed


def _ahead(problem: Problem, schedule: Schedule) -> int:
    """The prefetch distance in iterations of the innermost loop: about a page, less in one run."""
    d = (schedule.reduce_order or schedule.loop_order)[-1]
    read = [dtype.itemsize for dtype in problem.inputs]
    nbytes = schedule.registers[d] * max(read, default=1)
    if runs_along_lanes(schedule):
        fitting = max(1, min(MOST_AHEAD, _RUN_AHEAD_BYTES // nbytes))
        return 1 << (fitting.bit_length() - 1)
    return max(1, min(16, _AHEAD_BYTES // nbytes))


def _innermost(order: tuple[int, ...], lane: int) -> tuple[int, ...]:
    return (*(d for d in order if d != lane), lane) if lane in order else order


def _staged(
    problem: Problem, flat: Schedule, target: Target, *, general: bool
) -> Iterator[Schedule]:
    """Variants of `flat` in cache tiles, with streams along the lane dim, or all, staged."""
    if not problem.contracted or problem.reduced[flat.lane] or problem.scanned >= 0:
        return
    along = [
        s.uses(flat.lane) and n < problem.finish_streams and bool(problem.places(n))
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
    staged = replace(
        flat,
        tiles=tuple(tiles),
        group_order=order,
        staged=tuple("scratch" if used else "" for used in along),
    )
    yield staged
    if not general:  # other shapes may have longer rows, of which caches hold fewer
        yield from _lengthened(problem, staged)
    yield from _widened(problem, staged)
    if problem.accumulates_in_place and not general:
        # As narrow as L1 holds them, and read where they are.
        tiles[flat.lane] = register
        for steps in _reduction_tiles(problem, flat.lane, innermost, target):
            tiles[innermost] = steps
            narrow = replace(flat, tiles=tuple(tiles), group_order=order)
            yield narrow
            across = replace(narrow, transposed=True)
            if rows_across(problem, flat.lane) and is_valid(problem, across):
                yield across


def _unrolled(problem: Problem, flat: Schedule) -> Iterator[Schedule]:
    """A variant of `flat` with the innermost reduced dim's loop unrolled by some steps.

    Only where steps divide the extent, and several vectors share what rows read: else loads exceed
    the registers.
    """
    innermost = flat.reduce_order[-1]
    turns, rest = divmod(problem.extent(innermost), _UNROLLED_STEPS)
    vectors = flat.registers[flat.lane] // flat.width
    if problem.keeps_order or flat.registers[innermost] > 1 or vectors == 1:
        return
    if rest == 0 and turns >= _LEAST_TURNS:
        steps = [_UNROLLED_STEPS if d == innermost else r for d, r in enumerate(flat.registers)]
        yield replace(flat, registers=tuple(steps))


def _reduction_tiles(
    problem: Problem, lane: int, innermost: int, target: Target
) -> tuple[int, ...]:
    """Tile lengths along a reduction; a shorter one where distant rows would overflow L1.

    Of rows that lie far apart, which share few sets, L1 holds no more than it spans.
    """
    apart = [
        distance(stream.strides[innermost].constant) * problem.inputs[stream.buffer].itemsize
        for stream in problem.streams
        if stream.uses(lane) and stream.uses(innermost)
    ]
    spanned = target.l1_bytes // (2 * max(apart, default=1))
    fewer = 1 << (spanned.bit_length() - 1) if spanned else 0
    return (
        (_REDUCTION_TILE, fewer) if _LEAST_STEPS <= fewer < _REDUCTION_TILE else (_REDUCTION_TILE,)
    )


def _lengthened(problem: Problem, staged: Schedule) -> Iterator[Schedule]:
    """Variants of `staged` with longer reduction tiles, where the lane dim is short.

    So no tile takes more memory, and rows along the reduction are read in longer runs.
    """
    innermost = staged.reduce_order[-1]
    times = _LANE_TILE // max(staged.registers[staged.lane], problem.extent(staged.lane))
    for steps in (_REDUCTION_TILE * times // 2, _REDUCTION_TILE * times):
        if staged.tiles[innermost] and _REDUCTION_TILE < steps <= problem.extent(innermost):
            tiles = [steps if d == innermost else tile for d, tile in enumerate(staged.tiles)]
            yield replace(staged, tiles=tuple(tiles))


def _widened(problem: Problem, staged: Schedule) -> Iterator[Schedule]:
    """Variants of `staged` that also stage 16-bit floats, to widen each of them once."""
    wide = [
        n
        for n, stream in enumerate(problem.streams)
        if is_short_float(problem.inputs[stream.buffer])
        and n < problem.finish_streams
        and problem.places(n)
        and not is_short_float(staged_dtype(problem, n))
    ]
    if all(staged.staged[n] for n in wide):
        return
    tiles = list(staged.tiles)
    for d in problem.kept:
        if d != staged.lane and any(problem.streams[n].uses(d) for n in wide):
            register = staged.registers[d]
            tiles[d] = max(1, _ROW_TILE // register) * register if register > 1 else 1
    regions = ("scratch" if n in wide else region for n, region in enumerate(staged.staged))
    yield replace(staged, tiles=tuple(tiles), staged=tuple(regions))


def _side_by_side(problem: Problem, flat: Schedule) -> Iterator[Schedule]:
    """A variant of `flat` in tiles of several rows of a reduced dim, walked side by side.

    Only for points that share no reads: else rows are staged or stay in the caches.
    """
    shares = any(flat.registers[d] > 1 for d in problem.kept if d != flat.lane)
    if not problem.contracted or problem.reduced[flat.lane] or shares or problem.scanned >= 0:
        return
    if not problem.accumulates_in_place or problem.keeps_order:
        return
    rows = flat.reduce_order[-1]
    # A general kernel may serve more rows than there are here: no tile, no sums of tiles.
    tile = _ROWS_BESIDE if problem.extent(rows) > _ROWS_BESIDE else 0
    tiles = tuple(tile if d == rows else 0 for d in problem.dims)
    registers = tuple(
        _UNROLLED_ROWS if d == rows else count for d, count in enumerate(flat.registers)
    )
    yield replace(flat, tiles=tiles, registers=registers)
