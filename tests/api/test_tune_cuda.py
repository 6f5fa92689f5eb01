"""Tuning on CuPy arrays, by processes that open the CUDA device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning import measurer
from mdtensor.autotune.store.store import Store
from mdtensor.backends.cuda.cuda_comparison import CudaComparison
from mdtensor.backends.cuda.cupy_device import open_device
from mdtensor.bounded import Bounded
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import kind_of
from mdtensor.tuner import evaluations
from tests import children

pytestmark = pytest.mark.gpu


@pytest.fixture
def own_store(cupy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store of this test's own."""
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    store = Store.open()
    monkeypatch.setattr(registry.engine_for("cupy"), "_open_store", lambda: store)
    registry.forget()
    yield store
    registry.forget()


SECOND_PROCESS = """
import cupy, mdtensor as mdt
from mdtensor.tuner import evaluations
a, b = cupy.ones((100, 200), "f4"), cupy.ones((200, 300), "f4")
plan = mdt.compile("ij,jk->ik", a, b)
(report,) = plan.tune("1h", quiet=True, abort=evaluations(8))
print(plan.choices()[0].origin, report.trials, float(plan(a, b)[0, 0]))
"""


def test_a_winner_is_found_and_a_second_process_has_it(own_store: Store, cupy: Any) -> None:
    rng = np.random.default_rng(0)
    left, right = rng.random((100, 200), np.float32), rng.random((200, 300), np.float32)
    a, b = cupy.asarray(left), cupy.asarray(right)
    plan = mdt.compile("ij,jk->ik", a, b)
    # Trials and turns are counted: a budget in seconds may have room for neither where others
    # use the device, and then nothing is confirmed.
    (report,) = plan.tune("1h", quiet=True, abort=evaluations(8))
    assert report.trials > 1
    (choice,) = plan.choices()
    assert (choice.origin, choice.schedule.asm) == ("tuned", "gpu")
    np.testing.assert_allclose(plan(a, b).get(), left @ right, rtol=1e-4)
    out = cupy.empty((100, 300), "f4")
    for _ in range(2):
        plan(a, b, out=out)
    np.testing.assert_allclose(out.get(), left @ right, rtol=1e-4)
    assert children.run("-c", SECOND_PROCESS).out.split() == ["tuned", "0", "200.0"]


def test_recorded_calls_are_tuned_for_the_arrays_that_they_had(own_store: Store, cupy: Any) -> None:
    x = cupy.asarray(np.random.default_rng(1).random((300, 500), np.float32))
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,j->i", x, x[0])
        mdt.reduce("ij->i", x, combine="max")
    assert [item.arrays for item in seen] == ["cupy", "cupy"]
    reports = mdt.tune(seen, "1h", quiet=True, abort=evaluations(4))
    assert all(report.seconds is not None for report in reports)
    np.testing.assert_allclose(
        mdt.reduce("ij->i", x, combine="max").get(), x.get().max(axis=1), rtol=1e-6
    )


def test_a_hanging_kernel_costs_its_process_only(
    own_store: Store, cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurer, "BENCH", "tests.api.cuda_faults:open_bench")
    monkeypatch.setattr(measurer, "TRIAL_SECONDS", 2.0)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    a, b = cupy.ones((64, 64), "f4"), cupy.ones((64, 96), "f4")
    plan = mdt.compile("ij,jk->ik", a, b)
    plan.tune(14, quiet=True)
    engine = registry.engine_for("cupy")
    rows = own_store.trials(problem_key(plan.choices()[0].problem), engine.environment)
    statuses = {row.status for row in rows}
    assert {"ok", "timeout", "crashed"} <= statuses
    assert any("illegal" in row.detail for row in rows if row.status == "crashed")
    assert all(Schedule.from_json(row.schedule) for row in rows)
    assert float(plan(a, b)[3, 5]) == 64.0


def test_hot_calls_go_by_the_table_of_the_current_device(own_store: Store, cupy: Any) -> None:
    from mdtensor.api.arrays import invalidation

    invalidation.clear()
    a, b = cupy.ones((8, 16), "f4"), cupy.ones((16, 4), "f4")
    mdt.einsum("ij,jk->ik", a, b)
    left, right = ((x.shape, True, x.dtype, 0) for x in (a, b))  # in C order, on device 0
    key = ("ij,jk->ik", *left, *right, 0)
    tables = [table for table in invalidation.tables if isinstance(table, Bounded)]
    assert {key} == {key for table in tables for key in table}
    np.testing.assert_array_equal(mdt.einsum("ij,jk->ik", a, b).get(), np.full((8, 4), 16))


def test_tiny_numbers_are_kept_as_numpy_keeps_them(cupy: Any) -> None:
    tiny = np.full(4, 1e-41, "f4")
    result = mdt.einsum("i,i->i", cupy.asarray(tiny), cupy.ones(4, "f4"))
    np.testing.assert_array_equal(result.get(), tiny)


@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "f4", "f8", "c8", "c16", "i8", "u1", "?"])
def test_one_element_that_differs_is_found(cupy: Any, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")  # which gives NumPy the name
    comparison = CudaComparison(open_device(0))
    one = cupy.asarray(np.ones(100_003, dtype))
    other = one.copy()
    assert comparison.differ(one, other, 0.0) is False
    other[77_777] = 0
    assert comparison.differ(one, other, 0.5) is True
    if kind_of(one.dtype) in "fc":
        assert comparison.differ(one, other, 1.0) is False
        one[5] = other[5] = cupy.nan
        assert comparison.differ(one, other, 1.0) is False
        one[6] = cupy.nan
        assert comparison.differ(one, other, 1.0) is True
