"""Search options: technique, abort condition, fixed values, and objectives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from random import Random
from types import MappingProxyType
from typing import Any, cast

from mdtensor.autotune.progress import format_time
from mdtensor.autotune.search.abort_conditions import Condition
from mdtensor.autotune.search.pareto import pareto_front
from mdtensor.autotune.search.proposals import technique_named
from mdtensor.autotune.search.techniques import MakeTechnique
from mdtensor.autotune.space.space import Space
from mdtensor.backends.host.energy_counter import POWERCAP, EnergyCounter
from mdtensor.dataclass import dataclass
from mdtensor.errors import TuningError, shown
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.parameter import SpaceParameter
from mdtensor.lower.search.candidates import broken_rule
from mdtensor.lower.search.fixed_values import Fixed, FixedValue
from mdtensor.lower.search.schedule_space import parameters_of, schedule_from
from mdtensor.options import beginning, is_iterable, is_one_of
from mdtensor.specs import Target

# What may be asked for to be small, and the value below which less counts for little.
OBJECTIVES: Mapping[str, float] = MappingProxyType(
    {"time": 1e-7, "compile_time": 1e-3, "scratch": 4096.0, "energy": 1e-6}
)
TIME_ONLY = ("time",)
# Of the logarithm of the time, what counts besides other objectives, which are often equal.
_TIE = 0.01
_SAMPLES = 200
_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of a search beside its budget; the defaults suit most problems."""

    technique: MakeTechnique | None = None
    abort: Condition | None = None
    fixed: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    objectives: tuple[str, ...] = TIME_ONLY

    @staticmethod
    def of(
        technique: str | MakeTechnique | None,
        abort: Condition | None,
        fixed: Mapping[str, object] | None,
        objective: str | Sequence[str],
    ) -> SearchOptions:
        """The options from a user's arguments, checked; TuningError for wrong ones."""
        given: Any = abort
        if given is not None and not isinstance(given, Condition):
            raise TuningError(
                f"{shown(given)} is no condition to end a search",
                hint="mdtensor.tuner has them: evaluations(200) | speedup(1.02, seconds=10)",
            )
        values: Any = {} if fixed is None else fixed
        if not isinstance(values, Mapping):
            raise TuningError(
                f"fixed values are a dict by the names of a schedule, not {shown(values)}",
                hint='such as {"tiles": {"i": 64}, "streaming": True}',
            )
        return SearchOptions(
            None if technique is None else technique_named(technique),
            abort,
            cast("Mapping[str, object]", values),
            _objectives_of(objective),
        )

    @property
    def by_time(self) -> bool:
        """Whether time is the only objective."""
        return self.objectives == TIME_ONLY

    @property
    def narrows(self) -> bool:
        """Whether the search has fixed values or objectives other than time."""
        return bool(self.fixed) or not self.by_time

    def check(self, problem: Problem, target: Target) -> None:
        """Raises TuningError where no schedule of a problem can satisfy the options."""
        if "energy" in self.objectives:
            if target.kind == "gpu":
                raise TuningError("the energy of GPUs is not read", hint=_hint_of_objectives())
            if EnergyCounter.found() is None:
                raise TuningError(
                    "the energy that this machine takes cannot be read",
                    hint=f"{POWERCAP}/intel-rapl:*/energy_uj has to be there, and readable",
                )
        fixed = Fixed.of(problem, self.fixed)
        if fixed:
            _check_values(problem, target, fixed)


def _objectives_of(objective: str | Sequence[str]) -> tuple[str, ...]:
    is_one = isinstance(objective, str) or not is_iterable(objective)
    names: Sequence[Any] = [objective] if is_one else beginning(objective, len(OBJECTIVES))
    for name in names:
        if not is_one_of(name, OBJECTIVES):
            raise TuningError(f"unknown objective {shown(name)}", hint=_hint_of_objectives())
    if not names or len(set(names)) < len(names):
        raise TuningError(
            f"objectives are one or several different ones, not {shown(objective)}",
            hint=_hint_of_objectives(),
        )
    return tuple(names)


def _hint_of_objectives() -> str:
    return f"one of {', '.join(OBJECTIVES)}, or several, the most important first"


def _check_values(problem: Problem, target: Target, fixed: Fixed) -> None:
    """Raises TuningError where no schedule has the fixed values; the error lists valid ones."""
    parameters = parameters_of(problem, target)
    space, rng, why = Space(fixed.narrowed(parameters)), Random(0), ""
    for _ in range(_SAMPLES if space else 0):
        schedule = schedule_from(problem, target, space.sample(rng))
        why = broken_rule(problem, schedule, target)
        if not why and fixed.hold(schedule):
            return
    if space:
        reason = why or "other values follow from what is searched through"
        raise TuningError(f"no schedule was found that has {fixed}", hint=reason)
    for value in fixed.values:
        if not Space(Fixed(problem, (value,)).narrowed(parameters)):
            raise TuningError(
                f"no schedule has {value.text}", hint=_values_there_are(problem, parameters, value)
            )
    raise TuningError(f"no schedule has all of {fixed}", hint="each of them alone is possible")


def _values_there_are(
    problem: Problem, parameters: Sequence[SpaceParameter], fixed: FixedValue
) -> str:
    """The valid values of a parameter for a problem, as users write them."""
    values = Space(parameters).domains.get(fixed.parameter, ())
    if not values:
        return "it has one value alone here"
    return f"values there are: {', '.join(fixed.written(problem, value) for value in values)}"


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """A measured schedule with its costs by objective: seconds, bytes and joules."""

    schedule: str
    costs: Mapping[str, float]

    def __str__(self) -> str:
        return ", ".join(f"{name} {_shown(name, cost)}" for name, cost in self.costs.items())


def _shown(name: str, cost: float) -> str:
    if name == "scratch":
        return f"{cost:.0f} bytes"
    return f"{cost:.3g} J" if name == "energy" else format_time(cost)


def front_of(points: Iterable[Tradeoff], objectives: Sequence[str]) -> tuple[Tradeoff, ...]:
    """The Pareto front of points, sorted by the first objective."""
    whole = [point for point in points if all(name in point.costs for name in objectives)]
    return tuple(pareto_front(whole, lambda point: [point.costs[name] for name in objectives]))


def scalar_cost(costs: Mapping[str, float], objectives: Sequence[str]) -> float:
    """The geometric mean of several costs, as one number for search techniques.

    Infinity where one was not measured. The time counts a little even if it is no objective.

    >>> scalar_cost({"time": 1e-3, "scratch": 0.0}, ("scratch",)) < scalar_cost(
    ...     {"time": 2e-3, "scratch": 0.0}, ("scratch",)
    ... )
    True
    """
    if any(name not in costs for name in objectives):
        return math.inf
    logarithms = [math.log(costs[name] + OBJECTIVES[name]) for name in objectives]
    tie = _TIE * math.log(costs.get("time", 1.0) + OBJECTIVES["time"])
    return math.exp(math.fsum(logarithms) / len(logarithms) + tie)
