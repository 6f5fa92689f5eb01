"""Lazy arrays in parts, beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import (
    AxisError,
    DTypeError,
    IndexingError,
    LazyError,
    MdtensorError,
    ShapeError,
)

RNG = np.random.default_rng(0)
A, B = RNG.uniform(-1, 1, (5, 6)), RNG.uniform(-1, 1, (5, 3)).astype("f4")
V, C = RNG.integers(-9, 9, 7), RNG.uniform(-1, 1, (2, 3, 4))
Function = Callable[..., Any]


def check(function: Function, *arrays: np.ndarray) -> None:
    """The same function of arrays and of lazy arrays."""
    expected = function(*arrays)
    found = function(*map(mdt.lazy, arrays))
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    result = found.evaluate()
    assert isinstance(result, np.ndarray | np.generic)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("axis", [1, -1, None])
def test_concatenate(axis: int | None) -> None:
    check(lambda x, y: np.concatenate([x, y], axis), A, B)
    check(lambda x, y: np.concatenate([x[:, ::-1], y * 2, x[:, :0]], axis) * 2 + 1, A, B)


@pytest.mark.usefixtures("by_reference")
def test_concatenate_with_types_and_arrays_of_numpy() -> None:
    check(lambda x: np.concatenate([x, V > 0, [1.5]]), V)
    check(lambda x: np.concatenate([x, x], dtype="f4", casting="unsafe"), V)
    check(lambda x: np.concatenate([x[:0], x[:0]]), V)
    out = np.empty(14, "f4")
    assert np.concatenate([mdt.lazy(V), V], out=out, casting="same_kind") is out
    np.testing.assert_array_equal(out, np.concatenate([V, V]))


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_stack(axis: int) -> None:
    check(lambda x: np.stack([x, x * 2, A], axis), A)
    check(lambda x: np.stack([x, x * 2], axis).sum(axis), A)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize(
    ("shift", "axis"),
    [(1, 0), (-2, 1), (7, None), ((1, 2), (0, 1)), (3, (0, 1)), ((1, 2), 0), (0, 0), (11, -1)],
)
def test_roll(shift: Any, axis: Any) -> None:
    check(lambda x: np.roll(x, shift, axis), A)
    check(lambda x: np.roll(x, shift, axis) + np.roll(x, 1, 0) - 2 * x, A)
    check(lambda x: np.roll(x, shift, axis), A[:0])


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("width", [0, 1, (2, 0), ((0, 1), (3, 2)), ((11, 7), (0, 13))])
def test_pad(mode: Any, width: Any) -> None:
    check(lambda x: np.pad(x, width, mode=mode), A)
    check(lambda x: np.pad(x * 2, width, mode=mode)[1:] * 2, A)
    if not isinstance(width, tuple):
        for extent in (1, 2, 7):
            check(lambda x: np.pad(x, 5 * width, mode=mode), V[:extent])
        check(lambda x: np.pad(x, width, mode=mode), C)


@pytest.mark.usefixtures("by_reference")
def test_pad_with_constants() -> None:
    """As of NumPy's, those of later axes lie in the corners, in the array's type."""
    values = ((1, 2), (3, 4.5))
    check(lambda x: np.pad(x, ((1, 2), (3, 4)), constant_values=values), A)
    check(lambda x: np.pad(x, 2, constant_values=(1, 2.7)), V)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_diff(n: int) -> None:
    check(lambda x: np.diff(x, n, 0), A)
    check(lambda x: np.diff(x, n), A)
    check(lambda x: np.diff(x, n), V > 0)
    check(lambda x: np.diff(x, n, prepend=0, append=[1, 2]), V)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("k", [-9, -2, -1, 0, 1, 3, 9])
def test_triangles(k: int) -> None:
    for array in (A, C, V, A > 0, A.astype("c8")):
        check(lambda x: np.tril(x, k), array)
        check(lambda x: np.triu(x, k), array)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "shape", [(6, 5), (30,), (2, 15), (5, 2, 3), (1, 5, 1, 6), (3, 10), (-1,), (-1, 2), 30]
)
def test_reshape(shape: Any, order: Any) -> None:
    check(lambda x: np.reshape(x, shape, order=order), A)
    check(lambda x: (x + 1).reshape(shape, order=order) * 2, A)
    check(lambda x: x.T.reshape(shape, order=order), A)
    check(lambda x: (x + 1)[:0].reshape(0, 7), A)


def test_reshape_is_a_view_where_axes_are_split() -> None:
    """One kernel, and none for the array as it is."""
    with mdt.tuning("record") as seen:
        ((mdt.lazy(A) + 1).reshape(5, 2, 3) * 2).evaluate()
    assert len(list(seen)) == 1
    plain = mdt.lazy(A).reshape(30).array
    assert plain is not None
    assert np.shares_memory(plain, A)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize(
    "indices",
    [3, -1, [0, 2, 4], [4, 3, 2], [1, 1, 1], [[0, 3], [2, 1]], [-1, 0, -2], np.zeros(0, int)],
)
def test_take(indices: Any) -> None:
    for axis in (0, 1, None):
        check(lambda x: np.take(x + 1, indices, axis), A)  # noqa: B023
    check(lambda x: x.take(indices, 0), A)
    found = np.take(mdt.lazy(A), mdt.lazy(np.array(indices)) + 0)
    np.testing.assert_array_equal(np.asarray(found), np.take(A, indices))


@pytest.mark.usefixtures("by_reference")
def test_take_beyond_the_ends() -> None:
    check(lambda x: np.take(x, [7, -8, 3], 0, mode="wrap"), A)
    check(lambda x: np.take(x, [7, -8, 3], 1, mode="clip"), A)
    check(lambda x: np.take(x, np.array([0, 2], ">i2")), A)


def test_on_kernels() -> None:
    check(lambda x, y: np.concatenate([x * 2, np.roll(y, 1, 0)], 1).T.reshape(3, -1), A, B)
    check(lambda x: np.pad(x, ((2, 1), (1, 9)), mode="reflect").sum(0), A)
    array = A.copy()
    y = np.roll(mdt.lazy(array), 1, 0)
    assert y.evaluate(array) is array  # which is read too
    np.testing.assert_array_equal(array, np.roll(A, 1, 0))
    np.testing.assert_array_equal(y.evaluate(), np.roll(A, 2, 0))  # later changes are seen


def test_gradients() -> None:
    _, back = mdt.vjp(lambda x: (np.roll(x, 1, 0) * x).sum(), A)
    np.testing.assert_allclose(back(np.float64(1))[0], np.roll(A, 1, 0) + np.roll(A, -1, 0))
    _, back = mdt.vjp(lambda x: (x.reshape(30) ** 2).sum(), A)
    np.testing.assert_allclose(back(np.float64(1))[0], 2 * A)


WRONG: dict[str, tuple[Function, type[MdtensorError], str]] = {
    "an axis": (lambda y: np.concatenate([y, y], 2), AxisError, "axis 2 is out"),
    "other axes": (lambda y: np.concatenate([y, y[0]]), ShapeError, "arrays with 2, 1 axes do not"),
    "other shapes": (
        lambda y: np.concatenate([y, y[:, 1:]]),
        ShapeError,
        r"shapes \(5, 6\) and \(5, 5\) differ not only along axis 0",
    ),
    "casting": (lambda y: np.concatenate([y, y], dtype="i4"), DTypeError, "float64 does not go"),
    "stack": (lambda y: np.stack([y, y[0]]), ShapeError, "arrays that are stacked have one shape"),
    "shifts": (lambda y: np.roll(y, (1, 2), (0, 1, 1)), ShapeError, "2 shifts along 3 axes"),
    "a mode": (lambda y: np.pad(y, 1, mode="mean"), ShapeError, "mode is 'mean'\n  hint: one of"),
    "a width": (lambda y: np.pad(y, -1), ShapeError, r"pad_width of axis 0 is \(-1, -1\)"),
    "widths": (lambda y: np.pad(y, (1, 2, 3)), ShapeError, r"pad_width is \(1, 2, 3\)"),
    "nothing": (lambda y: np.pad(y[:0], 1, mode="edge"), ShapeError, "axis 0 has no elements to"),
    "an option": (
        lambda y: np.pad(y, 1, mode="reflect", reflect_type="odd"),
        DTypeError,
        "np.pad of lazy arrays takes no 'reflect_type'",
    ),
    "too long": (
        lambda y: np.pad(y, 9999, mode="wrap"),
        LazyError,
        "an array in 2000 blocks: at most 256\n  hint: np.asarray",
    ),
    "elements": (lambda y: y.reshape(7, 5), ShapeError, r"\(5, 6\) has not as many elements as"),
    "an order": (lambda y: y.reshape(30, order="K"), ShapeError, "order is 'K'"),
    "out of range": (lambda y: np.take(y, [6], 1), IndexingError, "a position is out of range fo"),
    "no integers": (lambda y: np.take(y, [0.5]), IndexingError, "np.take of lazy arrays takes int"),
    "scattered": (
        lambda y: np.take(y, [0, 3, 1] * 300),
        LazyError,
        "positions that are more than 256 slices\n  hint: np.take",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=f"^{message}"):
        call(mdt.lazy(A))
