"""What each kind of schedules on a GPU leaves open, as data: dim by dim and stream by stream.

`gpu_kinds` lists the kinds; `gpu_space` makes parameters of all of them in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mdtensor.lower.codegen.register_blocking.tensor_core_tile import (
    COLUMNS,
    ROWS,
    is_held,
    matrices_of,
)
from mdtensor.lower.codegen.streaming.planes import plane_dim
from mdtensor.lower.codegen.tma.tma_layout import panel_of
from mdtensor.lower.gpu.candidates.block_shapes import POINTS, can_be_staged, item_counts
from mdtensor.lower.gpu.candidates.gpu_candidates import (
    MOST_PARTIALS,
    can_stream,
    part_counts,
    shared_dim,
)
from mdtensor.lower.gpu.candidates.pointwise_candidates import shares_along
from mdtensor.lower.gpu.candidates.scatter_candidates import scattered_dim
from mdtensor.lower.gpu.candidates.tensor_core_candidates import padding_of
from mdtensor.lower.gpu.candidates.tma_candidates import BLOCKS
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.declaration import tried
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

WHOLE = 0  # among chunks: all points of a work-item; among parts: a group for every block

_STEPS = (1, 2, 4, 8, 16, 32)
_SUMS = (1, 2, 4, 8, 16, 32, 64)  # of a work-item along a scanned dim
_CHUNKS = (1, 2, 4, 8, 16, WHOLE)
_SHORT = 32  # extents of reduced dims of which every divisor is tried
_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
_POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128)  # of a group without a reduction
MOST_BLOCKS = 64  # of a group along a dim of matrices by bulk copies
_PADDINGS = tried(Schedule, "padding")
_SWATHS = tried(Schedule, "swath")
_STAGES = tried(Schedule, "stages")
_OF_BULK = (2, 3, 4, 5, 6, 7, 8)
_PLANES = (2, 3, 4, 5, 6, 7, 8)  # that are computed with, and on their way
_MARCHED = (8, 16, 32, 64, 128, 256, 512)  # planes of a group
_ONE, _NONE = (1,), (0,)

Counts = tuple[int, ...]
Flags = tuple[bool, ...]
_NO: Flags = (False,)
_EITHER: Flags = (False, True)
_YES: Flags = (True,)


@dataclass(frozen=True, slots=True)
class Choices:
    """What schedules of a kind leave open; values that they all have are the only choice.

    By dim: `points` of a work-item, `items` of a group, `chunks`, `tiles`, `parts` of reduced dims
    and `blocks` of a part of kept ones. By stream: `staged`. `lanes` tells whether the shape of
    warps varies, `warp` is that of all where it does not; `leads` whether blocks may begin before
    a dim; `marches` whether they may hand on what they read; `last` whether reduced dims come last
    among groups; `before` are kept dims in the order that loops must have.
    """

    points: tuple[Counts, ...]
    items: tuple[Counts, ...]
    chunks: tuple[Counts, ...]
    tiles: tuple[Counts, ...]
    parts: tuple[Counts, ...]
    blocks: tuple[Counts, ...]
    staged: tuple[tuple[str, ...], ...]
    last: Flags
    resident: bool = True
    padding: Counts = _PADDINGS
    as_source: Flags = _EITHER
    stages: Counts = _NONE
    prefetch: bool = False
    lanes: bool = False
    warp: Counts = ()
    leads: bool = False
    tails: tuple[str, ...] = ("split",)
    swaths: Counts = _NONE
    streaming: Flags = _NO
    last_group: Flags = _NO
    clusters: Flags = _NO
    tensor: tuple[int, int, int] | None = None
    before: tuple[int, ...] = ()
    bulk: bool = False
    results: tuple[str, ...] = ("",)
    marches: Flags = _NO


def _by_dim(problem: Problem, choices: Callable[[int], Counts]) -> tuple[Counts, ...]:
    return tuple(map(choices, problem.dims))


def _only(problem: Problem, some: Mapping[int, Counts], default: Counts) -> tuple[Counts, ...]:
    return tuple(some.get(d, default) for d in problem.dims)


def _last(problem: Problem) -> Flags:
    kept, reduced = problem.kept, problem.contracted
    return _EITHER if kept and reduced else (bool(reduced),)


def _swaths(problem: Problem) -> Counts:
    return _SWATHS if len(problem.kept) > 1 else _NONE


def _tails(problem: Problem) -> tuple[str, ...]:
    """How kept dims of a reduction end: blocks that are powers of two end with their dims."""
    ragged = any(problem.extent(d).bit_count() > 1 for d in problem.kept)
    return ("split", "overlap") if ragged else ("split",)


def _points_along(problem: Problem, d: int) -> Counts:
    extent = problem.extent(d)
    if not problem.reduced[d]:
        return tuple(n for n in POINTS if n <= extent)
    if problem.keeps_order and d != problem.contracted[-1]:
        return _ONE
    return tuple(sorted({n for n in _STEPS if n <= max(16, extent)} | _divisors(extent)))


def _divisors(extent: int) -> set[int]:
    """What divides a short dim, so that nothing is left over; those of long ones are round."""
    return {n for n in range(1, extent + 1) if extent % n == 0} if extent <= _SHORT else set()


def _parts_along(problem: Problem, target: Target, d: int) -> Counts:
    """Groups that share a reduced dim; those of an operator's order only the first one."""
    if not problem.reduced[d]:
        return _ONE
    kept_points = 1
    for e in problem.kept:
        kept_points *= problem.extent(e)
    most = min(problem.extent(d), MOST_PARTIALS // kept_points)
    if problem.keeps_order and d != problem.contracted[0]:
        most = 1
    return tuple(n for n in part_counts(target) if n <= max(1, most))


def _staged(problem: Problem) -> tuple[tuple[str, ...], ...]:
    return tuple(
        ("", "local") if can_be_staged(problem, n) else ("",) for n in range(len(problem.streams))
    )


def simple(problem: Problem, target: Target) -> Choices:
    """Schedules without register blocking: one accumulator or one point after the other."""
    shared = shared_dim(problem)
    among = {d: item_counts(problem.extent(d)) for d in (*problem.kept, shared) if d >= 0}
    return Choices(
        points=_by_dim(problem, lambda d: _points_along(problem, d)),
        items=_only(problem, among, _ONE),
        chunks=_by_dim(problem, lambda d: (WHOLE,)),
        tiles=_by_dim(problem, lambda d: _NONE),
        parts=_by_dim(problem, lambda d: _parts_along(problem, target, d)),
        blocks=_by_dim(problem, lambda d: _ONE),
        staged=(("",),) * len(problem.streams),
        last=_last(problem),
        resident=False,
        swaths=_swaths(problem),
    )


def scattered(problem: Problem, target: Target) -> Choices:
    """Scatters by single work-items, each to a copy of its own."""
    one = simple(problem, target)
    return replace(
        one,
        points=_by_dim(problem, lambda d: one.points[d] if problem.reduced[d] else _ONE),
        items=_by_dim(problem, lambda d: _ONE),
    )


def scattered_together(problem: Problem, target: Target) -> Choices:
    """Cooperative scatters to a group's copy in local memory."""
    d = scattered_dim(problem)
    items = tuple(n for n in _POWERS if n >= WARP)
    return Choices(
        points=_only(problem, {d: _points_along(problem, d)}, _ONE),
        items=_only(problem, {d: items}, _ONE),
        chunks=_only(problem, {d: _CHUNKS}, _ONE),
        tiles=_by_dim(problem, lambda d: _NONE),
        parts=_only(problem, {d: _parts_along(problem, target, d)}, _ONE),
        blocks=_by_dim(problem, lambda d: _ONE),
        staged=(("",),) * len(problem.streams),
        last=(True,),
    )


def reduction(problem: Problem, target: Target) -> Choices:
    """Reductions with register blocking."""
    shared = shared_dim(problem)
    among = {d: item_counts(problem.extent(d)) for d in (*problem.kept, shared) if d >= 0}

    def tiles(d: int) -> Counts:
        if not problem.reduced[d] or (problem.keeps_order and d != problem.contracted[0]):
            return _NONE
        extent = problem.extent(d)
        return (0, *sorted({n for n in _DEPTHS if n <= max(32, extent)} | _divisors(extent)))

    counted = target.counts_groups and not problem.keeps_order
    return Choices(
        points=_by_dim(problem, lambda d: _points_along(problem, d)),
        items=_only(problem, among, _ONE),
        chunks=_by_dim(problem, lambda d: _CHUNKS),
        tiles=_by_dim(problem, tiles),
        parts=_by_dim(problem, lambda d: _parts_along(problem, target, d)),
        blocks=_by_dim(problem, lambda d: _ONE),
        staged=_staged(problem),
        last=_last(problem),
        stages=_STAGES,
        prefetch=True,
        lanes=bool(problem.kept),
        tails=_tails(problem),
        swaths=_swaths(problem),
        streaming=_EITHER if can_stream(problem) else _NO,
        last_group=_EITHER if counted else _NO,
        clusters=_EITHER if target.clusters and counted else _NO,
    )


def points(problem: Problem) -> Choices:
    """Pointwise problems, whose points share what they read."""
    return Choices(
        points=_by_dim(problem, lambda d: _points_along(problem, d)),
        items=_by_dim(problem, lambda d: item_counts(problem.extent(d))),
        chunks=_by_dim(problem, lambda d: _CHUNKS),
        tiles=_by_dim(problem, lambda d: _NONE),
        parts=_by_dim(problem, lambda d: _ONE),
        blocks=_by_dim(problem, lambda d: _BLOCKS),
        staged=_staged(problem),
        last=_NO,
        lanes=bool(problem.kept),
        leads=True,
        tails=("overlap", "split"),
        swaths=_swaths(problem),
        streaming=_EITHER if can_stream(problem) else _NO,
        marches=_EITHER if any(shares_along(problem, d) for d in problem.kept) else _NO,
    )


def planes(problem: Problem, target: Target) -> Choices:
    """2.5-D streaming with prefetched planes."""
    d = plane_dim(problem)
    others = [e for e in problem.dims if e != d]
    return Choices(
        points=_only(problem, {e: _points_along(problem, e) for e in others}, _ONE),
        items=_only(problem, {e: item_counts(problem.extent(e)) for e in others}, _ONE),
        chunks=_only(problem, dict.fromkeys(others, _CHUNKS), _ONE),
        tiles=_by_dim(problem, lambda d: _NONE),
        parts=_by_dim(problem, lambda d: _ONE),
        blocks=_only(problem, {d: _MARCHED}, _ONE),
        staged=(("local",),) * len(problem.streams),
        last=_NO,
        padding=_NONE,
        as_source=_NO,
        stages=_PLANES,
        tails=("overlap", "split"),
        swaths=_swaths(problem),
        results=("", "local") if target.bulk_copies else ("",),
        marches=_YES,
    )


def scan(problem: Problem, *, shared: bool) -> Choices:
    """Cooperative scans; groups may share the scanned dim, by look-back."""
    d = problem.scanned
    items = tuple(n for n in _POWERS if n < 2 * problem.extent(d))
    if shared:
        items = tuple(n for n in items if n >= WARP)
    sums = tuple(n for n in _SUMS if n <= problem.extent(d))
    along, own = {d: sums}, {d: items}
    if not shared:
        along |= {e: _points_along(problem, e) for e in problem.kept}
        own |= {e: item_counts(problem.extent(e)) for e in problem.kept}
    possible = can_stream(problem) and bool(problem.kept)
    return Choices(
        points=_only(problem, along, _ONE),
        items=_only(problem, own, _ONE),
        chunks=_only(problem, {d: _CHUNKS} if shared else dict.fromkeys(along, _CHUNKS), _ONE),
        tiles=_by_dim(problem, lambda d: _NONE),
        parts=_only(problem, {d: (WHOLE,)} if shared else {}, _ONE),
        blocks=_by_dim(problem, lambda d: _ONE),
        staged=(("",),) * len(problem.streams),
        last=(True,) if shared else _last(problem),
        streaming=_EITHER if possible else _NO,
    )


def matrices(problem: Problem, target: Target, dims: tuple[int, int, int]) -> Choices:
    """Products on tensor cores, along rows, columns and a reduction."""
    row, column, along = dims
    factors = matrices_of(problem, dims)
    extents = {d: problem.extent(d) for d in dims}

    steps, owners = factors.steps, ((factors.rows, row), (factors.columns, column))

    def of_warps(d: int, one: int) -> Counts:
        return tuple(one * n for n in (1, 2, 4, 8) if one * (n // 2) < extents[d])

    tiles: dict[int, Counts] = dict.fromkeys(problem.contracted, _ONE)
    tiles[along] = tuple(n for n in _DEPTHS if n >= steps[0] and extents[along] % n == 0)
    return Choices(
        points=_only(problem, {row: (2, 4, 8, 16), column: (2, 4, 8, 16), along: steps}, _ONE),
        items=_only(problem, {row: of_warps(row, ROWS), column: of_warps(column, COLUMNS)}, _ONE),
        chunks=_only(problem, {column: (2,), along: (WHOLE,)}, _ONE),
        tiles=_only(problem, tiles, _NONE),
        parts=_only(problem, {along: _parts_along(problem, target, along)}, _ONE),
        blocks=_by_dim(problem, lambda d: _ONE),
        staged=tuple(
            ("local",) if n in (factors.rows, factors.columns) else ("",)
            for n in range(len(problem.streams))
        ),
        last=_last(problem),
        padding=tuple(sorted({padding_of(problem, factors, n, own) for n, own in owners})),
        as_source=(True,),
        stages=tuple(n for n in _STAGES if n),
        warp=tuple({row: ROWS, column: COLUMNS}.get(d, 1) for d in problem.dims),
        swaths=_swaths(problem),
        streaming=_EITHER if can_stream(problem) else _NO,
        last_group=_EITHER if target.counts_groups else _NO,
        clusters=_EITHER if target.clusters else _NO,
        tensor=dims,
        before=(row, column),
    )


def bulk(
    problem: Problem, matrices: Choices, dims: tuple[int, int, int], results: tuple[str, ...]
) -> Choices:
    """Products with TMA copies and wgmma, whose `results` leave in some of these ways."""
    row, column, along = dims
    factors = matrices_of(problem, dims)
    panel, step = panel_of(factors), factors.step
    apart = 2 if is_held(problem, factors, row) else 1
    rows, columns = (tuple(sorted({block[n] for block in BLOCKS})) for n in (0, 1))

    def of_groups(d: int) -> Counts:
        if problem.reduced[d]:
            return _ONE
        return tuple(range(1, min(MOST_BLOCKS, -(-problem.extent(d) // least.get(d, 1))) + 1))

    least = {row: rows[0], column: columns[0]}
    points = {row: (2,), column: tuple(n // COLUMNS for n in columns), along: (step,)}
    return replace(
        matrices,
        points=_only(problem, points, _ONE),
        items=_only(problem, {row: tuple(n // 2 for n in rows), column: (COLUMNS,)}, _ONE),
        chunks=_only(problem, {row: (apart,), column: (2,), along: (step,)}, _ONE),
        tiles=_only(problem, {d: (panel if d == along else 1,) for d in problem.contracted}, _NONE),
        blocks=_by_dim(problem, of_groups),
        padding=_NONE,
        stages=_OF_BULK,
        streaming=_NO,
        last_group=_NO,
        clusters=_NO,
        bulk=True,
        results=results,
    )


def spread(problem: Problem, one: Choices, schedule: Schedule, rows: tuple[int, ...]) -> Choices:
    """The kind with rows as a schedule has them, along several dims."""
    column = schedule.tensor[1]

    def as_there(choices: tuple[Counts, ...], there: tuple[int, ...]) -> tuple[Counts, ...]:
        return tuple(
            choices[d] if d == column or problem.reduced[d] else (there[d],) for d in problem.dims
        )

    length = {d: schedule.registers[d] * schedule.threads[d] for d in rows}
    blocks = {
        d: tuple(range(1, min(MOST_BLOCKS, -(-problem.extent(d) // n)) + 1))
        for d, n in length.items()
    }
    return replace(
        one,
        points=as_there(one.points, schedule.registers),
        items=as_there(one.items, schedule.threads),
        blocks=tuple(blocks.get(d, one.blocks[d]) for d in problem.dims),
        warp=schedule.warp,
        before=(*rows, column),
    )
