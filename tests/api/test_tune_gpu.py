"""Tuning on GPUs: the same search, with a processor in the place of the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.tuning import bench_worker, tune
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.worker.pickling import packed
from mdtensor.lower.gpu.base import device_limits
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.tuner import evaluations
from tests.api import stand_in_bench
from tests.api.gpu_family import FaultError, GpuOnProcessor, lost_device
from tests.api.stand_in_bench import Bench, number_of


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine of a GPU that a processor stands for, with a store of its own."""
    store = Store.open(tmp_path)
    engine = Engine(GpuOnProcessor(), lambda: store)
    monkeypatch.setitem(registry._engines, "numpy", engine)
    # Short texts: compilers for processors take seconds for the large register tiles of GPUs.
    monkeypatch.setattr(device_limits, "MOST_COMPUTATIONS", 32)
    registry.forget()
    yield engine
    registry.forget()


@pytest.fixture
def bench(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """What measures in this test: a stand-in, for which resident schedules are fastest."""

    def seconds(schedule: Schedule) -> float:
        return (1e-6 if schedule.resident else 3e-6) * (1 + number_of(schedule) / 2**32)

    return stand_in_bench.use(Bench(seconds), monkeypatch)


def plan_of(m: int, k: int, n: int) -> mdt.Plan:
    return mdt.compile("ij,jk->ik", mdt.spec((m, k)), mdt.spec((k, n)))


def test_a_tuned_plan_is_right_and_a_resident_schedule_wins(engine: Engine, bench: Bench) -> None:
    plan = plan_of(64, 48, 80)
    (report,) = plan.tune("1h", quiet=True, abort=evaluations(24))
    assert report.trials > 3
    (choice,) = plan.choices()
    assert choice.origin == "tuned"
    assert choice.schedule.asm == "gpu"
    assert choice.schedule.resident
    rng = np.random.default_rng(0)
    a, b = rng.random((64, 48), np.float32), rng.random((48, 80), np.float32)
    np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-5)
    rows = engine.store.trials(problem_key(choice.problem), engine.environment)
    assert [Schedule.from_json(row.schedule) for row in rows] == bench.measured
    assert len(set(bench.measured)) == len(rows)
    (again,) = plan.tune(8, quiet=True)
    assert (again.cached, again.trials) == (True, 0)


def test_a_computation_of_one_element_is_tuned(engine: Engine, bench: Bench) -> None:
    plan = mdt.compile("i,i->", mdt.spec((1,)), mdt.spec((1,)))
    (report,) = plan.tune("1h", quiet=True, abort=evaluations(4))
    assert report.trials
    a = np.full(1, 3, np.float32)
    assert plan(a, a) == 9


def test_what_is_taken_untuned_is_measured_first_and_confirmed(
    engine: Engine, bench: Bench
) -> None:
    plan = plan_of(48, 32, 56)
    untuned = plan.choices()[0]
    plan.tune("1h", quiet=True, abort=evaluations(3))
    assert bench.measured[0] == untuned.schedule
    assert untuned.schedule in bench.confirmed


def test_several_computations_have_one_measurer(engine: Engine) -> None:
    with tune.Measurers(60.0) as measurers:
        assert measurers.of(engine, "numpy") is measurers.of(engine, "numpy")


def test_a_process_whose_device_is_lost_ends(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one opens it anew."""
    ends: list[int] = []

    def ended(status: int) -> None:
        ends.append(status)
        raise SystemExit

    monkeypatch.setattr(bench_worker.os, "_exit", ended)
    device = lost_device()
    benches = bench_worker.Benches(Engine(device, Store.in_memory))
    choice = plan_of(8, 9, 10).choices()[0]
    request = {"problem": packed(choice.problem), "schedule": choice.schedule.to_json()}
    with pytest.raises(SystemExit):
        benches.handle(request)
    assert ends == [bench_worker._LOST]
    device.is_lost = lambda: False  # type: ignore[method-assign]
    reply = benches.handle(request)
    assert reply == {"status": "crashed", "detail": f"FaultError: {FaultError.words}"}
