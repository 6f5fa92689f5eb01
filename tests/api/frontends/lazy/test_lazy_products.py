"""Products, running sums and positions of lazy arrays beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import DTypeError, ShapeError, SubscriptError

rng = np.random.default_rng(3)
A = rng.integers(-4, 5, (3, 4)).astype("f8")
B = rng.integers(-4, 5, (4, 5)).astype("f4")
C = rng.integers(-4, 5, (2, 3, 4)).astype("i4")

CALLS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "@": lambda u: u(A) @ u(B),
    "@ of an array": lambda u: A @ u(B),
    "@ of a row": lambda u: u(A[:, 0]) @ u(A),
    "@ of stacks": lambda u: u(C) @ u(B),
    "@ of expressions": lambda u: (u(A) * 2 + 1) @ np.abs(u(B) - 1) + 1,
    "two products": lambda u: u(A).T @ (u(A) @ u(B)),
    "dot": lambda u: np.dot(u(C), u(B)),
    "dot of a method": lambda u: u(A).dot(u(A[0])),
    "dot with a number": lambda u: np.dot(u(A), 3),
    "inner": lambda u: np.inner(u(A), u(C)),
    "outer": lambda u: np.outer(u(A[0]), u(B[0])),
    "tensordot": lambda u: np.tensordot(u(C), u(A), axes=([1, 2], [0, 1])),
    "tensordot of one": lambda u: np.tensordot(u(C), u(B), 1),
    "einsum": lambda u: np.einsum("ij,jk->ki", u(A), u(B)),
    "einsum of three": lambda u: np.einsum("ij,jk,nij->nk", u(A), u(B), u(C)),
    "a trace": lambda u: np.einsum("ii", u(A[:, :3])),
    "a diagonal": lambda u: np.einsum("ii->i", u(A[:, :3])),
    "einsum of lists": lambda u: np.einsum(u(A), [0, 1], u(B), [1, 2], [0, 2]),
    "einsum with extents of 1": lambda u: np.einsum("ij,ij->i", u(A), u(A[:, :1])),
    "einsum of bools": lambda u: np.einsum("ij,ij->i", u(A) > 0, u(A) < 3),
    "einsum in another type": lambda u: np.einsum("ij,ij->", u(B), u(B), dtype="f8"),
    "cumsum": lambda u: np.cumsum(u(A), 1),
    "cumsum of an expression": lambda u: (u(A) * 2).cumsum(0) - u(A),
    "cumsum of small integers": lambda u: u(C.astype("i1")).cumsum(-1),
    "cumprod": lambda u: np.cumprod(u(A), axis=-1),
    "a slice of a cumsum": lambda u: u(A[0]).cumsum()[2:] - u(A[0]).cumsum()[:-2],
    "argmax": lambda u: np.argmax(u(A), 1),
    "argmin": lambda u: np.argmin(u(C), axis=1),
    "argmax with axes kept": lambda u: u(A).argmax(0, keepdims=True),
    "argmax of one axis": lambda u: (u(A[0]) * -1).argmax(),
    "argmin of no axis": lambda u: np.argmin(u(np.array(3.0))),
    "cumsum of no axis": lambda u: np.cumsum(u(np.array(3.0))),
    "var": lambda u: np.var(u(A), 0),
    "std": lambda u: u(C).std((0, 2), ddof=1),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_numpys(name: str) -> None:
    value = CALLS[name](mdt.lazy)
    expected = CALLS[name](lambda array: array)
    result = np.asarray(value)
    assert value.dtype == expected.dtype
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_nan_is_found_first() -> None:
    array = np.array([[1.0, np.nan, 9.0, np.nan], [4.0, 9.0, 2.0, 9.0]])
    np.testing.assert_array_equal(np.asarray(mdt.lazy(array).argmax(1)), np.argmax(array, 1))
    np.testing.assert_array_equal(np.asarray(mdt.lazy(array).argmin(1)), np.argmin(array, 1))


def test_replaced_functions_take_lazy_arrays() -> None:
    with mdt.replacing("numpy"):
        result = np.asarray(np.einsum("ij,jk->ik", mdt.lazy(A), mdt.lazy(B)))
    np.testing.assert_array_equal(result, A @ B)


def test_out() -> None:
    out = np.empty((3, 5))
    assert np.matmul(mdt.lazy(A), mdt.lazy(B), out=out) is out
    np.testing.assert_array_equal(out, A @ B)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "extents": (
        lambda: mdt.lazy(A) @ mdt.lazy(A),
        ShapeError,
        "matmul sums over 4 elements of a but 3 of b",
    ),
    "a flat cumsum": (
        lambda: np.cumsum(mdt.lazy(A)),
        ShapeError,
        "cumsum of a lazy array with 2 axes has an axis",
    ),
    "a flat argmax": (
        lambda: mdt.lazy(A).argmax(),
        ShapeError,
        "argmax of a lazy array with 2 axes has an axis",
    ),
    "pairs": (
        lambda: np.tensordot(mdt.lazy(A), A, 1),
        ShapeError,
        r"axes \(1,\) of a and \(0,\) of b differ in extent",
    ),
    "outer": (
        lambda: np.outer(mdt.lazy(A), A),
        ShapeError,
        "outer of lazy arrays takes one axis each, not 2 and 2",
    ),
    "sums for indices": (
        lambda: np.einsum("i j+k -> i j", mdt.lazy(A)),
        SubscriptError,
        "lazy arrays have no sums for indices",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    call, kind, text = WRONG[name]
    with pytest.raises(kind, match=text):
        call()


X, Y = np.arange(20.0).reshape(4, 5) / 7, np.arange(30.0).reshape(5, 6) / 9
LAZILY: dict[str, tuple[Any, Any]] = {
    "einsum": (lambda x, y: mdt.einsum("ij,jk->ik", x, y), lambda x, y: x @ y),
    "matmul": (mdt.matmul, lambda x, y: x @ y),
    "dot": (mdt.dot, lambda x, y: x @ y),
    "tensordot": (lambda x, y: mdt.tensordot(x, y, 1), lambda x, y: x @ y),
    "inner": (lambda x, y: mdt.inner(x, y.T), lambda x, y: x @ y),
    "outer": (lambda x, y: mdt.outer(x[0], y[0]), lambda x, y: np.outer(x[0], y[0])),
    "vdot": (lambda x, y: mdt.vdot(x * 1j, y[:4, :5]), lambda x, y: np.vdot(x * 1j, y[:4, :5])),
}


@pytest.mark.parametrize("name", LAZILY)
def test_products_of_mdtensor_take_lazy_arrays(name: str) -> None:
    """And give lazy ones, so that what is before and behind is fused."""
    product, expected = LAZILY[name]
    found = product(mdt.lazy(X) * 2, mdt.lazy(Y) + 1)
    assert type(found) is type(mdt.lazy(X))
    np.testing.assert_allclose(np.asarray(found), expected(X * 2, Y + 1), rtol=1e-12)


def test_other_functions_evaluate_lazy_arrays() -> None:
    lazily = mdt.lazy(X) * 2
    for found, expected in (
        (mdt.reduce("ij->i", lazily, combine="max"), (X * 2).max(1)),
        (mdt.scan("ij->ij", lazily, combine={"j": "add"}), (X * 2).cumsum(1)),
        (mdt.softmax(lazily, axis=1).sum(1), np.ones(4)),
        (mdt.ndimage.laplace(lazily), mdt.ndimage.laplace(X * 2)),
    ):
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_options_of_lazy_products() -> None:
    lazily = mdt.lazy(X)
    with pytest.raises(DTypeError, match=r"^float64 does not go into float32 by casting='safe'"):
        np.einsum("ij->i", lazily, dtype="f4")
    assert np.einsum("ij->i", lazily, dtype="f4", casting="same_kind").dtype == np.float32
    with pytest.raises(DTypeError, match=r"^einsum of lazy arrays gives C order"):
        np.einsum("ij->i", lazily, order="F")


def test_factors_are_widened_as_they_are_multiplied() -> None:
    """No copy in the wider type lies between, and sums keep its digits."""
    a, b = (np.ones(shape, "f2") for shape in ((3, 4096), (4096, 5)))
    with mdt.tuning("record") as seen:
        assert np.asarray(mdt.lazy(a) @ b)[0, 0] == 4096
    assert [item.md_hom.inputs[0].spec.dtype for item in seen] == [np.float16]
