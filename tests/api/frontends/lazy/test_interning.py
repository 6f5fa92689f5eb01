"""Lazy arrays that say again what was said before."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frontends.lazy.interning import _LARGEST
from mdtensor.errors import IndexingError
from mdtensor.translate.stencils.slices import FusedValue


def value_of(lazy: Any) -> FusedValue:
    return lazy._value


def laplacian(u: Any) -> Any:
    return u[2:] - 2 * u[1:-1] + u[:-2]


EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "slices": lambda u, v: laplacian(u) * v[1:-1],
    "functions": lambda u, v: np.where(u > v, np.sqrt(u), np.round(v, 2)),
    "reductions": lambda u, v: (u - u.mean(keepdims=True)).sum() + v.max(),
    "axes": lambda u, v: np.expand_dims(u, 1) * v.T.astype("f8"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_same_expression_of_other_arrays_is_the_same_value(name: str) -> None:
    said = [EXPRESSIONS[name](mdt.lazy(np.ones(9)), mdt.lazy(np.zeros(9))) for _ in range(2)]
    assert value_of(said[0]) is value_of(said[1])


def test_arrays_take_the_places_that_they_are_said_in() -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.random(12) for _ in range(3)]

    def said(a: Any, b: Any, c: Any) -> Any:
        first = (a[1:] - 2 * b[:-1]) / (c[1:] + 1)
        return first * (b[1:] - a[:-1]) - c[::-1][1:] * first

    for order in itertools.product(arrays, repeat=3):
        np.testing.assert_allclose(said(*map(mdt.lazy, order)), said(*order), rtol=1e-13)


@pytest.mark.parametrize(("one", "other"), [(2, 2.0), (1, True), (0.0, -0.0), (1.0, 1 + 0j)])
def test_numbers_that_are_equal_and_not_the_same_stay_apart(one: Any, other: Any) -> None:
    for dtype in ("i4", "f4"):
        u = np.array([3, -1], dtype)
        for number in (one, other, one):
            y = np.asarray(mdt.lazy(u) * number)
            wanted = u * number
            assert y.dtype == wanted.dtype
            assert list(map(str, y)) == list(map(str, wanted))


def test_nan_is_the_number_that_it_is() -> None:
    y = [mdt.lazy(np.ones(2)) * number for number in (math.nan, 1.0, float("nan"))]
    assert [bool(np.isnan(np.asarray(each)).all()) for each in y] == [True, False, True]


@pytest.mark.parametrize("key", [True, (True,), (0, False), ((0, 1, 1),), ([0, 1],)])
def test_indices_that_look_like_others_are_refused_behind_these(key: Any) -> None:
    u = mdt.lazy(np.ones((4, 4)))
    for fine in (u[1], u[0, 0], u[0:1:1], u[np.int64(1)], u[slice(np.int64(0), 1)]):
        assert np.asarray(fine).min() == 1
    with pytest.raises(IndexingError, match="cannot be indexed by"):
        u[key]


def test_long_expressions_are_not_kept() -> None:
    def chain() -> Any:
        u = mdt.lazy(np.ones(3))
        for _ in range(_LARGEST // 2 + 2):
            u = u * 1.5
        return u

    assert value_of(chain()) is not value_of(chain())
    assert value_of(chain()) == value_of(chain())


def test_values_are_the_same_in_another_process() -> None:
    value = value_of(laplacian(mdt.lazy(np.ones(9))))
    again = pickle.loads(pickle.dumps(value))
    assert again == value
    assert hash(again) == hash(value)
