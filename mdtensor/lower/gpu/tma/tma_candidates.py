"""GPU candidates with TMA copies and wgmma products.

A group takes a core's local memory whole, so that there are as many groups as cores at most; each
computes its blocks one after the other, in rounds in which all groups work on neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import (
    is_narrow,
    matrix_blocked,
    matrix_dims,
    splits,
)
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import ROWS as WARP_ROWS
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import (
    is_held,
    is_turned,
    matrices_of,
    validate_tensor,
)
from mdtensor.lower.gpu.tma.tma_cost import PANELS_OF_RESULTS, RESERVED, tile_bytes
from mdtensor.lower.gpu.tma.tma_layout import panel_of, validate_bulk
from mdtensor.lower.gpu.tma.wgmma_store import validate_results
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import MOST_STAGES, Schedule
from mdtensor.specs import Target

# Rows and columns of a group's block.
BLOCKS = (
    *((128, 256), (256, 128), (128, 128), (128, 192), (192, 128)),
    *((64, 256), (64, 128), (128, 64), (64, 64)),
)
_ROWS = (128, 64, 256)  # of blocks with few columns
_SPREADS = 2  # ways to lay the rows of a block along several dims
_LOCAL_BYTES = 227 << 10  # that a group can have
_LEAST_STAGES = 3
_LEAST = 64  # rows or columns of a block


def bulk_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid schedules with TMA copies, where the device and the problem support them."""
    problem = zero_filled(problem)
    dims = matrix_dims(problem, bulk=True) if target.bulk_copies else None
    if dims is None:
        return
    for block in blocks_of(problem, dims):
        if _is_beyond(problem, dims[1], block[1]):
            continue
        for spread in spreads(problem, dims, block[0]):
            for results in ("local", ""):
                panels = block[0] * PANELS_OF_RESULTS * bool(results)
                most = (_LOCAL_BYTES - RESERVED - panels) // tile_bytes(block)
                stages = min(most, MOST_STAGES)
                schedule = bulk_blocked(problem, dims, block, stages, target.cores, spread)
                schedule = replace(schedule, results=results)
                if stages >= _LEAST_STAGES and is_valid_bulk(problem, schedule):
                    yield schedule
                    for split in splits(problem, replace(schedule, results=""), target.cores):
                        if is_valid_bulk(problem, split):
                            yield split
                    break  # results leave in boxes where they can


def blocks_of(problem: Problem, dims: tuple[int, int, int]) -> Sequence[tuple[int, int]]:
    """Candidate (rows, columns) of blocks; blocks of narrow products have all columns."""
    if not is_narrow(problem, dims):
        return BLOCKS
    return [(rows, -(-problem.extent(dims[1]) // 8) * 8) for rows in _ROWS]


def _is_beyond(problem: Problem, d: int, length: int) -> bool:
    """Whether a block is at least twice as long as its dim, and a smaller one exists."""
    return length > _LEAST and length >= 2 * problem.extent(d)


def is_valid_bulk(problem: Problem, schedule: Schedule) -> bool:
    """Whether a problem can be computed by a schedule with bulk copies."""
    problem = zero_filled(problem)
    try:
        validate(problem, schedule)
        validate_tensor(problem, schedule)
        validate_bulk(problem, schedule)
        if schedule.results:
            validate_results(problem, schedule)
    except LoweringError:
        return False
    return True


def spreads(problem: Problem, dims: tuple[int, int, int], rows: int) -> list[dict[int, int]]:
    """Ways to lay a block's rows along dims: along one dim, or along several with little waste.

    By dim; several have the innermost in an array first, and powers of two of all but the last.
    """
    row = dims[0]
    factors = matrices_of(problem, dims)
    stream, beside = problem.streams[factors.rows], problem.streams[factors.columns]
    own = (d for d in problem.kept if stream.uses(d) and not beside.uses(d))
    along = sorted(own, key=lambda d: stream.strides[d].constant or 0)
    one = {row: rows}
    if len(along) == 1 or is_turned(problem, factors.rows, along[0]):
        return [one]
    several = [s for s in _shared_out(along, rows) if len(s) > 1]
    several = [s for s in several if all(n < 2 * problem.extent(d) for d, n in s.items())]
    several.sort(key=lambda s: (_computed_rows(problem, s, along), len(s), max(s.values())))
    if several and rows >= 2 * problem.extent(row):
        return several[:_SPREADS]
    most = _computed_rows(problem, one, along)
    return [one, *(s for s in several[:_SPREADS] if _computed_rows(problem, s, along) < most)]


def _shared_out(dims: Sequence[int], rows: int) -> Iterator[dict[int, int]]:
    """All ways to factor `rows` into powers of two over dims; the last takes the remainder."""
    if len(dims) == 1 or rows == 1:
        yield {dims[0]: rows} if rows > 1 else {}
        return
    count = 1
    while rows % count == 0:
        for rest in _shared_out(dims[1:], rows // count):
            yield {dims[0]: count} | rest if count > 1 else rest
        count *= 2


def _computed_rows(problem: Problem, spread: Mapping[int, int], along: Sequence[int]) -> int:
    """Rows of all blocks, including padding beyond the ends of dims."""
    extents = {d: problem.extent(d) for d in along}
    return math.prod(-(-n // spread.get(d, 1)) * spread.get(d, 1) for d, n in extents.items())


def bulk_blocked(
    problem: Problem,
    dims: tuple[int, int, int],
    block: tuple[int, int],
    stages: int,
    cores: int,
    spread: Mapping[int, int] | None = None,
) -> Schedule:
    """A schedule from a block's (rows, columns); rows may be a `spread` of dims."""
    warps = (block[0] // (2 * WARP_ROWS), 1)
    tile = (2 * WARP_ROWS, block[1])
    row, column, depth = dims
    factors = matrices_of(problem, dims)
    schedule = matrix_blocked(problem, dims, warps, tile, panel_of(factors), stages)
    step, apart = factors.step, 2 if is_held(problem, factors, row) else 1
    spread = spread or {row: block[0]}
    schedule = _spread_out(problem, schedule, spread)
    kept = [d for d in schedule.group_order if d in (*spread, column)]
    lengths = [spread.get(d, block[1]) for d in kept]
    blocks = [-(-problem.extent(d) // n) for d, n in zip(kept, lengths, strict=True)]
    others = math.prod(schedule.parts[d] for d in problem.kept if d not in kept)
    shared = shared_blocks(blocks, lengths, others, cores)
    return replace(
        schedule,
        parts=_with(schedule.parts, dict(zip(kept, shared, strict=True))),
        registers=_with(schedule.registers, {depth: step}),
        chunks=_with(schedule.chunks, {row: apart, depth: step}),
        padding=(),
        bulk=True,
    )


def _with(values: tuple[int, ...], changed: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(changed.get(d, n) for d, n in enumerate(values))


def _spread_out(problem: Problem, schedule: Schedule, spread: Mapping[int, int]) -> Schedule:
    """The schedule with rows spread over several dims, the nearest first: lanes, points, warps."""
    row, column, _ = schedule.tensor
    registers, threads, warp = map(list, (schedule.registers, schedule.threads, schedule.warp))
    registers[row] = threads[row] = warp[row] = 1
    lanes, points = WARP_ROWS, 2
    for d, rows in spread.items():
        warp[d] = math.gcd(rows, lanes)
        registers[d] = math.gcd(rows // warp[d], points if lanes == warp[d] else 1)
        threads[d] = rows // registers[d]
        lanes, points = lanes // warp[d], points // registers[d]
    kept = (*(d for d in schedule.loop_order if d not in (*spread, column)), *reversed(spread))
    reduced = schedule.reduce_order
    parts = list(schedule.parts)
    parts[row] = problem.extent(row)
    return replace(
        schedule,
        parts=tuple(parts),
        registers=tuple(registers),
        threads=tuple(threads),
        warp=tuple(warp),
        group_order=(*kept, column, *reduced),
        loop_order=(*kept, column),
    )


def shared_blocks(
    blocks: Sequence[int], lengths: Sequence[int], others: int, cores: int
) -> tuple[int, ...]:
    """Parts of dims: as few rounds as cores allow, then parts that are nearly square.

    >>> shared_blocks((64, 32), (128, 256), 1, 132)
    (16, 8)
    """

    def price(parts: tuple[int, ...]) -> tuple[int, int]:
        groups = math.prod(parts) * others
        each = math.prod(-(-n // p) for n, p in zip(blocks, parts, strict=True))
        return -(-groups // cores) * each, sum(p * n for p, n in zip(parts, lengths, strict=True))

    if others * math.prod(blocks) <= cores:
        return tuple(blocks)
    fitting = _at_most(blocks, cores // others)
    return min(fitting, key=price, default=tuple(blocks))


def _at_most(blocks: Sequence[int], groups: int) -> Iterator[tuple[int, ...]]:
    """All parts of dims that make at most `groups` groups."""
    if not blocks:
        yield from [()] if groups else []
        return
    for parts in range(1, min(blocks[0], groups) + 1):
        for rest in _at_most(blocks[1:], groups // parts):
            yield (parts, *rest)
