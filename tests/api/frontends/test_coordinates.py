"""Products over stored elements, as the page of reductions says them by coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import mdtensor as mdt

SHAPE = (37, 53)
RNG = np.random.default_rng(1)
COO: Any = scipy.sparse.coo_array(RNG.random(SHAPE) * (RNG.random(SHAPE) < 0.04))
VALUE, (ROW, COLUMN) = COO.data, COO.coords


def product(v: Any, r: Any, x: Any, *, i: Any) -> Any:
    return v * x if r == i else 0.0


def path(v: Any, r: Any, x: Any, *, i: Any) -> Any:
    return v + x if r == i else np.inf


def over_stored(text: str, x: np.ndarray, f: Any = product, combine: str = "add") -> Any:
    extents = {"i": SHAPE[0]}
    return mdt.reduce(text, VALUE, ROW, COLUMN, x, f=f, combine=combine, extents=extents)


def test_times_a_vector() -> None:
    x = np.random.default_rng(0).random(SHAPE[1])
    np.testing.assert_allclose(over_stored("e, e, e, @2 -> i", x), COO @ x, rtol=1e-13)


def test_times_a_matrix() -> None:
    x = np.random.default_rng(0).random((SHAPE[1], 7))
    np.testing.assert_allclose(over_stored("e, e, e, @2 k -> i k", x), COO @ x, rtol=1e-13)


@pytest.mark.parametrize("combine", ["min", "lesser"])
def test_shortest_paths(combine: str) -> None:
    x = np.random.default_rng(0).random(SHAPE[1])
    apart = np.full(SHAPE, np.inf)
    apart[ROW, COLUMN] = VALUE
    found = over_stored("e, e, e, @2 -> i", x, path, combine)
    np.testing.assert_array_equal(found, (apart + x).min(1))


def test_rows_without_elements_have_the_identity() -> None:
    empty = np.setdiff1d(np.arange(SHAPE[0]), ROW)
    x = np.ones(SHAPE[1])
    assert empty.size
    assert (over_stored("e, e, e, @2 -> i", x)[empty] == 0).all()
    assert (over_stored("e, e, e, @2 -> i", x, path, "min")[empty] == np.inf).all()
