"""Timing candidates on a machine whose pace changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mdtensor.api.tuning import cpu_timer
from mdtensor.api.tuning.cpu_timer import HostClock, Incumbent


@dataclass
class Machine:
    """Runs that take seconds, at a pace that may change while somebody sleeps."""

    pace: float = 1.0
    after_sleeps: list[float] = field(default_factory=list[float])
    now: float = 0.0

    def run(self, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds * self.pace

        return run

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pace = self.after_sleeps.pop(0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(cpu_timer, "time", machine)
    return machine


@pytest.fixture
def host_clock(machine: Machine) -> HostClock:
    """A clock that knows a run of a millisecond."""
    made = HostClock()
    made.incumbent = Incumbent(machine.run(1e-3), 1e-3)
    return made


def test_a_first_candidate_counts_as_measured(machine: Machine) -> None:
    machine.pace = 2.0
    made = HostClock()
    assert made.steady(machine.run(1e-3))[0] == pytest.approx(2e-3)
    assert made.incumbent is not None


def test_the_incumbent_tells_the_pace(host_clock: HostClock, machine: Machine) -> None:
    assert host_clock.slowdown() == pytest.approx(1.0)
    machine.pace = 2.0
    assert host_clock.slowdown() == pytest.approx(2.0)
    machine.pace = 0.5
    assert host_clock.slowdown() == 1.0


def test_a_candidate_waits_for_the_usual_pace(host_clock: HostClock, machine: Machine) -> None:
    machine.pace, machine.after_sleeps = 2.0, [1.0]
    assert host_clock.steady(machine.run(1.2e-3))[0] == pytest.approx(1.2e-3)
    assert machine.after_sleeps == []


@pytest.mark.parametrize("pace", [1.0, 2.0])
def test_a_candidate_that_is_clearly_slower_is_timed_briefly(
    host_clock: HostClock, machine: Machine, pace: float
) -> None:
    machine.pace = pace
    assert host_clock.steady(machine.run(1.5e-3))[0] == pytest.approx(1.5e-3)
    assert machine.now < cpu_timer._SECONDS / 2 + 0.01
    began = machine.now
    machine.pace = 1.0
    host_clock.steady(machine.run(1.2e-3))
    assert machine.now - began > cpu_timer._SECONDS


def test_one_that_looks_slow_since_the_machine_is_has_a_closer_look(
    host_clock: HostClock, machine: Machine
) -> None:
    machine.pace, machine.after_sleeps = 2.0, [1.0]
    assert host_clock.steady(machine.run(0.9e-3))[0] == pytest.approx(0.9e-3)
    assert host_clock.incumbent is not None
    assert host_clock.incumbent.seconds == pytest.approx(0.9e-3)


def test_long_runs_are_made_once_a_turn(machine: Machine) -> None:
    (found,) = HostClock().by_turns([machine.run(2 * cpu_timer.LONG)])
    assert found == pytest.approx([2 * cpu_timer.LONG] * cpu_timer._ROUNDS)
    assert machine.now == pytest.approx(2 * cpu_timer._ROUNDS * cpu_timer.LONG)


def test_what_stays_slow_is_scaled(host_clock: HostClock, machine: Machine) -> None:
    machine.pace, machine.after_sleeps = 2.0, [2.0, 2.0]
    assert host_clock.steady(machine.run(1.2e-3))[0] == pytest.approx(1.2e-3)
    assert machine.after_sleeps == []


def test_a_quotient_counts_and_makes_no_incumbent(host_clock: HostClock, machine: Machine) -> None:
    machine.pace, machine.after_sleeps = 2.0, [2.0, 2.0]
    assert host_clock.steady(machine.run(0.8e-3))[0] == pytest.approx(0.8e-3)
    assert host_clock.incumbent is not None
    assert host_clock.incumbent.seconds == pytest.approx(1e-3)


def test_a_machine_that_stays_slow_is_waited_for_once(
    host_clock: HostClock, machine: Machine
) -> None:
    machine.pace, machine.after_sleeps = 2.0, [2.0, 2.0]
    host_clock.steady(machine.run(1.2e-3))
    assert host_clock.steady(machine.run(1.1e-3))[0] == pytest.approx(1.1e-3)
    machine.pace = 1.0
    assert host_clock.steady(machine.run(1.1e-3))[0] == pytest.approx(1.1e-3)
    machine.pace, machine.after_sleeps = 2.0, [1.0]
    assert host_clock.steady(machine.run(1.1e-3))[0] == pytest.approx(1.1e-3)
    assert machine.after_sleeps == []


def test_a_faster_candidate_needs_no_second_look(host_clock: HostClock, machine: Machine) -> None:
    assert host_clock.steady(machine.run(0.8e-3))[0] == pytest.approx(0.8e-3)
    assert host_clock.incumbent is not None
    assert host_clock.incumbent.seconds == pytest.approx(0.8e-3)


def test_short_runs_are_timed_after_pauses_too(machine: Machine) -> None:
    awake = [0.0]  # until when the threads are

    def run(seconds: float, waking: float) -> Callable[[], None]:
        def timed() -> None:
            machine.now += seconds + (waking if machine.now > awake[0] else 0.0)
            awake[0] = machine.now + 1e-4

        return timed

    machine.after_sleeps = [1.0] * (2 * cpu_timer._PAUSES * cpu_timer._ROUNDS)
    alone, together = HostClock().by_turns([run(14e-6, 0.0), run(12e-6, 10e-6)])
    assert alone == pytest.approx([14e-6] * cpu_timer._ROUNDS)
    assert together == pytest.approx([17e-6] * cpu_timer._ROUNDS)
    (long,) = HostClock().by_turns([run(1e-3, 10e-6)])
    assert long == pytest.approx([1e-3] * cpu_timer._ROUNDS, rel=1e-3)


def test_runs_take_turns(machine: Machine) -> None:
    order: list[int] = []

    def run(number: int) -> Callable[[], None]:
        def timed() -> None:
            order.append(number)
            machine.now += 0.1 * number

        return timed

    found = HostClock().by_turns([run(1), None, run(2)])
    turns = cpu_timer._ROUNDS
    assert found == [pytest.approx([0.1] * turns), None, pytest.approx([0.2] * turns)]
    found_order = [n for n, before in zip(order, [0, *order], strict=False) if n != before]
    assert found_order == [1, 2] * turns
