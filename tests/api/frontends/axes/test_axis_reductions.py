"""Functions along axes beside NumPy's, on shapes, types and axes at random."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import mdtensor as mdt
from mdtensor.errors import AxisError, DTypeError, ShapeError, TranslationError
from tests.conftest import IN_ANY_TIME

DTYPES = ("?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")


@st.composite
def operands(draw: st.DrawFn, least: int = 0, dtypes: tuple[str, ...] = DTYPES) -> tuple[Any, Any]:
    """An array of whole numbers, and axes of it."""
    shape = tuple(draw(st.lists(st.integers(least, 9), max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    array = rng.integers(0, 3, shape).astype(draw(st.sampled_from(dtypes)))
    if array.dtype.kind == "c":
        array += (1j * rng.integers(0, 3, shape)).astype(array.dtype)
    axes = [None, *range(-len(shape), len(shape))]
    axes += [(0, -1), (1, 0)] if len(shape) > 1 else []
    return array.copy(order=draw(st.sampled_from("CF"))), draw(st.sampled_from(axes))


def assert_same(result: Any, expected: Any, rtol: float = 0.0) -> None:
    assert type(result) is type(expected)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol)


@settings(max_examples=60, **IN_ANY_TIME)
@given(operands(), st.sampled_from(("sum", "prod")), st.booleans())
def test_sum_and_prod(given_: tuple[Any, Any], name: str, keepdims: bool) -> None:
    array, axis = given_
    expected = getattr(np, name)(array, axis, keepdims=keepdims)
    if name == "prod" and not np.isfinite(expected).all():
        return
    assert_same(getattr(mdt, name)(array, axis, keepdims=keepdims), expected, 1e-2)


@settings(max_examples=60, **IN_ANY_TIME)
@given(operands(1, DTYPES[:-2]), st.sampled_from(("max", "min")), st.booleans())
def test_max_and_min(given_: tuple[Any, Any], name: str, keepdims: bool) -> None:
    array, axis = given_
    expected = getattr(np, name)(array, axis, keepdims=keepdims)
    assert_same(getattr(mdt, name)(array, axis, keepdims=keepdims), expected)


@settings(max_examples=60, **IN_ANY_TIME)
@given(operands(1), st.sampled_from(("mean", "var", "std")), st.booleans())
def test_mean_var_and_std(given_: tuple[Any, Any], name: str, keepdims: bool) -> None:
    array, axis = given_
    exact = array.astype("c16" if array.dtype.kind == "c" else "f8")
    typed = getattr(np, name)(array, axis, keepdims=keepdims)
    expected = getattr(np, name)(exact, axis, keepdims=keepdims).astype(typed.dtype)
    rtol = 4 * float(np.finfo(typed.dtype).eps)
    assert_same(
        getattr(mdt, name)(array, axis, keepdims=keepdims),
        expected if isinstance(typed, np.ndarray) else expected[()],
        rtol,
    )


@settings(max_examples=60, **IN_ANY_TIME)
@given(operands(1, DTYPES[:-2]), st.sampled_from(("argmax", "argmin")), st.booleans())
def test_argmax_and_argmin(given_: tuple[Any, Any], name: str, keepdims: bool) -> None:
    array, axis = given_
    axis = axis[0] if isinstance(axis, tuple) else axis
    expected = getattr(np, name)(array, axis, keepdims=keepdims)
    assert_same(getattr(mdt, name)(array, axis, keepdims=keepdims), expected)


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min", "sum"])
def test_nan(name: str) -> None:
    array = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]])
    np.testing.assert_array_equal(getattr(mdt, name)(array, 1), getattr(np, name)(array, 1))


def test_options() -> None:
    array = np.arange(6, dtype="i2").reshape(2, 3)
    out = np.empty(3)
    assert mdt.sum(array, 0, out=out) is out
    np.testing.assert_array_equal(out, [3, 5, 7])
    assert mdt.sum(array, 0, "f4").dtype == np.float32
    assert mdt.var(array, ddof=1) == np.var(array, ddof=1)
    assert mdt.std(array, ddof=2) == np.std(array, ddof=2)
    positions = np.empty(2, np.intp)
    assert mdt.argmax(array, 1, positions) is positions
    np.testing.assert_array_equal(positions, [2, 2])


def test_repeated_calls_are_recalled() -> None:
    array = np.ones((4, 5))
    for name in ("sum", "max", "mean", "var", "argmin", "softmax", "logsumexp", "layer_norm"):
        function = getattr(mdt, name)
        function(array)
        with mdt.trace() as trace:
            function(array)
        assert [call.front_end for call in trace.calls] == [name]


def test_errors() -> None:
    with pytest.raises(AxisError, match="axis 2 is out of bounds for array of dimension 2"):
        mdt.sum([[1]], axis=2)
    with pytest.raises(ShapeError, match="nothing to take the max of"):
        mdt.max([])
    with pytest.raises(DTypeError, match=r"argmax takes one axis, not \(0, 1\)"):
        mdt.argmax([[1]], axis=(0, 1))  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="no kernels compute with dtype object"):
        mdt.sum(np.array([None]))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(TranslationError, match=f"no order for operator '{name}'"):
            getattr(mdt, name)([1j])
