"""Conversion between a CPU space's configurations (see `cpu_space`) and schedules."""

from __future__ import annotations

from collections.abc import Mapping

from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.declaration import copied_from, copied_to
from mdtensor.lower.schedule.default_schedule import scattering
from mdtensor.lower.schedule.parameter import Value, dims_in, integer_in
from mdtensor.lower.schedule.rules.scratch_rules import within_scratch
from mdtensor.lower.schedule.schedule import Schedule


def schedule_on_cpu(problem: Problem, configuration: Mapping[str, Value]) -> Schedule:
    """Decode a configuration of the space as a schedule."""
    lane, width = integer_in(configuration, "lane", -1), integer_in(configuration, "width", 1)
    vectors = integer_in(configuration, "vectors", 1)
    registers = tuple(
        vectors * width if d == lane else integer_in(configuration, f"r{d}", 1)
        for d in problem.dims
    )
    schedule = Schedule(
        asm="cpu",
        parts=tuple(integer_in(configuration, f"p{d}", 1) for d in problem.dims),
        tiles=tuple(integer_in(configuration, f"t{d}", 0) for d in problem.dims),
        threads=(1,) * len(problem.extents),
        registers=registers,
        lane=lane,
        width=width,
        group_order=dims_in(configuration, "group_order"),
        loop_order=dims_in(configuration, "loop_order"),
        reduce_order=dims_in(configuration, "reduce_order"),
        staged=tuple(str(configuration[f"staged{n}"]) for n in range(len(problem.streams))),
        in_turn=_takes_turns(problem, registers, configuration),
        **copied_from(configuration, Schedule),
    )
    if configuration.get("scatter", False):
        schedule = scattering(problem, schedule)
    return within_scratch(problem, schedule)


def _takes_turns(
    problem: Problem, registers: tuple[int, ...], configuration: Mapping[str, Value]
) -> bool:
    """Whether groups scan in turn, which needs more than one group along the dim."""
    d = problem.scanned
    return bool(configuration.get("in_turn", False)) and problem.extent(d) > registers[d]


def configuration_on_cpu(problem: Problem, schedule: Schedule) -> dict[str, Value]:
    """Encode a schedule as a configuration of the space."""
    lane, width = schedule.lane, schedule.width
    configuration: dict[str, Value] = {
        "lane": lane,
        "width": width,
        "vectors": schedule.registers[lane] // width if lane >= 0 else 1,
        **copied_to(schedule),
        "in_turn": schedule.in_turn,
        "scatter": schedule.scatter,
        "group_order": schedule.group_order,
        "loop_order": schedule.loop_order,
        "reduce_order": schedule.reduce_order,
    }
    for d, (points, tile, parts) in enumerate(
        zip(schedule.registers, schedule.tiles, schedule.parts, strict=True)
    ):
        configuration |= {f"r{d}": 1 if d == lane else points, f"t{d}": tile, f"p{d}": parts}
    configuration |= {f"staged{n}": region for n, region in enumerate(schedule.staged)}
    return configuration
