"""Plans: right results call after call, refusals, threads, and what they say of themselves."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from tests.hurried import at_once


def operands(m: int = 7, k: int = 9, n: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((m, k), np.float32), rng.random((k, n), np.float32)


def test_new_arrays_and_the_same_arrays_with_new_values() -> None:
    a, b = operands()
    plan = mdt.compile("ij,jk->ik", a, b)
    out = np.empty((7, 20), "f4")
    for seed in range(4):
        a[:], b[:] = operands(seed=seed)
        assert plan(a, b, out=out) is out
        np.testing.assert_allclose(out, a @ b, rtol=1e-5)
        np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-5)
        other, more = operands(seed=seed + 10)
        fresh = np.empty_like(out)
        plan(other, more, out=fresh)
        np.testing.assert_allclose(fresh, other @ more, rtol=1e-5)


@pytest.mark.parametrize(("what", "options"), [("ij,jk->ik", {}), (mdt.einsum, {"f": np.maximum})])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])
def test_a_copy_of_a_plan_that_ran_runs(
    what: Any, options: dict[str, Any], copied: Callable[[mdt.Plan], mdt.Plan]
) -> None:
    a, b = operands()
    text = () if isinstance(what, str) else ("ij,jk->ik",)
    plan = mdt.compile(what, *text, a, b, **options)
    result, out = plan(a, b), np.empty((7, 20), "f4")
    plan(a, b, out=out)
    again = copied(plan)
    assert repr(again) == repr(plan)
    np.testing.assert_array_equal(again(a, b), result)
    out[:] = 0
    np.testing.assert_array_equal(again(a, b, out=out), result)


def test_einsum_in_between_does_not_disturb_a_plan() -> None:
    a, b = operands()
    plan, out = mdt.compile("ij,jk->ik", a, b), np.empty((7, 20), "f4")
    plan(a, b, out=out)
    c, d = operands(seed=5)
    np.testing.assert_allclose(mdt.einsum("ij,jk->ik", c, d), c @ d, rtol=1e-5)
    out[:] = 0
    plan(a, b, out=out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_memory_of_remembered_arrays_stays_where_it_is() -> None:
    a, b = operands()
    plan, out = mdt.compile("ij,jk->ik", a, b), np.empty((7, 20), "f4")
    plan(a, b, out=out)
    owner = np.zeros((7, 9), "f4")
    plan(owner, b, out=out)
    try:
        owner.resize((70, 900), refcheck=False)
        owner.resize((7, 9), refcheck=False)
    except ValueError as error:  # weak references to it are held
        assert "cannot resize" in str(error)  # noqa: PT017
    owner[...] = a
    plan(owner, b, out=out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_strided_operands_and_sums_over_nothing() -> None:
    wide = np.random.default_rng(1).random((20, 30))
    a, b = wide[::-2, 1::3], wide.T[5:15]
    plan = mdt.compile("ij,jk->ik", a, b)
    np.testing.assert_allclose(plan(a, b), a @ b)
    np.testing.assert_allclose(plan(a, b, out=np.empty((10, 20))), a @ b)
    empty = mdt.compile("ij->i", mdt.spec((3, 0)))
    np.testing.assert_array_equal(empty(np.empty((3, 0), "f4"), out=np.ones(3, "f4")), np.zeros(3))


def test_threads_share_a_plan() -> None:
    a, b = operands(40, 50, 60)
    plan = mdt.compile("ij,jk->ik", a, b)

    def work(seed: int) -> None:
        mine, other = operands(40, 50, 60, seed)
        out, expected = np.empty((40, 60), "f4"), mine @ other
        for _ in range(200):
            out[:] = 0
            plan(mine, other, out=out)
            np.testing.assert_allclose(out, expected, rtol=1e-4)

    at_once(*(partial(work, seed) for seed in range(6)))


def test_calls_on_a_known_structure_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = operands(11, 12, 40)
    mdt.einsum("ij,jk->ik", a, b)
    engine = registry.engine_for()

    def refuse(*_: object) -> None:
        raise AssertionError("a call on a known structure was compiled")

    monkeypatch.setattr(engine.device, "compiled", refuse)
    for m, k, n in ((3, 5, 7), (64, 2, 33), (17, 170, 90)):
        a, b = operands(m, k, n)
        np.testing.assert_allclose(mdt.einsum("ij,jk->ik", a, b), a @ b, rtol=1e-4)
