"""Softmax, norms and cross entropy beside scipy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import mdtensor as mdt
from mdtensor.errors import AxisError, DTypeError, IndexingError, ShapeError
from mdtensor.translate import reference

SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((7,), -1),
    ((3, 33), -1),
    ((3, 33), 0),
    ((2, 5, 17), (1, 2)),
    ((2, 5, 17), None),
    ((1, 1), 1),
]


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return (20 * rng.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_softmax_and_logsumexp(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    x = drawn(shape, dtype)
    made = np.dtype("f8") if dtype == "i4" else x.dtype
    rtol = 64 * float(np.finfo(made).eps)
    result = mdt.softmax(x, axis)
    assert result.dtype == made
    exact = scipy.special.softmax(x.astype("f8"), axis)
    np.testing.assert_allclose(result, exact, rtol=rtol, atol=rtol)
    for keepdims in (False, True):
        total = mdt.logsumexp(x, axis, keepdims=keepdims)
        assert total.dtype == made
        exact = scipy.special.logsumexp(x.astype("f8"), axis, keepdims=keepdims)
        assert np.shape(total) == np.shape(exact)
        np.testing.assert_allclose(total, exact, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_log_softmax(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    x = drawn(shape, dtype)
    result = mdt.log_softmax(x, axis)
    assert result.dtype == (np.dtype("f8") if dtype == "i4" else x.dtype)
    exact = scipy.special.log_softmax(x.astype("f8"), axis)
    rtol = 64 * float(np.finfo(result.dtype).eps)
    np.testing.assert_allclose(result, exact, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "axis"), [((7, 5), -1), ((2, 5, 3), 1), ((4,), 0)])
def test_cross_entropy(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    x = drawn(shape, dtype)
    rng = np.random.default_rng(0)
    at = np.expand_dims(rng.integers(-shape[axis], shape[axis], np.delete(shape, axis)), axis)
    labels, rtol = at.squeeze(axis), 64 * float(np.finfo(dtype).eps)
    wide = x.astype("f8")
    exact = -np.take_along_axis(scipy.special.log_softmax(wide, axis), at, axis).mean()
    value, gradient = mdt.value_and_grad(lambda z: mdt.cross_entropy(z, labels, axis))(x)
    assert value.dtype == dtype
    found = [value, mdt.cross_entropy(x, labels, axis)]
    np.testing.assert_allclose(found, exact, rtol=rtol, atol=rtol)
    right = np.zeros(shape)
    np.put_along_axis(right, at, 1.0, axis)
    right = (scipy.special.softmax(wide, axis) - right) / max(1, labels.size)
    np.testing.assert_allclose(gradient, right, rtol=rtol, atol=rtol)


def test_labels_that_are_none() -> None:
    x = drawn((7, 5), "f4")
    for _ in range(3):  # also once the call is known
        mdt.cross_entropy(x, np.arange(7) % 5)
    with pytest.raises(IndexingError, match="label 5, where there are 5 classes"):
        mdt.cross_entropy(x, np.full(7, 5))
    with pytest.raises(IndexingError, match="label -6"):
        mdt.cross_entropy(x, np.full(7, -6))
    with pytest.raises(ShapeError, match=r"labels have shape \(3,\)"):
        mdt.cross_entropy(x, np.zeros(3, int))
    with pytest.raises(DTypeError, match="labels are integers, not float64"):
        mdt.cross_entropy(x, np.zeros(7))
    with pytest.raises(AxisError, match="axis 2"):
        mdt.cross_entropy(x, np.zeros(7, int), axis=2)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (0,)])
@pytest.mark.parametrize("axis", [0, -1, None])
def test_no_elements(shape: tuple[int, ...], axis: int | None) -> None:
    x = np.ones(shape, "f4")
    assert mdt.softmax(x, axis).shape == shape
    total = mdt.logsumexp(x, axis)
    np.testing.assert_array_equal(total, np.full(x.sum(axis).shape, -np.inf, "f4"), strict=True)


def test_infinite_elements() -> None:
    x = np.array([[-np.inf, 1.0], [-np.inf, -np.inf], [np.inf, 0.0]])
    np.testing.assert_array_equal(mdt.logsumexp(x, 1), [1.0, -np.inf, np.inf])
    np.testing.assert_array_equal(mdt.softmax(x[:1], 1), [[0.0, 1.0]])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES[1:])
def test_layer_norm(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    x = drawn(shape, dtype)
    weight, bias = drawn(shape[-1:], "f4"), drawn(shape[-1:], "f8")
    wide = x.astype("f8")
    made = np.dtype("f8") if dtype == "i4" else x.dtype
    rtol = 64 * float(np.finfo(made).eps)
    exact = wide - wide.mean(axis, keepdims=True)
    exact /= np.sqrt(wide.var(axis, keepdims=True) + 1e-3)
    result = mdt.layer_norm(x, axis=axis, eps=1e-3)
    assert result.dtype == made
    np.testing.assert_allclose(result, exact, rtol=rtol, atol=rtol)
    result = mdt.layer_norm(x, weight, bias, axis=axis, eps=1e-3)
    assert result.dtype == made
    np.testing.assert_allclose(result, exact * weight + bias, rtol=rtol, atol=40 * rtol)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES[1:])
def test_rms_norm(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    x, weight = drawn(shape, dtype), drawn(shape[-1:], "f4")
    wide = x.astype("f8")
    exact = weight * wide / np.sqrt(np.square(wide).mean(axis, keepdims=True) + 1e-3)
    result = mdt.rms_norm(x, weight, axis=axis, eps=1e-3)
    assert result.dtype == (np.dtype("f8") if dtype == "i4" else x.dtype)
    rtol = 64 * float(np.finfo(result.dtype).eps)
    np.testing.assert_allclose(result, exact, rtol=rtol, atol=40 * rtol)


def test_complex_numbers_are_refused() -> None:
    for name in ("softmax", "logsumexp", "layer_norm"):
        with pytest.raises(DTypeError, match=f"{name} takes no complex numbers"):
            getattr(mdt, name)([1j])


def test_eps_is_a_number() -> None:
    with pytest.raises(DTypeError, match=r"^eps is 'x', which is no number"):
        mdt.layer_norm([1.0, 2.0], eps="x")  # type: ignore[arg-type]


def test_results_of_no_elements_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the interpreter computes")

    monkeypatch.setattr(reference, "compute", refuse)
    assert mdt.softmax(np.ones((0, 7)), 1).shape == (0, 7)
    assert mdt.einsum("ij,jk->ik", np.ones((0, 7)), np.ones((7, 3))).shape == (0, 3)
