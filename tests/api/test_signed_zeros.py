"""Signs of zeros: of sums and prefix sums they are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdtensor as mdt

FLOATS = ["float16", "float32", "float64", "complex64", "complex128"]
EXTENTS = [1, 2, 3, 7, 16, 33, 1000]


def zeros(dtype: str, *shape: int) -> np.ndarray:
    """Zeros below zero, both parts of complex ones."""
    made = np.zeros(shape, dtype)
    return np.negative(made)


def parts(values: Any) -> np.ndarray:
    """Whether zeros are below zero; of complex ones, real and imaginary parts."""
    array = np.asarray(values)
    assert not array.any()
    if array.dtype.kind == "c":
        return np.stack([np.signbit(array.real), np.signbit(array.imag)])
    return np.signbit(array)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(parts(found), parts(expected))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sums(dtype: str, extent: int) -> None:
    rows, ones = zeros(dtype, 3, extent), np.ones((extent, 2), dtype)
    same(mdt.reduce("ij->i", rows), np.sum(rows, axis=1))
    same(mdt.reduce("ij->j", rows.T), np.sum(rows.T, axis=0))
    same(mdt.reduce("i->", rows[0]), np.add.reduce(rows[0]))
    same(mdt.einsum("ij->i", rows), np.einsum("ij->i", rows))
    same(mdt.einsum("ij,jk->ik", rows, ones), np.einsum("ij,jk->ik", rows, ones))
    same(mdt.einsum("j,j->", rows[0], ones[:, 0]), np.einsum("j,j->", rows[0], ones[:, 0]))
    same(mdt.tensordot(rows, ones, 1), np.tensordot(rows, ones, 1))
    same(np.sum(mdt.lazy(rows), axis=1), np.sum(rows, axis=1))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_prefix_sums(dtype: str, extent: int) -> None:
    rows = zeros(dtype, 3, extent)
    rows[1, extent // 2] = 0
    same(mdt.scan("i->i", rows[0]), np.cumsum(rows[0]))
    same(mdt.scan("i->i", rows[1]), np.cumsum(rows[1]))
    same(mdt.scan("ij->ij", rows, combine={"j": "add"}), np.cumsum(rows, axis=1))
    same(mdt.scan("ij->ij", rows.T, combine={"i": "add"}), np.cumsum(rows.T, axis=0))
    backwards = mdt.scan("i->i", rows[1], reverse=True)
    same(backwards, np.cumsum(rows[1, ::-1])[::-1])
    exclusive = mdt.scan("i->i", rows[0], exclusive=True)
    assert not parts(exclusive[0]).any()


def test_products_of_one_element() -> None:
    same(mdt.reduce("i->", zeros("f8", 1), combine="mul"), np.prod(zeros("f8", 1)))
    same(mdt.scan("i->i", zeros("f8", 9), combine="mul"), np.cumprod(zeros("f8", 9)))


def test_loops_add_as_python_does() -> None:
    @mdt.mdh
    def total(y: Any, x: Any) -> None:
        for i in range(x.shape[0]):
            s = 0.0
            for j in range(x.shape[1]):
                s += x[i, j]
            y[i] = s

    y = np.ones(3)
    total(y, zeros("f8", 3, 1))
    same(y, np.zeros(3))
