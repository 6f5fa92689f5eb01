"""Plans of functions that run several programs, bind constants, or look at their operands."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.plans.bound_arguments import ArgumentSlots
from mdtensor.api.plans.call_plan import CallPlan
from mdtensor.errors import ProgramError

RNG = np.random.default_rng(5)
X, Y = RNG.random((2, 12, 9)).astype("f4")


def runs_alone(plan: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a plan does not call its function."""
    called: list[Any] = []
    monkeypatch.setattr(ArgumentSlots, "__call__", lambda *given, **named: called.append(given))
    plan(Y)
    return not called


FILTERS: dict[str, Callable[[Any], Any]] = {
    "weights": lambda x: mdt.compile(mdt.ndimage.gaussian_filter, x, 1.5),
    "two passes of weights": lambda x: mdt.compile(mdt.ndimage.sobel, x, 1),
    "several calls": lambda x: mdt.compile(mdt.ndimage.generic_laplace, x, mdt.ndimage.sobel),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_run_as_one_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: Any = FILTERS[name](X)
    function, options = plan._arguments.function, plan._arguments.positional[1:]
    again = pickle.loads(pickle.dumps(plan))
    for each in (plan, again):
        for given in (X, Y):
            expected = function(given, *options)
            np.testing.assert_allclose(each(given), expected, rtol=1e-6)
            out = np.empty_like(given)
            assert each(given, out=out) is out
            np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert runs_alone(plan, monkeypatch)


def test_later_programs_read_what_earlier_ones_gave() -> None:
    def both(x: Any, y: Any) -> tuple[Any, Any]:
        product = mdt.einsum("ij,kj->ik", x, y)
        return mdt.reduce("ik->i", product, combine="max"), product

    plan = CallPlan("both", "both", ArgumentSlots.of(both, (X, Y), {}))
    program = plan.program
    assert program is not None
    assert [spec.shape for spec in program.results] == [(12,), (12, 12)]
    for found, expected in zip(plan(Y, X), both(Y, X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_is_more_than_programs_calls_the_function() -> None:
    def shifted(x: Any) -> Any:
        return mdt.einsum("ij->i", x) + 1

    def weighted(x: Any, weights: Any) -> Any:  # whose elements the front end looks at
        return mdt.ndimage.correlate1d(x, weights)

    plan = CallPlan("shifted", "shifted", ArgumentSlots.of(shifted, (X,), {}))
    np.testing.assert_allclose(plan(Y), shifted(Y), rtol=1e-6)
    taps = np.array([1.0, 2.0, 4.0])
    plan = CallPlan("weighted", "weighted", ArgumentSlots.of(weighted, (X, taps), {}))
    np.testing.assert_allclose(plan(X, taps[::-1].copy()), weighted(X, taps[::-1]), rtol=1e-6)
    assert plan.program is None


def test_what_a_call_looks_at_a_plan_looks_at_each_time() -> None:
    def sums(begin, end, x):
        y = np.zeros(3)
        for i in range(3):
            for k in range(begin[i], end[i]):
                y[i] += x[k]
        return y

    begin, end, x = np.array([0, 2, 3]), np.array([2, 4, 5]), RNG.random(5)
    kernel = mdt.mdh(sums)
    plan = mdt.compile(kernel, begin, end, x)
    for _ in range(2):
        np.testing.assert_allclose(plan(begin, end, x), sums(begin, end, x), rtol=1e-12)
        with pytest.raises(ProgramError, match="begins below 0"):
            plan(begin - 2, end, x)
        with pytest.raises(ProgramError, match="begins below 0"):
            plan(begin - 2, end, x, out=np.zeros(3))
