"""A bench for tests of tuning: times are functions of schedules, on a clock of its own.

Nothing is run, compiled or waited for, and no process begins.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from mdtensor.api.tuning import tune
from mdtensor.api.tuning.measurer import _OPENING_GRACE, TooLateError
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.paired_turns import Turns
from mdtensor.autotune.trial import Trial
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule

_ROUNDS = 4


class Clock:
    """Seconds that pass when something takes them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def number_of(schedule: Schedule) -> int:
    """A number of 32 bits, by the schedule's text."""
    return zlib.crc32(schedule.to_json().encode())


def some_microseconds(schedule: Schedule) -> float:
    """One to two microseconds, by the schedule's text."""
    return 1e-6 * (1 + number_of(schedule) / 2**32)


class Bench:
    """Stands for the `Measurer` of a device: `outcome` gives the seconds of a schedule, or a Trial.

    A trial takes `trial_s` on the clock, making the arrays and the reference of a problem
    `opens_s`, and turns take what their schedules take. All times are multiplied by what `noise`
    gives for each.
    """

    ahead, apart, is_open = 0, True, True

    def __init__(self, outcome: Callable[[Schedule], float | Trial] = some_microseconds) -> None:
        self.outcome = outcome
        self.trial_s, self.opens_s = 0.5, 1.0
        self.noise: Callable[[], float] = lambda: 1.0
        self.clock = Clock()
        self.deadline = Deadline(math.inf, self.clock)
        # What it was asked for: problems, with the moment by which each shall end; schedules; and
        # the numbers of steps of calls.
        self.begun: list[tuple[Problem, float]] = []
        self.measured: list[Schedule] = []
        self.confirmed: list[Schedule] = []
        self.calls: list[int] = []

    def begin(self, problem: Problem) -> None:
        self.begun.append((problem, self.clock.now + self.deadline.left))

    def opened(self) -> None:
        longest = self.deadline.left + _OPENING_GRACE
        self.clock.now += min(self.opens_s, longest)
        if self.opens_s > longest:
            raise TooLateError("the worker was not ready in time")

    def prepare(self, schedule: Schedule) -> None:
        """Nothing is compiled."""

    def trial(self, schedule: Schedule, best: float | None) -> Trial:
        self.measured.append(schedule)
        self.clock.now += self.trial_s
        found = self.outcome(schedule)
        return found if isinstance(found, Trial) else Trial("ok", found * self.noise(), 0.0)

    def costs(self, schedule: Schedule) -> Mapping[str, float]:
        if schedule not in self.measured:
            return {}
        number = number_of(schedule)
        costs = {"compile_time": 1e-3 * (number % 11), "scratch": 64.0 * (number % 3)}
        return {"time": self._seconds(schedule), **costs}

    def different(self, schedules: Iterable[Schedule]) -> list[Schedule]:
        return list(schedules)

    def by_turns(self, schedules: Sequence[Schedule]) -> Turns:
        self.confirmed.extend(schedules)
        return self._turns([self._seconds(each) for each in schedules])

    def calls_by_turns(
        self, steps: Sequence[Any], schedules: Sequence[Sequence[Schedule]]
    ) -> Turns:
        self.calls.append(len(steps))
        return self._turns([sum(map(self._seconds, each)) for each in schedules])

    def _seconds(self, schedule: Schedule) -> float:
        found = self.outcome(schedule)
        return found.cost if isinstance(found, Trial) else found

    def _turns(self, seconds: Sequence[float]) -> Turns:
        """Each has one at least, and none begins another one behind the deadline."""
        times: list[list[float]] = [[] for _ in seconds]
        for number in range(_ROUNDS):
            if number and self.deadline.is_over:
                break
            for each, taken in zip(seconds, times, strict=True):
                if each < math.inf:
                    taken.append(each * self.noise())
                    self.clock.now += taken[-1]
        return [taken or None for taken in times]


def use(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Has a bench measure for all devices, by whose clock tuning goes."""

    class StandIns(tune.Measurers):
        clock = staticmethod(bench.clock)

        def of(self, engine: Any, arrays: str) -> Any:
            return bench

    monkeypatch.setattr(tune, "Measurers", StandIns)
    return bench
