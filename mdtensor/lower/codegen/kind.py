"""Kinds of schedules: the test for a kind, its validity rules, and its kernels."""

from __future__ import annotations

from collections.abc import Callable

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.kernel_sequence import LoopNests
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

Rule = Callable[[Problem, Schedule], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of schedules of a device.

    `applies` tells whether a problem on a target has the kind, `owns` whether a schedule is of it.
    `rules` are those that it adds to what every kernel needs; each lets pass what it does not
    concern. `cost` estimates seconds, `emit` makes the kernels.
    """

    name: str
    applies: Callable[[Problem, Target], bool]
    owns: Callable[[Problem, Schedule], bool]
    rules: tuple[Rule, ...]
    cost: Callable[[Problem, Schedule, Target], float]
    emit: Callable[[Frame], LoopNests]
