"""Conversion between a GPU space's configurations (see `gpu_space`) and schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from mdtensor.lower.gpu.base.block_shapes import kept_order, warp_of
from mdtensor.lower.gpu.base.gpu_kind import LOOK_BACK, PLANES, SCATTER, SCATTER_TOGETHER
from mdtensor.lower.gpu.base.open_choices import WHOLE, Choices
from mdtensor.lower.gpu.space.gpu_kinds import kinds_of, name_of_kind
from mdtensor.lower.gpu.space.gpu_space import LANES
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.declaration import copied_from, copied_to
from mdtensor.lower.schedule.default_schedule import plain, scattering
from mdtensor.lower.schedule.parameter import Value, dims_in, integer_in
from mdtensor.lower.schedule.rules.scratch_rules import within_scratch
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

_Given = TypeVar("_Given", bool, int)


def schedule_on_gpu(
    problem: Problem, target: Target, configuration: Mapping[str, Value]
) -> Schedule:
    """Decode a configuration of the space as a schedule."""
    name = str(configuration["kind"])
    kind = kinds_of(problem, target)[name]

    def by_dim(prefix: str, default: int) -> tuple[int, ...]:
        return tuple(integer_in(configuration, f"{prefix}{d}", default) for d in problem.dims)

    kept = kept_order(problem)
    registers, threads, blocks = by_dim("r", 1), by_dim("x", 1), by_dim("b", 1)
    lead = integer_in(configuration, "lead", 0)
    leads = tuple(lead if kept and d == kept[-1] else 0 for d in problem.dims)
    parts = list(by_dim("p", 1))
    for d in problem.dims:
        if not problem.reduced[d] or parts[d] == WHOLE:
            whole = -(-(problem.extent(d) + leads[d]) // (registers[d] * threads[d]))
            parts[d] = -(-whole // blocks[d])
    reduce_order, grid_order = (dims_in(configuration, f"{n}_order") for n in ("reduce", "grid"))
    last = bool(configuration["reduced_last"])
    schedule = replace(
        plain(problem, "gpu"),
        parts=tuple(parts),
        threads=threads,
        registers=registers,
        group_order=(*grid_order, *reduce_order) if last else (*reduce_order, *grid_order),
        loop_order=dims_in(configuration, "loop_order"),
        reduce_order=reduce_order,
        **copied_from(configuration, Schedule),
    )
    if kind.resident:
        led = replace(schedule, lead=leads if lead else ())
        schedule = _resident(problem, kind, led, configuration)
    scatters = name in (SCATTER, SCATTER_TOGETHER)
    return within_scratch(problem, scattering(problem, schedule) if scatters else schedule)


def _resident(
    problem: Problem, kind: Choices, schedule: Schedule, configuration: Mapping[str, Value]
) -> Schedule:
    """The schedule with the additional fields of a resident one."""
    streams = range(len(problem.streams))
    lanes = integer_in(configuration, "lanes", 0)
    warp = kind.warp
    if lanes:
        warp = tuple(warp_of(schedule.threads, kept_order(problem), lanes))
    resident = replace(
        schedule,
        tiles=tuple(integer_in(configuration, f"t{d}", 0) for d in problem.dims),
        staged=tuple(str(configuration[f"staged{n}"]) for n in streams),
        resident=True,
        chunks=tuple(integer_in(configuration, f"c{d}", 1) for d in problem.dims),
        warp=warp,
        padding=_unless_none(integer_in(configuration, f"padding{n}", 0) for n in streams),
        as_source=_unless_none(bool(configuration[f"as_source{n}"]) for n in streams),
        tensor=kind.tensor or (),
        bulk=kind.bulk,
        **copied_from(configuration, Schedule, resident=True),
    )
    if resident.march and is_valid(problem, resident):
        return resident
    resident = replace(resident, march=False)
    if str(configuration["kind"]) == PLANES:  # nothing is on its way to groups that stay
        return replace(resident, staged=("",) * len(streams), stages=0, results="")
    return resident


def _unless_none(values: Iterable[_Given]) -> tuple[_Given, ...]:
    given = tuple(values)
    return given if any(given) else ()


def configuration_on_gpu(problem: Problem, schedule: Schedule) -> dict[str, Value]:
    """Encode a schedule as a configuration, without values that follow from others.

    What the space does not hold is repaired by `Space.nearest`.
    """
    kind = name_of_kind(problem, schedule)
    configuration: dict[str, Value] = {
        "kind": kind,
        **copied_to(schedule),
        "lanes": 0 if schedule.tensor else _lanes_of(problem, schedule),
        "lead": sum(schedule.lead),
        "grid_order": tuple(d for d in schedule.group_order if not problem.reduced[d]),
        "loop_order": schedule.loop_order,
        "reduce_order": schedule.reduce_order,
        "reduced_last": any(problem.reduced[d] for d in schedule.group_order[-1:]),
    }
    chunks = schedule.chunks or schedule.registers
    leads = schedule.lead or (0,) * len(schedule.parts)
    for d in problem.dims:
        points, items = schedule.registers[d], schedule.threads[d]
        whole = -(-(problem.extent(d) + leads[d]) // (points * items))
        configuration |= {f"r{d}": points, f"x{d}": items}
        configuration |= {f"c{d}": chunks[d], f"t{d}": schedule.tiles[d]}
        blocks = -(-whole // schedule.parts[d])
        if not schedule.bulk:
            blocks = _blocks_of(whole, schedule.parts[d])
        configuration |= {f"p{d}": schedule.parts[d], f"b{d}": blocks}
    if kind == LOOK_BACK:
        configuration[f"p{problem.scanned}"] = WHOLE
    padding = schedule.padding or (0,) * len(schedule.staged)
    as_source = schedule.as_source or (False,) * len(schedule.staged)
    for n, region in enumerate(schedule.staged):
        configuration |= {f"staged{n}": region, f"padding{n}": padding[n] if region else 0}
        configuration[f"as_source{n}"] = as_source[n] and bool(region)
    return configuration


def _blocks_of(whole: int, parts: int) -> int:
    """The least power of two of blocks per part that gives at most `parts` parts."""
    blocks = 1
    while blocks < whole and -(-whole // blocks) > parts:
        blocks *= 2
    return blocks


def _lanes_of(problem: Problem, schedule: Schedule) -> int:
    """The number of lanes along the columns that gives the schedule's warps."""
    if not schedule.warp:
        return 0
    kept, threads = kept_order(problem), schedule.threads
    possible = [n for n in LANES if n and threads[kept[-1]] % n == 0]
    same = (n for n in possible if tuple(warp_of(threads, kept, n)) == schedule.warp)
    return next(same, schedule.warp[kept[-1]])
