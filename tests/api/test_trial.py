"""Timing candidates on a machine whose pace changes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from mdtensor.api import trial
from mdtensor.api.trial import Bench, Incumbent


@dataclass
class Machine:
    """Runs programs, which are seconds, at a pace that may change while somebody sleeps."""

    pace: float = 1.0
    after_sleeps: list[float] = field(default_factory=list[float])

    def timed(self, program: float, arrays: list[np.ndarray]) -> float:
        return program * self.pace

    def sleep(self, seconds: float) -> None:
        self.pace = self.after_sleeps.pop(0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(trial, "_timed", machine.timed)
    monkeypatch.setattr(trial, "_SECONDS", 0.0)
    # Not the function of `time` itself, which threads of other tests call too.
    clock = SimpleNamespace(sleep=machine.sleep, perf_counter=time.perf_counter)
    monkeypatch.setattr(trial, "time", clock)
    return machine


@pytest.fixture
def bench() -> Bench:
    bench = object.__new__(Bench)
    bench.arrays = []
    bench.incumbent = None
    return bench


def test_a_first_candidate_counts_as_measured(bench: Bench, machine: Machine) -> None:
    machine.pace = 2.0
    assert bench.steady(1e-3)[0] == pytest.approx(2e-3)


def test_the_incumbent_tells_the_pace(machine: Machine) -> None:
    incumbent = Incumbent(1e-3, 1e-3)
    assert incumbent.slowdown([]) == 1.0
    machine.pace = 2.0
    assert incumbent.slowdown([]) == pytest.approx(2.0)
    machine.pace = 0.5
    assert incumbent.slowdown([]) == 1.0


def test_a_candidate_waits_for_the_usual_pace(bench: Bench, machine: Machine) -> None:
    bench.incumbent = Incumbent(1e-3, 1e-3)
    machine.pace, machine.after_sleeps = 2.0, [1.0]
    assert bench.steady(1.5e-3)[0] == pytest.approx(1.5e-3)
    assert machine.after_sleeps == []


def test_what_stays_slow_is_scaled(bench: Bench, machine: Machine) -> None:
    bench.incumbent = Incumbent(1e-3, 1e-3)
    machine.pace, machine.after_sleeps = 2.0, [2.0, 2.0]
    assert bench.steady(1.2e-3)[0] == pytest.approx(1.2e-3)
    assert machine.after_sleeps == []


def test_a_quotient_makes_no_best(bench: Bench, machine: Machine) -> None:
    bench.incumbent = Incumbent(1e-3, 1e-3)
    machine.pace, machine.after_sleeps = 2.0, [2.0, 2.0]
    assert bench.steady(0.8e-3)[0] == pytest.approx(1e-3)


def test_a_faster_candidate_needs_no_second_look(bench: Bench, machine: Machine) -> None:
    bench.incumbent = Incumbent(1e-3, 1e-3)
    assert bench.steady(0.8e-3)[0] == pytest.approx(0.8e-3)
