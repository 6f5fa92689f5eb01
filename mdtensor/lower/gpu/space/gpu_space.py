"""The search space of a problem's schedules on a GPU: its parameters.

Every kind of schedule that the problem has is a value of the first parameter (see `gpu_kinds`);
what it leaves open are the values of the others (see `open_choices`); `gpu_configurations` says
what they mean. Limits are checked on running products, dim after dim, so that a space of many dims
has few different sub-trees. What only the whole schedule tells, such as the bytes of staged tiles,
is checked by `gpu_candidates.misfit` before anything is compiled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from mdtensor.lower.gpu.base.block_shapes import kept_order
from mdtensor.lower.gpu.base.device_limits import most_items
from mdtensor.lower.gpu.base.gpu_kind import PLANES
from mdtensor.lower.gpu.base.gpu_resources import REGISTERS
from mdtensor.lower.gpu.base.open_choices import Choices
from mdtensor.lower.gpu.register_blocking.gpu_candidates import MOST_STEPS
from mdtensor.lower.gpu.space.gpu_kinds import kinds_of
from mdtensor.lower.gpu.streaming.pointwise_candidates import leads_of
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.declaration import Declaration, free_on
from mdtensor.lower.schedule.default_schedule import combining_order
from mdtensor.lower.schedule.parameter import (
    Constraint,
    SpaceParameter,
    Value,
    over,
    permutations,
    running_products,
)
from mdtensor.lower.schedule.schedule import MOST_OF_CLUSTER, Schedule
from mdtensor.specs import Target

LANES = (0, 1, 2, 4, 8, 16, 32)  # of a warp along the columns; 0 for warps row by row
_FEW_WORDS = 32  # registers for all that is no accumulator, at the least
_MOST_HELD = 64  # points whose results wait for each other, without a reduction

Kinds = Mapping[str, Choices]
Values = Callable[..., tuple[Value, ...]]


def gpu_parameters(problem: Problem, target: Target) -> tuple[SpaceParameter, ...]:
    """The parameters of a problem with fixed extents."""
    kinds = kinds_of(problem, target)
    return (
        SpaceParameter("kind", tuple(kinds)),
        *_points(problem, kinds),
        *_work_items(problem, target, kinds),
        *_staged_tiles(problem, kinds),
        *_parts(problem, kinds),
        *_orders(problem, kinds),
        *_results(problem, kinds),
        *_free(kinds),
    )


def _free(kinds: Kinds) -> Iterable[SpaceParameter]:
    """The parameters that are independent of the schedule's others, as declared."""
    for name, declared in free_on(Schedule, "gpu").items():
        yield SpaceParameter(name, _given(kinds, partial(_tried, declared), name))


def _tried(declared: Declaration, kind: Choices) -> tuple[Value, ...]:
    return declared.tried if kind.resident or not declared.of_resident else (declared.neutral,)


def _given(kinds: Kinds, choices: Callable[[Choices], Iterable[Value]], name: str) -> Values:
    """The values of a parameter as a function of the kind alone."""
    by_kind = {each: tuple(choices(kind)) for each, kind in kinds.items()}
    return over(("kind",), by_kind.__getitem__, name)


def _points(problem: Problem, kinds: Kinds) -> Iterable[SpaceParameter]:
    """Parameters for points of a work-item along every dim, and for their chunks."""
    words = sum(-(-t.itemsize // 4) for t in problem.scalar.result_dtypes)
    stepped = [d for d in problem.contracted if d != problem.scanned]
    held = [d for d in problem.dims if d not in stepped]
    most = (REGISTERS - _FEW_WORDS) // words
    if not stepped:
        most = min(most, _MOST_HELD)
    yield from _multiplied("accumulators", "r", held, kinds, lambda k: k.points, most, "registers")
    yield from _multiplied(
        "steps", "r", stepped, kinds, lambda k: k.points, MOST_STEPS, "instructions"
    )
    for d in problem.dims:
        yield SpaceParameter(f"c{d}", over(("kind", f"r{d}"), _chunks(kinds, d), "chunks"))


def _chunks(kinds: Kinds, d: int) -> Callable[[str, int], tuple[int, ...]]:
    def chunks(kind: str, count: int) -> tuple[int, ...]:
        possible = [n or count for n in kinds[kind].chunks[d]]
        return tuple(dict.fromkeys(n for n in possible if count % n == 0))

    return chunks


def _multiplied(
    product: str,
    prefix: str,
    dims: Iterable[int],
    kinds: Kinds,
    choices: Callable[[Choices], tuple[tuple[int, ...], ...]],
    limit: int,
    what: str,
) -> Iterable[SpaceParameter]:
    """A parameter for every dim, each followed by the running product: `product1` and so on.

    The choices of a parameter read the product before it, which has them chosen in this order:
    what follows depends on the product then, and on none of its factors.
    """
    factors: list[tuple[SpaceParameter, str]] = []
    for n, d in enumerate(dims):
        by_kind = {each: choices(kind)[d] for each, kind in kinds.items()}
        values = over((f"{product}{n}", "kind"), _of_kind(by_kind), "choices")
        factors.append((SpaceParameter(f"{prefix}{d}", values), f"{product}{n + 1}"))
    yield SpaceParameter(f"{product}0", (1,))
    yield from running_products(f"{product}0", factors, limit, what)


def _of_kind(by_kind: Mapping[str, tuple[int, ...]]) -> Callable[[int, str], tuple[int, ...]]:
    def choices(before: int, kind: str) -> tuple[int, ...]:
        return by_kind[kind]

    return choices


def _work_items(problem: Problem, target: Target, kinds: Kinds) -> Iterable[SpaceParameter]:
    """Parameters for work-items of a group along every dim, and for the shape of warps.

    Only what is resident lets them share kept dims and reduced ones.
    """
    kept, shared = kept_order(problem), _shared_dims(problem, kinds)
    dims = (*shared, *kept)
    yield from _multiplied(
        "items", "x", dims, kinds, lambda k: k.items, most_items(target), "work_items"
    )
    reduced = [f"x{d}" for d in shared if d != problem.scanned]
    constraint = _share_one_kind(kinds, len(dims))
    yield SpaceParameter("sharing", over(reduced, _all_of, "all_of"), (constraint,))
    columns = [f"x{d}" for d in kept[-1:]]
    yield SpaceParameter("lanes", over(("kind", "sharing", *columns), _lanes(kinds), "lanes"))


def _shared_dims(problem: Problem, kinds: Kinds) -> list[int]:
    """The reduced dims that work-items of some kind share."""
    several = [
        max(map(max, column)) > 1 for column in zip(*(k.items for k in kinds.values()), strict=True)
    ]
    return [d for d in problem.contracted if several[d]]


def _all_of(*counts: int) -> tuple[int]:
    product = 1
    for count in counts:
        product *= count
    return (product,)


def _share_one_kind(kinds: Kinds, dims: int) -> Constraint:
    def share_one_kind_of_dims(kind: str, sharing: int, items: int) -> bool:
        return kinds[kind].resident or sharing in (1, items)

    names = ("kind", "sharing", f"items{dims}")
    return over(names, share_one_kind_of_dims, "share_one_kind_of_dims")


def _lanes(kinds: Kinds) -> Callable[..., tuple[int, ...]]:
    """The parameter for lanes of a warp along the columns; 0: numbered row by row."""

    def lanes(kind: str, sharing: int, columns: int = 0) -> tuple[int, ...]:
        if not kinds[kind].lanes or sharing > 1 or not columns:
            return (0,)
        return tuple(n for n in LANES if n == 0 or columns % n == 0)

    return lanes


def _staged_tiles(problem: Problem, kinds: Kinds) -> Iterable[SpaceParameter]:
    """Parameters of staging: which inputs, in tiles of which reduced dims, and how."""
    last = len(problem.streams) - 1
    for n in range(last + 1):
        regions = {each: kind.staged[n] for each, kind in kinds.items()}
        yield SpaceParameter(f"staged{n}", over(("kind",), regions.__getitem__, "regions"))
        names = ("kind", f"staged{n}")
        paddings = _if_staged(kinds, lambda kind: kind.padding, 0)
        yield SpaceParameter(f"padding{n}", over(names, paddings, "paddings"))
        layouts = _if_staged(kinds, lambda kind: kind.as_source, False)
        yield SpaceParameter(f"as_source{n}", over(names, layouts, "layouts"))
        # So far, and in the end: what follows depends on no stream of its own.
        before = [f"staging{n - 1}"] if n else []
        after = "staging" if n == last else f"staging{n}"
        yield SpaceParameter(after, over([*before, f"staged{n}"], _staging, "staging"))
    for d in problem.contracted:
        yield _tile(problem, kinds, d)
    tiles = [f"t{d}" for d in problem.contracted]
    yield SpaceParameter("tiled", over(tiles, _tiled, "tiled"))
    names = ("kind", "staging", "tiled")
    yield SpaceParameter("stages", over(names, _stages(kinds), "stages"))
    yield SpaceParameter("prefetch", over((*names, "stages"), _prefetches(kinds), "prefetches"))


def _if_staged(
    kinds: Kinds, choices: Callable[[Choices], tuple[Value, ...]], otherwise: Value
) -> Callable[[str, str], tuple[Value, ...]]:
    def chosen(kind: str, region: str) -> tuple[Value, ...]:
        return choices(kinds[kind]) if region else (otherwise,)

    return chosen


def _staging(*regions: str | bool) -> tuple[bool]:
    """Whether any stream so far is staged."""
    return (any(regions),)


def _tile(problem: Problem, kinds: Kinds, d: int) -> SpaceParameter:
    def choices(kind: str, staging: bool) -> tuple[int, ...]:
        return kinds[kind].tiles[d] if staging else (0,)

    def holds_whole_blocks(tile: int, points: int, items: int = 1) -> bool:
        return tile % (points * items) == 0

    several = d in _shared_dims(problem, kinds)
    names = (f"t{d}", f"r{d}", *([f"x{d}"] if several else []))
    return SpaceParameter(
        f"t{d}",
        over(("kind", "staging"), choices, "choices"),
        (over(names, holds_whole_blocks, "holds_whole_blocks"),),
    )


def _tiled(*tiles: int) -> tuple[int]:
    """The number of tiled reduced dims."""
    return (sum(map(bool, tiles)),)


def _stages(kinds: Kinds) -> Callable[[str, bool, int], tuple[int, ...]]:
    def stages(kind: str, staging: bool, tiled: int) -> tuple[int, ...]:
        return kinds[kind].stages if (staging and tiled) or kind == PLANES else (0,)

    return stages


def _prefetches(kinds: Kinds) -> Callable[[str, bool, int, int], tuple[bool, ...]]:
    def prefetches(kind: str, staging: bool, tiled: int, stages: int) -> tuple[bool, ...]:
        possible = staging and (tiled == 1 or stages > 1)
        return (False, True) if kinds[kind].prefetch and possible else (False,)

    return prefetches


def _parts(problem: Problem, kinds: Kinds) -> Iterable[SpaceParameter]:
    """Parameters for groups that share a reduced dim, and for blocks per group of a kept one."""

    def of_groups(d: int) -> Callable[[Choices], tuple[int, ...]]:
        return lambda kind: kind.parts[d]

    def of_blocks(d: int) -> Callable[[Choices], tuple[int, ...]]:
        return lambda kind: kind.blocks[d]

    for d in problem.contracted:
        some = any(kind.tensor for kind in kinds.values())
        whole = [_whole_matrices(problem, kinds, d)] if some else []
        yield SpaceParameter(f"p{d}", _given(kinds, of_groups(d), "groups"), tuple(whole))
    for d in problem.kept:
        yield SpaceParameter(f"b{d}", _given(kinds, of_blocks(d), "blocks"))


def _whole_matrices(problem: Problem, kinds: Kinds, d: int) -> Constraint:
    """The constraint that tiles of matrices are whole; bulk copies may pad a dim's last one."""
    extent = problem.extent(d)

    def has_whole_matrices(kind: str, points: int, parts: int, tile: int) -> bool:
        if kinds[kind].tensor is None:
            return True
        if not kinds[kind].bulk:
            return extent % (parts * tile) == 0
        part = -(-extent // points // parts) * points
        return parts == 1 or part % tile == 0

    names = ("kind", f"r{d}", f"p{d}", f"t{d}")
    return over(names, has_whole_matrices, "has_whole_matrices")


def _orders(problem: Problem, kinds: Kinds) -> list[SpaceParameter]:
    """Parameters for orders of dims, and for numbering groups in swaths."""
    kept, reduced = kept_order(problem), combining_order(problem)

    def loops(kind: Choices) -> Iterable[Value]:
        pairs = tuple(itertools.pairwise(kind.before))
        found = [o for o in permutations(kept) if all(o.index(a) < o.index(b) for a, b in pairs)]
        return found or [(*(d for d in kept if d not in kind.before), *kind.before)]

    return [
        SpaceParameter("grid_order", permutations(kept)),
        SpaceParameter("loop_order", _given(kinds, loops, "loops")),
        SpaceParameter(
            "reduce_order", (reduced,) if problem.keeps_order else permutations(reduced)
        ),
        SpaceParameter("reduced_last", _given(kinds, lambda kind: kind.last, "last")),
        SpaceParameter("swath", _given(kinds, lambda kind: kind.swaths, "swaths")),
    ]


def _results(problem: Problem, kinds: Kinds) -> list[SpaceParameter]:
    """Parameters for blocks' first offsets and ends, streaming stores, and combining groups."""
    kept = kept_order(problem)

    def leads(kind: str, staging: bool, near: int = 0) -> tuple[int, ...]:
        return leads_of(problem, kept[-1], near) if kinds[kind].leads and not staging else (0,)

    near = [f"c{d}" for d in kept[-1:]]
    if not kept:
        near = []
    return [
        SpaceParameter(
            "lead", over(("kind", "staging", *near), leads if kept else _no_lead, "leads")
        ),
        SpaceParameter("march", over(("kind", "staging"), _marches(kinds), "marches")),
        SpaceParameter("tail", _given(kinds, lambda kind: kind.tails, "tails")),
        SpaceParameter("streaming", _given(kinds, lambda kind: kind.streaming, "streaming")),
        SpaceParameter("last_group", _given(kinds, lambda kind: kind.last_group, "last_group")),
        SpaceParameter("long_indices", _given(kinds, _lengths_of_indices, "lengths_of_indices")),
        *_clusters(problem, kinds),
        *_ways(problem, kinds),
    ]


def _lengths_of_indices(kind: Choices) -> tuple[bool, ...]:
    """The choices for 64-bit indices where 32 bits would do, which alters register allocation."""
    return (False, True) if kind.resident and not kind.bulk else (False,)


def _clusters(problem: Problem, kinds: Kinds) -> list[SpaceParameter]:
    """The parameter for combining a split reduction in a cluster, if its groups are few."""
    if not any(True in kind.clusters for kind in kinds.values()):
        return []

    def clusters(kind: str, last_group: bool, *parts: int) -> tuple[bool, ...]:
        few = 1 < math.prod(parts) <= MOST_OF_CLUSTER
        return kinds[kind].clusters if few and not last_group else (False,)

    names = ("kind", "last_group", *(f"p{d}" for d in problem.contracted))
    return [SpaceParameter("cluster", over(names, clusters, "clusters"))]


def _marches(kinds: Kinds) -> Callable[[str, bool], tuple[bool, ...]]:
    def marches(kind: str, staging: bool) -> tuple[bool, ...]:
        return kinds[kind].marches if not staging or kind == PLANES else (False,)

    return marches


def _ways(problem: Problem, kinds: Kinds) -> list[SpaceParameter]:
    """The parameter for the memory through which results leave; direct for split reductions."""
    if all(kind.results == ("",) for kind in kinds.values()):
        return []

    def ways(kind: str, *parts: int) -> tuple[str, ...]:
        return kinds[kind].results if max(parts, default=1) == 1 else ("",)

    names = ("kind", *(f"p{d}" for d in problem.contracted))
    return [SpaceParameter("results", over(names, ways, "ways"))]


def _no_lead(kind: str, staging: bool) -> tuple[int]:
    return (0,)
