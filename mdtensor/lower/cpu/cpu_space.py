"""The search space of a problem's schedules on a processor: its parameters.

`cpu_configurations` says what the values mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from mdtensor.lower.problem.problem import Problem, Stream
from mdtensor.lower.schedule.declaration import free_on, tried
from mdtensor.lower.schedule.default_schedule import (
    WINDOW,
    can_scatter,
    combining_order,
    lane_dims,
    lane_width,
    nearest_first,
    plain,
)
from mdtensor.lower.schedule.parameter import (
    Constraint,
    SpaceParameter,
    over,
    permutations,
    running_products,
)
from mdtensor.lower.schedule.rules.row_stores import rows_across
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

_POINTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28)
_UNROLL = (1, 2, 4, 8, 16)
_VECTORS = (1, 2, 3, 4, 6, 8, 12, 16)
_TILES = (8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_MANY_PARTS = (96, 128, 192, 256, 384, 512, 768, 1024)  # of a scanned dim, small enough for caches
_MAX_GROUPS = 256
_MAX_BODY = 640
_MAX_PARTIALS = 1 << 24


def cpu_parameters(problem: Problem, target: Target) -> tuple[SpaceParameter, ...]:
    """The parameters of a problem with fixed extents."""
    return (
        *_lanes(problem, target),
        *_register_tiles(problem, target),
        *_cache_tiles(problem),
        *_parts(problem),
        *_orders(problem),
        *_staging(problem),
        *_finish(problem),
        SpaceParameter("scatter", (False, True) if can_scatter(problem) else (False,)),
        _in_turn(problem),
    )


def _lanes(problem: Problem, target: Target) -> tuple[SpaceParameter, ...]:
    widest = lane_width(problem, target)
    dims = lane_dims(problem, widest) if widest > 1 else ()

    def widths(lane: int) -> tuple[int, ...]:
        if lane < 0:
            return (1,)
        return tuple(w for w in (32, 16, 8, 4) if w <= widest) or (widest,)

    def vectors(lane: int, width: int) -> tuple[int, ...]:
        if lane < 0:
            return (1,)
        needed = -(-problem.extent(lane) // width)
        return tuple(v for v in _VECTORS if v <= needed) or (1,)

    return (
        SpaceParameter("lane", dims or (-1,)),
        SpaceParameter("width", widths),
        SpaceParameter("vectors", vectors),
    )


def _register_tiles(problem: Problem, target: Target) -> list[SpaceParameter]:
    """Parameters for points per dim, with running products to check limits."""
    results = len(problem.scalar.results)
    widest = max(dtype.itemsize for dtype in problem.scalar.result_dtypes)
    limit = target.vector_registers - 2
    registers_per_lane = widest / target.vector_bytes

    def start(width: int, vectors: int) -> tuple[int, ...]:
        return (math.ceil(max(1.0, width * registers_per_lane)) * vectors * results,)

    kept = [
        (SpaceParameter(f"r{d}", _points(problem, d, _POINTS)), f"accumulators{d}")
        for d in problem.kept
    ]
    reduced = [
        (SpaceParameter(f"r{d}", _points(problem, d, _unrolled(problem.extent(d)))), f"body{d}")
        for d in problem.contracted
    ]
    first = "accumulators_start"
    last = kept[-1][1] if kept else first
    return [
        SpaceParameter(first, start),
        *running_products(first, kept, limit, "registers"),
        *running_products(last, reduced, _MAX_BODY, "body"),
        *_rows(problem),
    ]


def _unrolled(extent: int) -> tuple[int, ...]:
    """Unroll factors of a reduced dim: some constants, or a whole window."""
    return tuple(sorted({*_UNROLL, *((extent,) if extent <= WINDOW else ())}))


def _points(problem: Problem, d: int, choices: tuple[int, ...]) -> Callable[..., tuple[int, ...]]:
    extent = problem.extent(d)
    if problem.keeps_order and d in problem.contracted[:-1]:
        choices = (1,)
    fitting = tuple(c for c in choices if c <= extent) or (1,)

    def points(lane: int) -> tuple[int, ...]:
        return (1,) if lane == d else fitting

    return points


def _cache_tiles(problem: Problem) -> list[SpaceParameter]:
    parameters: list[SpaceParameter] = []
    for d in problem.dims:
        extent = problem.extent(d)
        tileable = not problem.reduced[d] or _may_be_tiled(problem, d)
        # Steps of a window one by one, whose inputs then find place in nearer caches.
        window = problem.reduced[d] and 1 < extent <= WINDOW
        sizes = [t for t in ((1, *_TILES) if window else _TILES) if t < extent] if tileable else []
        parameters.append(SpaceParameter(f"t{d}", (0, *sizes)))
    return parameters


def _may_be_tiled(problem: Problem, d: int) -> bool:
    """Whether partial results of a combined dim may accumulate in the outputs."""
    in_order = problem.keeps_order and d != problem.contracted[0]
    return problem.accumulates_in_place and d != problem.scanned and not in_order


def _parts(problem: Problem) -> list[SpaceParameter]:
    factors: list[tuple[SpaceParameter, str]] = []
    kept_points = math.prod(problem.extent(d) for d in problem.kept)
    limit = _MAX_GROUPS if problem.scanned < 0 else _MANY_PARTS[-1]
    for d in problem.dims:
        extent = problem.extent(d)
        choices = (*_PARTS, *_MANY_PARTS) if d == problem.scanned else _PARTS
        counts = [p for p in choices if p <= extent]
        if problem.reduced[d]:
            counts = [p for p in counts if p * kept_points <= _MAX_PARTIALS and p * 64 <= extent]
            if problem.keeps_order and d != problem.contracted[0]:
                counts = []

        def values(inline: bool, counts: tuple[int, ...] = tuple(counts or [1])) -> tuple[int, ...]:
            return (1,) if inline else counts

        factors.append((SpaceParameter(f"p{d}", values), f"groups{d}"))
    return [
        SpaceParameter("inline", (False, True)),
        SpaceParameter("groups_start", (1,)),
        *running_products("groups_start", factors, limit, "groups"),
    ]


def _in_turn(problem: Problem) -> SpaceParameter:
    """The parameter for a one-kernel scan by groups in turn."""
    if problem.scanned < 0:
        return SpaceParameter("in_turn", (False,))

    def shared(parts: int) -> tuple[bool, ...]:
        return (False, True) if parts > 1 else (False,)

    return SpaceParameter("in_turn", over((f"p{problem.scanned}",), shared, "shared"))


def _orders(problem: Problem) -> list[SpaceParameter]:
    base = nearest_first(problem)
    kept = tuple(d for d in base if not problem.reduced[d])
    reduced = combining_order(problem)
    return [
        SpaceParameter("group_order", permutations(base)),
        SpaceParameter("loop_order", permutations(kept)),
        SpaceParameter(
            "reduce_order", (reduced,) if problem.keeps_order else permutations(reduced)
        ),
    ]


def _staging(problem: Problem) -> list[SpaceParameter]:
    """Parameters for which streams are staged, and whether any lies along the lanes.

    A stream's regions read what is known of those before it, so that they are chosen one after the
    other: a tree that knows all of them before the first answer has two sub-trees for each.
    """
    parameters = [SpaceParameter(_along(0), (False,))]

    def regions(_: bool) -> tuple[str, ...]:
        return ("", "scratch")

    for number, stream in enumerate(problem.streams):
        possible = number < problem.finish_streams and bool(problem.places(number))
        worthwhile = possible and problem.contracted and problem.scanned < 0

        def along(so_far: bool, region: str, lane: int, stream: Stream = stream) -> tuple[bool]:
            return (so_far or bool(region and stream.uses(lane)),)

        staged = f"staged{number}"
        values = over((_along(number),), regions, "regions") if worthwhile else ("",)
        parameters += [
            SpaceParameter(staged, values),
            SpaceParameter(
                _along(number + 1), over((_along(number), staged, "lane"), along, "along")
            ),
        ]
    return parameters


def _along(number: int) -> str:
    """The name of the parameter for whether an earlier stream is staged along the lanes."""
    return f"along{number}"


def _finish(problem: Problem) -> list[SpaceParameter]:
    def tails(lane: int, width: int) -> tuple[str, ...]:
        if lane not in problem.kept or problem.extent(lane) % width == 0:
            return ("split",)
        return tried(Schedule, "tail")

    def peel(lane: int, width: int, tail: str) -> tuple[bool, ...]:
        return (False, True) if _can(problem, lane, width, tail, peel=True) else (False,)

    def streaming(
        lane: int, width: int, tail: str, peel: bool, transposed: bool
    ) -> tuple[bool, ...]:
        how = {"peel": peel, "transposed": transposed}
        possible = _can(problem, lane, width, tail, streaming=True, **how)
        return (False, True) if possible else (False,)

    def ends_along_lanes(peel: bool, lane: int, loop_order: tuple[int, ...]) -> bool:
        return not peel or loop_order[-1] == lane

    def joins_streams(streaming: bool, peel: bool, rows_end: bool) -> bool:
        return streaming or not peel or rows_end

    constraints = [ends_along_lanes, *_unlike_peel(problem)]
    return [
        SpaceParameter("tail", tails),
        SpaceParameter("peel", peel, tuple(constraints)),
        _transposed(problem),
        SpaceParameter("streaming", streaming, (joins_streams,)),
        *(SpaceParameter(name, each.tried) for name, each in free_on(Schedule, "cpu").items()),
    ]


def _transposed(problem: Problem) -> SpaceParameter:
    """The parameter for transposing adjacent rows of a register tile."""
    near = [d for d in problem.kept if any(w.strides[d].constant == 1 for w in problem.writes)]
    if len(near) != 1 or problem.scanned >= 0:
        return SpaceParameter("transposed", (False,))

    def transposed(lane: int, rows: int) -> tuple[bool, ...]:
        possible = lane >= 0 and not problem.reduced[lane] and near[0] in rows_across(problem, lane)
        return (False, True) if possible and rows > 1 else (False,)

    return SpaceParameter("transposed", over(("lane", f"r{near[0]}"), transposed, "transposed"))


def _unlike_peel(problem: Problem) -> list[Constraint]:
    """Constraints of peeling: no tiles staged along the lanes, no split reductions."""

    def staged_elsewhere(peel: bool, along: bool) -> bool:
        return not (peel and along)

    def whole_reduction(peel: bool, parts: int) -> bool:
        return not peel or parts == 1

    return [
        over(("peel", _along(len(problem.streams))), staged_elsewhere, "staged_elsewhere"),
        *(over(("peel", f"p{d}"), whole_reduction, "whole_reduction") for d in problem.contracted),
    ]


def _rows(problem: Problem) -> list[SpaceParameter]:
    """Parameters for whether all rows of a register tile are equally aligned."""
    parameters = [SpaceParameter("rows_start", (True,))]
    before = "rows_start"
    for d in problem.kept:
        strides = [write.strides[d].constant for write in problem.writes]

        def together(
            so_far: bool,
            rows: int,
            width: int,
            strides: tuple[int | None, ...] = tuple(strides),
        ) -> tuple[bool, ...]:
            near = all(stride is not None and stride % width == 0 for stride in strides)
            return (so_far and (rows == 1 or near),)

        after = "rows_end" if d == problem.kept[-1] else f"rows{d}"
        parameters.append(
            SpaceParameter(after, over((before, f"r{d}", "width"), together, "together"))
        )
        before = after
    return parameters if problem.kept else [SpaceParameter("rows_end", (True,))]


def _can(
    problem: Problem,
    lane: int,
    width: int,
    tail: str,
    *,
    peel: bool = False,
    transposed: bool = False,
    streaming: bool = False,
) -> bool:
    """Whether a minimal schedule with the given lanes may be peeled, transposed or streaming."""
    base = plain(problem)
    order = tuple(d for d in base.loop_order if d != lane)
    rows = rows_across(problem, lane) if transposed else ()
    return is_valid(
        problem,
        replace(
            base,
            lane=lane,
            width=width,
            registers=tuple(width if d == lane else 1 + (d in rows) for d in problem.dims),
            loop_order=(*order, lane) if lane in base.loop_order else order,
            tail=tail,
            peel=peel,
            transposed=transposed,
            streaming=streaming,
        ),
    )
