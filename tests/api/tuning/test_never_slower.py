"""What is tuned is never slower than what ran before, whatever the noise of the measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.worker.worker import WorkerError
from mdtensor.backends.protocol import ComputeDevice
from mdtensor.backends.select import open_device
from mdtensor.lower.gpu.base import device_limits
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.tuner import evaluations
from tests.api.gpu_family import GpuOnProcessor
from tests.api.stand_in_bench import Bench, number_of

BUDGET, TRIALS = "1h", 9  # which end the search long before


@pytest.fixture(params=["cpu", "gpu"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """The engine of NumPy's arrays, with a store of its own, or of a GPU that stands for it."""
    store = Store.open(tmp_path)
    device: ComputeDevice = open_device()
    if request.param == "gpu":
        monkeypatch.setattr(device_limits, "MOST_COMPUTATIONS", 32)  # which compilers like
        device = GpuOnProcessor()
    # What others computed decides what calls run untuned.
    monkeypatch.setitem(registry._engines, "numpy", Engine(device, lambda: store))
    registry.forget()
    yield registry.engine_for()
    registry.forget()


def plan_of(m: int) -> mdt.Plan:
    return mdt.compile("ij,jk->ik", mdt.spec((m, 48)), mdt.spec((48, 56)))


def problem_of(engine: Engine, plan: mdt.Plan) -> Problem:
    return engine.problem_of(plan.md_homs[0])


def noisy(seed: int, noise: float) -> Callable[[], float]:
    rng = Random(seed)
    return lambda: math.exp(rng.gauss(0, noise))


def kept(engine: Engine, problem: Problem) -> tuple[WinnerRow, Schedule]:
    found = engine.winner(problem)
    assert found is not None
    return found


def offered(engine: Engine, problem: Problem, schedule: Schedule, trials: int) -> None:
    """Makes a schedule the winner, of whose trials the store knows nothing but wonders."""
    engine.store.set_winner(
        problem_key(problem), engine.environment, schedule.to_json(), seconds=1e-7, trials=trials
    )


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_what_is_slower_than_untuned_never_wins(engine: Engine, bench: Bench, noise: float) -> None:
    """By many seeds: tests/autotune/test_paired_turns.py."""
    plan = plan_of(40)
    problem = problem_of(engine, plan)
    untuned = engine.usual(problem).schedule

    def seconds(schedule: Schedule) -> float:
        return 1e-6 * (1 if schedule == untuned else 1.01 + 0.1 * number_of(schedule) / 2**32)

    bench.outcome, bench.noise = seconds, noisy(1, noise)
    (report,) = plan.tune(BUDGET, quiet=True, abort=evaluations(TRIALS))
    assert report.gain == 1
    row, schedule = kept(engine, problem)
    assert (schedule, row.confirmed) == (untuned, True)


def test_what_is_three_per_cent_faster_wins(engine: Engine, bench: Bench) -> None:
    plan = plan_of(50)
    problem = problem_of(engine, plan)
    untuned = engine.usual(problem).schedule
    faster: list[Schedule] = []

    def seconds(schedule: Schedule) -> float:
        if schedule != untuned and not faster:
            faster.append(schedule)
        return 1e-6 * (0.97 if schedule in faster else 1.0 + (schedule != untuned) * 0.02)

    bench.outcome, bench.noise = seconds, noisy(0, 0.01)
    plan.tune(BUDGET, quiet=True, abort=evaluations(TRIALS))
    assert [kept(engine, problem)[1]] == faster


def test_an_earlier_winner_stays_unless_something_is_faster(engine: Engine, bench: Bench) -> None:
    plan = plan_of(41)
    problem = problem_of(engine, plan)
    plan.tune(BUDGET, quiet=True, abort=evaluations(4 * TRIALS))
    earlier = bench.measured[-1]
    engine.store.prune(everything=True)
    for seconds_of_others, stays in ((1.01e-6, True), (0.9e-6, False)):
        offered(engine, problem, earlier, trials=10**6)  # as another process or a team may
        bench.outcome = lambda schedule, others=seconds_of_others: (
            1e-6 if schedule == earlier else others
        )
        bench.measured.clear()
        plan.tune(BUDGET, quiet=True, abort=evaluations(TRIALS), again=True)
        assert earlier not in bench.measured
        assert (kept(engine, problem)[1] == earlier) == stays


def test_what_takes_no_turns_replaces_nothing(
    engine: Engine, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(42)
    problem = problem_of(engine, plan)
    untuned, more_for_each = engine.usual(problem).schedule, 0.0

    def seconds(schedule: Schedule) -> float:
        bench.trial_s += more_for_each
        return 2e-6 if schedule == untuned else 1e-6

    bench.outcome = seconds

    def crashes(schedules: object) -> list[list[float] | None]:
        raise WorkerError("it crashed")

    with monkeypatch.context() as patched:
        patched.setattr(bench, "by_turns", crashes)
        plan.tune(BUDGET, quiet=True, abort=evaluations(TRIALS))
    assert kept(engine, problem)[1] == untuned
    engine.store.prune(everything=True)
    more_for_each = 60.0  # the second one ends behind the budget
    (report,) = plan.tune(25, quiet=True)
    assert report.trials == 2
    row, schedule = kept(engine, problem)
    assert (schedule, row.confirmed) == (untuned, False)
    more_for_each = 0.0
    (report,) = plan.tune(BUDGET, quiet=True, abort=evaluations(TRIALS))
    assert not report.cached
    assert kept(engine, problem)[1] != untuned


@pytest.mark.parametrize("engine", ["gpu"], indirect=True)
def test_a_general_kernel_that_calls_run_meanwhile_is_what_a_winner_has_to_beat(
    engine: Engine, bench: Bench
) -> None:
    engine.usual(problem_of(engine, plan_of(64)))
    engine.settle()  # a general kernel
    plan = plan_of(65)
    problem = problem_of(engine, plan)
    usual = engine.usual(problem)
    assert usual.is_general
    bench.outcome = lambda schedule: 1e-6 if schedule == usual.schedule else 2e-6
    (report,) = plan.tune(BUDGET, quiet=True, abort=evaluations(TRIALS))
    assert report.gain == 1
    assert kept(engine, problem)[1] == usual.schedule
    own = engine.untuned(problem).schedule
    assert own != usual.schedule
