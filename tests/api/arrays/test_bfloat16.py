"""bfloat16 on processors: NumPy's functions compute it in float32, and round once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays.bfloat16 import are_short, in_single
from mdtensor.api.calls.statistics import stats
from mdtensor.errors import DTypeError, ShapeError, SubscriptError

BFLOAT16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
RNG = np.random.default_rng(0)
A, B = (RNG.uniform(-1, 1, shape).astype(BFLOAT16) for shape in ((5, 40), (40, 6)))
X = RNG.uniform(-1, 1, 30).astype(BFLOAT16)

CALLS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "einsum": (lambda *arrays: mdt.einsum("ij,jk->ik", *arrays), (A, B)),
    "interleaved": (lambda a, b: mdt.einsum(a, [0, 1], b, [1, 2]), (A, B)),
    "a path": (lambda a, b: mdt.einsum("ij,jk,ij->k", a, b, a, optimize="greedy"), (A, B)),
    "sums for indices": (lambda a, x: mdt.einsum("i j+r, r -> i j", a, x[:3]), (A, X)),
    "a number": (lambda x: mdt.einsum("i,i->", x, x), (X,)),
    "tensordot": (lambda *arrays: mdt.tensordot(*arrays, 1), (A, B)),
    "convolve": (mdt.convolve, (X, X[:7])),
    "two axes": (lambda *arrays: mdt.correlate(*arrays, mode="same"), (A, B)),
    "fft": (lambda *arrays: mdt.convolve(*arrays, method="fft"), (X, X[:7])),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_rounded_once(name: str) -> None:
    call, arrays = CALLS[name]
    exact = call(*(array.astype(float) for array in arrays))
    result = call(*arrays)
    assert result.dtype == BFLOAT16
    assert type(result) is type(exact) or not exact.ndim
    np.testing.assert_allclose(result.astype(float), exact, rtol=2.0**-8, atol=1e-5)
    mixed = call(arrays[0].astype("f4"), *arrays[1:])
    assert mixed.dtype == F32 or len(arrays) == 1
    np.testing.assert_allclose(mixed, exact, rtol=1e-5, atol=1e-5)


def test_out_and_dtype() -> None:
    exact = A.astype(float) @ B.astype(float)
    for dtype in (BFLOAT16, F32, np.dtype(float)):
        out = np.empty((5, 6), dtype)
        assert mdt.einsum("ij,jk->ik", A, B, out=out) is out
        np.testing.assert_allclose(out.astype(float), exact, rtol=2.0**-8, atol=1e-5)
    result = mdt.einsum("ij,jk->ik", A, B, dtype="f8")
    assert result.dtype == float
    np.testing.assert_allclose(result, exact, rtol=1e-12)
    wide = A.astype("f4") + np.float32(2.0**-20)
    rounded = mdt.einsum("ij,jk->ik", wide, B, dtype=BFLOAT16, casting="same_kind")
    np.testing.assert_array_equal(rounded, mdt.einsum("ij,jk->ik", wide.astype(BFLOAT16), B))


def test_kernels_compute() -> None:
    stats(reset=True)
    mdt.einsum("ij,jk->ik", A, B)
    mdt.convolve(X, X)
    assert stats().generated == {"float": 2}
    assert not stats().numpy


def test_what_does_not_fit() -> None:
    with pytest.raises(DTypeError, match="operand 0 cannot be cast from float32 to bfloat16"):
        mdt.einsum("ij,jk->ik", A.astype("f4"), B, dtype=BFLOAT16)
    with pytest.raises(DTypeError, match="bfloat16, int32 have no common type"):
        mdt.einsum("ij,jk->ik", A, np.ones((40, 6), "i4"))
    with pytest.raises(DTypeError, match="bfloat16, int32 have no common type"):
        mdt.convolve(X, np.ones(3, "i4"))
    fixed = np.empty((5, 6), BFLOAT16)
    fixed.flags.writeable = False
    with pytest.raises(ShapeError, match="out is read-only"):
        mdt.einsum("ij,jk->ik", A, B, out=fixed)
    with pytest.raises(SubscriptError, match="out has shape"):
        mdt.einsum("ij,jk->ik", A, B, out=np.empty((6, 5), BFLOAT16))


def test_which_types_are_meant() -> None:
    assert are_short([BFLOAT16, F32])
    assert not are_short([F32])
    assert not are_short([BFLOAT16, np.dtype(object)])
    (one, other), single = in_single([A, A.astype("f4")], BFLOAT16)
    assert one.dtype == other.dtype == single == F32
