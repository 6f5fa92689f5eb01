"""Sums of many terms of one sign are as exact as NumPy's, whichever front end adds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry

COUNT = 1 << 20
X = 1000 + np.random.default_rng(0).random(COUNT, np.float32)
WIDE = X.astype(np.float64)
ROWS = X.reshape(16, -1)


@pytest.fixture(autouse=True)
def _new_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels are those of the shapes here, not such as other tests left for their structures."""
    for name in ("_engines", "_named"):
        monkeypatch.setattr(registry, name, {})
    registry.forget()
    yield
    registry.forget()


def both_added(lhs: Any, rhs: Any) -> Any:
    return lhs[0] + rhs[0], lhs[1] + rhs[1]


# What adds, the same by NumPy, and the same in float64 where that is not NumPy's function.
SUMS: dict[str, tuple[Callable[[np.ndarray], Any], Callable[[np.ndarray], Any]]] = {
    "sum": (mdt.sum, np.sum),
    "mean": (mdt.mean, np.mean),
    "var": (mdt.var, np.var),
    "reduce": (lambda x: mdt.reduce("i->", x), np.sum),
    "einsum": (lambda x: mdt.einsum("i->", x), np.sum),
    "squares": (lambda x: (mdt.lazy(x) ** 2).sum().evaluate(), lambda x: (x**2).sum()),
    "dot": (lambda x: mdt.einsum("i,i->", x, x), lambda x: (x * x).sum()),
    "rows": (lambda x: mdt.einsum("ij->i", x.reshape(16, -1)), lambda x: x.reshape(16, -1).sum(1)),
    "both": (lambda x: mdt.einsum("ij->", x.reshape(1024, -1)), np.sum),
    "short rows": (lambda x: mdt.einsum("ij->", x.reshape(-1, 2)), np.sum),
    "long columns": (
        lambda x: mdt.einsum("ij->j", x.reshape(-1, 2)),
        lambda x: x.reshape(-1, 2).sum(0),
    ),
    "pairs": (
        lambda x: mdt.reduce("i->", x, f=lambda a: (a, 1), combine=both_added)[0],
        np.sum,
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_errors_are_those_of_numpy(name: str) -> None:
    ours, numpys = SUMS[name]
    right = numpys(WIDE)
    error, theirs = (
        np.max(np.abs(np.asarray(f(X), np.float64) / right - 1)) for f in (ours, numpys)
    )
    assert error <= 4 * max(theirs, float(np.finfo(np.float32).eps) / 2)


def test_a_sum_that_other_results_are_combined_from_is_no_block() -> None:
    """The sum of the products of all pairs needs the whole sum of what came before."""
    x = np.random.default_rng(0).random(5000)

    def of_pairs(lhs: Any, rhs: Any) -> Any:
        return lhs[0] + rhs[0], lhs[1] + rhs[1] + lhs[0] * rhs[0]

    found = mdt.reduce("i->", x, f=lambda a: (a, 0.0), combine=of_pairs, identity=(0.0, 0.0))
    np.testing.assert_allclose(found, (x.sum(), (x.sum() ** 2 - (x * x).sum()) / 2), rtol=1e-12)


def test_a_kernel_that_was_made_for_short_rows_adds_long_ones_in_blocks_too() -> None:
    mdt.einsum("ij->i", np.ones((64, 7), np.float32))
    test_errors_are_those_of_numpy("rows")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_one_number_many_times(dtype: str) -> None:
    number, count = np.full(1, 1000.9, dtype), 1_000_000
    found = mdt.einsum("i->", np.broadcast_to(number, count))
    exact = number[0].astype(np.longdouble) * count
    assert abs(found / exact - 1) <= 2 * np.finfo(dtype).eps


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([math.inf], math.inf),
        ([-math.inf], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan], math.nan),
        ([3e38, 3e38], math.inf),
        ([3e38, -3e38], 0.0),
    ],
)
def test_infinities_and_what_is_no_number_are_numpys(given: list[float], expected: float) -> None:
    x = np.zeros(1 << 16, np.float32)
    for n, value in enumerate(given):
        x[100 + 30000 * n] = value
    np.testing.assert_array_equal(mdt.einsum("i->", x), np.float32(expected))


def test_a_sum_of_negative_zeros_is_one() -> None:
    found = mdt.reduce("i->", np.full(1 << 16, -0.0))
    assert math.copysign(1, found) == math.copysign(1, np.full(1 << 16, -0.0).sum())
