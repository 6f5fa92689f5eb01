"""Softmax of ragged batches, against NumPy's functions in float64 sequence by sequence."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import AxisError, DTypeError, ShapeError

RNG = np.random.default_rng(11)
LENGTHS = ((4, 0, 2, 7, 1), (5,), (0, 0), (), tuple(RNG.integers(0, 40, 50).tolist()))


def batch(lengths: tuple[int, ...], rest: tuple[int, ...], dtype: Any = "f8") -> mdt.Ragged:
    values = RNG.normal(0, 20, (sum(lengths), *rest)).astype(dtype)
    return mdt.ragged(values, np.cumsum([0, *lengths]))


def softmax(x: np.ndarray, axis: Any) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    ("rest", "axis", "own"),
    [
        ((), 1, 0),
        ((), -1, 0),
        ((3,), 1, 0),
        ((3,), -1, 1),
        ((3,), (1, 2), (0, 1)),
        ((2, 3), 2, 1),
        ((2, 3), [-3, 3], (0, 2)),
    ],
)
def test_axes(lengths: tuple[int, ...], rest: tuple[int, ...], axis: Any, own: Any) -> None:
    r = batch(lengths, rest)
    found = mdt.softmax(r, axis)
    assert found.offsets is r.offsets
    for one, x in zip(found, r, strict=True):
        np.testing.assert_allclose(one, softmax(x, own), rtol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "result", "rtol"),
    [("f2", "f2", 2e-3), ("f4", "f4", 1e-5), ("i4", "f8", 1e-12), ("?", "f8", 1e-12)],
)
def test_types(dtype: str, result: str, rtol: float) -> None:
    r = batch(LENGTHS[0], (3,), dtype)
    found = mdt.softmax(r, 1)
    assert found.dtype == result
    for one, x in zip(found, r, strict=True):
        np.testing.assert_allclose(one, softmax(x.astype("f8"), 0), rtol=rtol, atol=1e-7)


def test_results_go_to_out() -> None:
    r = batch(LENGTHS[0], (3,))
    expected = mdt.softmax(r, 1).values
    out = r.with_values(np.empty_like(r.values))
    assert mdt.softmax(r, 1, out=out) is out
    np.testing.assert_array_equal(out.values, expected)
    mdt.softmax(r, 1, out=r)
    np.testing.assert_array_equal(r.values, expected)


def test_attention_of_one_query_for_each_sequence() -> None:
    keys, values = batch(LENGTHS[0], (3,)), batch(LENGTHS[0], (4,))
    values = keys.with_values(values.values)
    query = RNG.random((5, 3))
    weights = mdt.softmax(mdt.einsum("btd,bd->bt", keys, query), axis=1)
    found = mdt.einsum("bt,bte->be", weights, values)
    expected = [softmax(k @ q, 0) @ v for k, v, q in zip(keys, values, query, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, None, 3, -3, "x", (0, 1), 1.5])
def test_axes_that_are_not_there(axis: Any) -> None:
    with pytest.raises(AxisError, match=re.escape("softmax of a ragged batch along axis ")):
        mdt.softmax(batch((2, 3), (4,)), axis)


def test_what_is_refused() -> None:
    r = batch((2, 3), (4,))
    with pytest.raises(DTypeError, match="softmax takes no complex numbers"):
        mdt.softmax(r.with_values(r.values * 1j), 1)
    with pytest.raises(DTypeError, match="no kernels compute with dtype object"):
        mdt.softmax(r.with_values(r.values.astype(object)), 1)
    with pytest.raises(ShapeError, match="out is no ragged batch of the same lengths"):
        mdt.softmax(r, 1, out=np.empty((5, 4)))
    swapped = r.with_values(r.values.astype(r.dtype.newbyteorder()))
    np.testing.assert_array_equal(mdt.softmax(swapped, 1).values, mdt.softmax(r, 1).values)
