"""GpuKind: an entry in the registry of kinds of schedules on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.kind import Kind
from mdtensor.lower.gpu.base.gpu_resources import LocalBytes, local_bytes
from mdtensor.lower.gpu.base.open_choices import Choices
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

SIMPLE, SCATTER, RESIDENT = "simple", "scatter", "resident"
LOOK_BACK, SCATTER_TOGETHER = "look_back", "scatter_together"
MATRICES, BULK = "matrices", "bulk"
PLANES = "planes"

Pairs = list[tuple[float, Schedule]]
ChoicesByName = Callable[[Problem, Target], Mapping[str, Choices]]


def _no_candidates(_problem: Problem, _target: Target) -> Iterable[Schedule]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKind(Kind):
    """A kind of schedules on a GPU, with its candidates and its place in the search space.

    `space` has what it leaves open, by name: one entry, but for matrices whose rows can lie in
    several ways. `candidates` may yield schedules of other kinds too; `best` finds the best ones
    among them without estimating all. `local` counts the bytes of local memory of a group.
    """

    space: ChoicesByName
    candidates: Callable[[Problem, Target], Iterable[Schedule]] = _no_candidates
    best: Callable[[Problem, Target, int | None], Pairs] | None = None
    local: LocalBytes = local_bytes


def named(name: str, choices: Callable[[Problem, Target], Choices]) -> ChoicesByName:
    """The choices of a kind that has a single name."""
    return lambda problem, target: {name: choices(problem, target)}


def is_plain(schedule: Schedule) -> bool:
    """Whether a schedule is resident, and neither scatters nor multiplies matrices."""
    return schedule.resident and not schedule.scatter and not schedule.tensor
