"""Tuning on GPUs: the same processes and protocol, with a processor in the place of the GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.tuning import measurer
from mdtensor.autotune.store.store import Store
from mdtensor.lower.gpu.base import device_limits
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from tests.api.gpu_family import GpuOnProcessor
from tests.api.short_searches import search_trials, search_until

pytestmark = pytest.mark.campaign

BENCHES = "tests.api.gpu_family"
FAULTY = {"ok", "timeout", "crashed", "wrong"}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine of a GPU that a processor stands for, with a store of its own."""
    store = Store.open(tmp_path)
    engine = Engine(GpuOnProcessor(), lambda: store)
    monkeypatch.setitem(registry._engines, "numpy", engine)
    monkeypatch.setattr(measurer, "BENCH", f"{BENCHES}:open_bench")
    # Short texts: compilers for processors take seconds for the large register tiles of GPUs.
    monkeypatch.setattr(device_limits, "MOST_COMPUTATIONS", 32)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    registry.forget()
    yield engine
    registry.forget()


def plan_of(m: int, k: int, n: int) -> mdt.Plan:
    return mdt.compile("ij,jk->ik", mdt.spec((m, k)), mdt.spec((k, n)))


def rows_of(engine: Engine, plan: mdt.Plan) -> Counter[str]:
    """How many trials had each outcome."""
    key = problem_key(plan.choices()[0].problem)
    return Counter(row.status for row in engine.store.trials(key, engine.environment))


def test_a_tuned_plan_is_right_and_a_resident_schedule_wins(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_trials(monkeypatch, 24)
    plan = plan_of(64, 48, 80)
    (report,) = plan.tune(300, quiet=True)
    assert report.trials > 3
    assert report.failed == 0
    (choice,) = plan.choices()
    assert choice.origin == "tuned"
    assert choice.schedule.asm == "gpu"
    rng = np.random.default_rng(0)
    a, b = rng.random((64, 48), np.float32), rng.random((48, 80), np.float32)
    np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-5)
    schedules = [
        Schedule.from_json(row.schedule)
        for row in engine.store.trials(problem_key(choice.problem), engine.environment)
    ]
    assert any(schedule.resident for schedule in schedules)
    assert len(set(schedules)) == len(schedules)
    (again,) = plan.tune(8, quiet=True)
    assert (again.cached, again.trials) == (True, 0)


def test_a_computation_of_one_element_is_tuned(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_trials(monkeypatch, 4)
    plan = mdt.compile("i,i->", mdt.spec((1,)), mdt.spec((1,)))
    (report,) = plan.tune(300, quiet=True)
    assert report.failed == 0
    a = np.full(1, 3, np.float32)
    assert plan(a, a) == 9


def test_what_is_taken_untuned_is_measured_first_and_confirmed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed: list[Schedule] = []
    by_turns = measurer.Measurer.by_turns
    monkeypatch.setattr(
        measurer.Measurer,
        "by_turns",
        lambda self, schedules: confirmed.extend(schedules) or by_turns(self, schedules),
    )
    plan = plan_of(48, 32, 56)
    untuned = plan.choices()[0]
    plan.tune(6, quiet=True)
    assert untuned.schedule in confirmed
    rows = engine.store.trials(problem_key(untuned.problem), engine.environment)
    first = min(rows, key=lambda row: row.created)
    assert Schedule.from_json(first.schedule) == untuned.schedule


def test_several_computations_are_tuned_by_the_same_processes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[measurer.Measurer] = []
    begin = measurer.Measurer.begin
    monkeypatch.setattr(
        measurer.Measurer, "begin", lambda self, problem: (made.append(self), begin(self, problem))
    )
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,j->i", np.ones((40, 64), "f4"), np.ones(64, "f4"))
        mdt.reduce("ij->i", np.ones((40, 64), "f4"), combine="max")
    reports = mdt.tune(seen, budget=8, quiet=True)
    assert [report.failed for report in reports] == [0, 0]
    assert all(report.trials > 0 for report in reports)
    assert len(made) == 2
    assert made[0] is made[1]


def test_ctrl_c_while_a_bench_is_opened_ends_the_search(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: measurer.Measurer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measurer.Measurer, "opened", interrupted)
    (report,) = plan_of(40, 24, 40).tune(900, quiet=True)
    assert (report.interrupted, report.trials, report.seconds) == (True, 0, None)
    assert report.elapsed < 200


def test_what_hangs_or_crashes_is_recorded_and_tuning_goes_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurer, "BENCH", f"{BENCHES}:open_faulty_bench")
    monkeypatch.setattr(measurer, "TRIAL_SECONDS", 1.0)
    search_until(monkeypatch, lambda found: set(found) >= FAULTY)
    plan = plan_of(32, 24, 48)
    plan.tune(300, quiet=True)
    assert set(rows_of(engine, plan)) >= FAULTY
    assert plan.choices()[0].origin == "tuned"


def test_a_lost_device_is_opened_anew(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurer, "BENCH", f"{BENCHES}:open_lost_bench")
    search_until(monkeypatch, lambda found: found["ok"] >= found["crashed"] > 1)
    plan = plan_of(32, 24, 40)
    plan.tune(300, quiet=True)
    key = problem_key(plan.choices()[0].problem)
    rows = engine.store.trials(key, engine.environment)
    crashed = [row for row in rows if row.status == "crashed"]
    assert len(crashed) > 1
    assert "an illegal memory access" in crashed[0].detail
    assert sum(row.status == "ok" for row in rows) >= len(crashed)
