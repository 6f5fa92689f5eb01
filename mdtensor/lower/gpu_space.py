"""The space of a problem's schedules on a GPU: its parameters, and what they mean as a schedule.

Limits are checked on running products, dim after dim, so that a space of many dims has few
different sub-trees. What only the whole schedule tells, such as the bytes of staged tiles, is
checked by `gpu_candidates.misfit` before anything is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mdtensor.lower.candidates import can_scatter, combining_order, plain, scattering
from mdtensor.lower.gpu_candidates import (
    MOST_PARTIALS,
    MOST_STEPS,
    POINTS,
    can_be_resident,
    can_be_staged,
    can_stream,
    item_counts,
    kept_order,
    most_items,
    shared_dim,
    warp_of,
)
from mdtensor.lower.gpu_cost import REGISTERS
from mdtensor.lower.parameter import (
    Constraint,
    Parameter,
    Value,
    dims_in,
    integer_in,
    over,
    permutations,
)
from mdtensor.lower.problem import Problem
from mdtensor.lower.schedule import Schedule
from mdtensor.specs import Target

_STEPS = (1, 2, 4, 8, 16, 32)
_CHUNKS = (1, 2, 4, 8)
_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_PARTS_OF_CORE = (1, 2, 4, 8, 16, 32)
_PADDINGS = (0, 1, 4)
_SWATHS = (0, 2, 4, 8, 16)
_STAGES = (0, 2, 3, 4, 5)
_LANES = (0, 1, 2, 4, 8, 16, 32)
_FEW_WORDS = 32  # registers for all that is no accumulator, at the least

Values = Callable[..., tuple[Value, ...]]


def gpu_parameters(problem: Problem, target: Target) -> tuple[Parameter, ...]:
    """The parameters of a problem with fixed extents."""
    return (
        *_families(problem),
        *_points(problem),
        *_work_items(problem, target),
        *_staged_tiles(problem),
        *_parts(problem, target),
        *_orders(problem),
        *_results(problem, target),
    )


def _families(problem: Problem) -> list[Parameter]:
    """Whether results are scattered, or accumulators stay in registers."""
    scatter = Parameter("scatter", (False, True) if can_scatter(problem) else (False,))
    if not can_be_resident(problem):
        return [scatter, Parameter("resident", (False,))]

    def resident(scatter: bool) -> tuple[bool, ...]:
        return (False,) if scatter else (True, False)

    return [scatter, Parameter("resident", resident)]


def _points(problem: Problem) -> Iterable[Parameter]:
    """Points of a work-item along every dim, and how many of them are neighbours."""
    words = sum(-(-t.itemsize // 4) for t in problem.scalar.result_dtypes)
    of_kept = {f"r{d}": _choices_of_points(problem, d) for d in problem.kept}
    of_reduced = {f"r{d}": _choices_of_points(problem, d) for d in problem.contracted}
    most = (REGISTERS - _FEW_WORDS) // words
    yield from _multiplied("accumulators", of_kept, most, "registers", can_scatter(problem))
    yield from _multiplied("steps", of_reduced, MOST_STEPS, "instructions")
    for d in problem.dims:
        yield Parameter(f"c{d}", over(("resident", f"r{d}"), _chunks, "chunks"))


def _choices_of_points(problem: Problem, d: int) -> tuple[int, ...]:
    extent = problem.extent(d)
    if not problem.reduced[d]:
        return tuple(n for n in POINTS if n <= extent)
    if problem.keeps_order and d != problem.contracted[-1]:
        return (1,)
    return tuple(n for n in _STEPS if n <= max(8, extent))


def _chunks(resident: bool, count: int) -> tuple[int, ...]:
    if not resident:
        return (count,)
    return tuple(dict.fromkeys((*(n for n in _CHUNKS if count % n == 0), count)))


def _multiplied(
    product: str,
    choices: Mapping[str, tuple[int, ...]],
    limit: int,
    what: str,
    unless_scattered: bool = False,
) -> Iterable[Parameter]:
    """Parameters, each followed by the product so far: `product1`, `product2` and so on.

    The choices of a parameter read the product before it, which has them chosen in this order:
    what follows depends on the product then, and on none of its factors.
    """

    def fits(product: int) -> bool:
        return product <= limit

    yield Parameter(f"{product}0", (1,))
    for n, (name, values) in enumerate(choices.items()):
        before, after = f"{product}{n}", f"{product}{n + 1}"
        yield Parameter(name, _in_order(before, values, unless_scattered))
        constraint = over((after,), fits, f"fits_{what}")
        yield Parameter(after, over((before, name), _product, "product"), (constraint,))


def _product(before: int, factor: int) -> tuple[int]:
    return (before * factor,)


def _in_order(before: str, values: tuple[int, ...], unless_scattered: bool) -> Values:
    def choices(before: int, scatter: bool = False) -> tuple[int, ...]:
        return (1,) if scatter else values

    return over((before, "scatter") if unless_scattered else (before,), choices, "choices")


def _work_items(problem: Problem, target: Target) -> Iterable[Parameter]:
    """Work-items of a group along every dim, and how they lie in warps.

    Of the reduced dims they share that whose elements lie nearest; and only resident accumulators
    let them share kept dims besides.
    """
    shared, kept = shared_dim(problem), kept_order(problem)
    choices = {f"x{d}": item_counts(problem.extent(d)) for d in (shared, *kept) if d >= 0}
    most = most_items(target)
    yield from _multiplied("items", choices, most, "work_items", can_scatter(problem))
    sharing = [f"x{shared}"] if shared >= 0 else []
    yield Parameter("sharing", over(sharing, _same, "same"), (_share_one_kind(len(choices)),))
    columns = [f"x{d}" for d in kept[-1:]]
    yield Parameter("lanes", over(("resident", "sharing", *columns), _lanes, "lanes"))


def _same(count: int = 1) -> tuple[int]:
    return (count,)


def _share_one_kind(dims: int) -> Constraint:
    def share_one_kind_of_dims(resident: bool, sharing: int, items: int) -> bool:
        return resident or sharing in (1, items)

    names = ("resident", "sharing", f"items{dims}")
    return over(names, share_one_kind_of_dims, "share_one_kind_of_dims")


def _lanes(resident: bool, sharing: int, columns: int = 0) -> tuple[int, ...]:
    """Work-items of a warp along the columns; 0 where they are numbered row by row."""
    if not resident or sharing > 1 or not columns:
        return (0,)
    return tuple(n for n in _LANES if n == 0 or columns % n == 0)


def _staged_tiles(problem: Problem) -> Iterable[Parameter]:
    """Which inputs are copied to local memory first, in tiles of which reduced dims, and how."""
    streams = range(len(problem.streams))
    for n in streams:
        yield Parameter(f"staged{n}", _regions if can_be_staged(problem, n) else ("",))
        yield Parameter(f"padding{n}", over((f"staged{n}",), _paddings, "paddings"))
        yield Parameter(f"as_source{n}", over((f"staged{n}",), _either_if, "layouts"))
    yield Parameter("staging", over([f"staged{n}" for n in streams], _staging, "staging"))
    for d in problem.contracted:
        yield _tile(problem, d)
    tiles = [f"t{d}" for d in problem.contracted]
    yield Parameter("tiled", over(tiles, _tiled, "tiled"))
    yield Parameter("stages", over(("staging", "tiled"), _stages, "stages"))
    yield Parameter("prefetch", over(("staging", "tiled"), _prefetches, "prefetches"))


def _regions(resident: bool) -> tuple[str, ...]:
    return ("", "local") if resident else ("",)


def _paddings(region: str) -> tuple[int, ...]:
    return _PADDINGS if region else (0,)


def _staging(*regions: str) -> tuple[bool]:
    return (any(regions),)


def _tile(problem: Problem, d: int) -> Parameter:
    if problem.keeps_order and d != problem.contracted[0]:
        return Parameter(f"t{d}", (0,))
    depths = (0, *(n for n in _DEPTHS if n <= max(32, problem.extent(d))))

    def choices(staging: bool) -> tuple[int, ...]:
        return depths if staging else (0,)

    def holds_whole_blocks(tile: int, points: int, items: int = 1) -> bool:
        return tile % (points * items) == 0

    names = (f"t{d}", f"r{d}", *([f"x{d}"] if d == shared_dim(problem) else []))
    return Parameter(f"t{d}", choices, (over(names, holds_whole_blocks, "holds_whole_blocks"),))


def _either_if(region: str) -> tuple[bool, ...]:
    return (False, True) if region else (False,)


def _tiled(*tiles: int) -> tuple[int]:
    """How many reduced dims have tiles."""
    return (sum(map(bool, tiles)),)


def _stages(staging: bool, tiled: int) -> tuple[int, ...]:
    return _STAGES if staging and tiled else (0,)


def _prefetches(staging: bool, tiled: int) -> tuple[bool, ...]:
    return (False, True) if staging and tiled == 1 else (False,)


def _parts(problem: Problem, target: Target) -> Iterable[Parameter]:
    """Parts of reduced dims, for groups that share a reduction."""
    kept_points = math.prod(problem.extent(d) for d in problem.kept)
    counts = sorted({*_PARTS, *(n * target.cores for n in _PARTS_OF_CORE)})
    for d in problem.contracted:
        most = min(problem.extent(d), MOST_PARTIALS // kept_points)
        if problem.keeps_order and d != problem.contracted[0]:
            most = 1
        yield Parameter(f"p{d}", tuple(n for n in counts if n <= max(1, most)))


def _orders(problem: Problem) -> list[Parameter]:
    """Orders of dims, and whether groups are numbered in swaths."""
    kept, reduced = kept_order(problem), combining_order(problem)
    return [
        Parameter("grid_order", permutations(kept)),
        Parameter("loop_order", permutations(kept)),
        Parameter("reduce_order", (reduced,) if problem.keeps_order else permutations(reduced)),
        Parameter("reduced_last", (False, True) if kept and reduced else (bool(reduced),)),
        Parameter("swath", _SWATHS if len(kept) > 1 else (0,)),
    ]


def _results(problem: Problem, target: Target) -> list[Parameter]:
    """Whether results bypass the caches, and who combines those of groups."""
    possible = can_stream(problem)
    counted = target.counts_groups and bool(problem.contracted) and not problem.keeps_order

    def streaming(resident: bool) -> tuple[bool, ...]:
        return (False, True) if resident and possible else (False,)

    def last_group(resident: bool) -> tuple[bool, ...]:
        return (False, True) if resident and counted else (False,)

    return [Parameter("streaming", streaming), Parameter("last_group", last_group)]


def schedule_on_gpu(problem: Problem, configuration: Mapping[str, Value]) -> Schedule:
    """The schedule that a configuration of the space stands for."""

    def by_dim(prefix: str, default: int) -> tuple[int, ...]:
        return tuple(integer_in(configuration, f"{prefix}{d}", default) for d in problem.dims)

    kept, streams = kept_order(problem), range(len(problem.streams))
    registers, threads = by_dim("r", 1), by_dim("x", 1)
    parts = list(by_dim("p", 1))
    for d in problem.kept:
        parts[d] = -(-problem.extent(d) // (registers[d] * threads[d]))
    reduce_order, grid_order = (dims_in(configuration, f"{n}_order") for n in ("reduce", "grid"))
    last = bool(configuration["reduced_last"])
    simple = replace(
        plain(problem, "gpu"),
        parts=tuple(parts),
        threads=threads,
        registers=registers,
        group_order=(*grid_order, *reduce_order) if last else (*reduce_order, *grid_order),
        loop_order=dims_in(configuration, "loop_order"),
        reduce_order=reduce_order,
        swath=integer_in(configuration, "swath", 0),
    )
    if configuration["scatter"]:
        return scattering(problem, simple)
    if not configuration["resident"]:
        return simple
    lanes = integer_in(configuration, "lanes", 0)
    return replace(
        simple,
        tiles=by_dim("t", 0),
        staged=tuple(str(configuration[f"staged{n}"]) for n in streams),
        resident=True,
        chunks=by_dim("c", 1),
        warp=tuple(warp_of(threads, kept, lanes)) if lanes else (),
        padding=tuple(integer_in(configuration, f"padding{n}", 0) for n in streams),
        prefetch=bool(configuration["prefetch"]),
        stages=integer_in(configuration, "stages", 0),
        as_source=_unless_none(bool(configuration[f"as_source{n}"]) for n in streams),
        streaming=bool(configuration["streaming"]),
        last_group=bool(configuration["last_group"]),
    )


def _unless_none(flags: Iterable[bool]) -> tuple[bool, ...]:
    given = tuple(flags)
    return given if any(given) else ()


def configuration_on_gpu(problem: Problem, schedule: Schedule) -> dict[str, Value]:
    """The configuration that stands for a schedule, less what follows from the rest.

    What the space does not hold is repaired by `Space.nearest`.
    """
    configuration: dict[str, Value] = {
        "scatter": schedule.scatter,
        "resident": schedule.resident,
        "prefetch": schedule.prefetch,
        "stages": schedule.stages if schedule.stages > 1 else 0,
        "streaming": schedule.streaming,
        "last_group": schedule.last_group,
        "swath": schedule.swath if schedule.swath > 1 else 0,
        "lanes": _lanes_of(problem, schedule),
        "grid_order": tuple(d for d in schedule.group_order if not problem.reduced[d]),
        "loop_order": schedule.loop_order,
        "reduce_order": schedule.reduce_order,
        "reduced_last": problem.reduced[schedule.group_order[-1]],
    }
    chunks = schedule.chunks or schedule.registers
    for d in problem.dims:
        configuration |= {f"r{d}": schedule.registers[d], f"x{d}": schedule.threads[d]}
        configuration |= {f"c{d}": chunks[d], f"t{d}": schedule.tiles[d]}
        configuration[f"p{d}"] = schedule.parts[d]
    padding = schedule.padding or (0,) * len(schedule.staged)
    as_source = schedule.as_source or (False,) * len(schedule.staged)
    for n, region in enumerate(schedule.staged):
        configuration |= {f"staged{n}": region, f"padding{n}": padding[n] if region else 0}
        configuration[f"as_source{n}"] = as_source[n] and bool(region)
    return configuration


def _lanes_of(problem: Problem, schedule: Schedule) -> int:
    """Which number of lanes along the columns gives the schedule's warps."""
    if not schedule.warp:
        return 0
    kept, threads = kept_order(problem), schedule.threads
    possible = [n for n in _LANES if n and threads[kept[-1]] % n == 0]
    same = (n for n in possible if tuple(warp_of(threads, kept, n)) == schedule.warp)
    return next(same, schedule.warp[kept[-1]])
