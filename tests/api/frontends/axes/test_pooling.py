"""`max_pool` and `avg_pool` beside windows that NumPy slides."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import mdtensor as mdt
from mdtensor.api.parts.linked_calls import planned
from mdtensor.errors import DTypeError, ShapeError
from tests.conftest import IN_ANY_TIME


@st.composite
def pools(draw: st.DrawFn) -> tuple[np.ndarray, dict[str, Any]]:
    """An array and the arguments of a pool."""
    shape = tuple(draw(st.lists(st.integers(4, 11), min_size=1, max_size=4)))
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(1, min(2, len(shape))))]
    window = tuple(draw(st.integers(1, 4)) for _ in axes)
    options: dict[str, Any] = {"window": window, "axes": tuple(axes)}
    if draw(st.booleans()):
        options["stride"] = tuple(draw(st.integers(1, 3)) for _ in axes)
    options["padding"] = tuple(draw(st.integers(0, size - 1)) for size in window)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(("?", "u1", "i4", "f2", "f4", "f8")))
    return rng.integers(-9, 9, shape).astype(dtype), options


def windows_of(x: np.ndarray, options: dict[str, Any], outside: Any) -> np.ndarray:
    """The windows of a padded array, along further axes."""
    axes, window = options["axes"], options["window"]
    around = [(0, 0)] * x.ndim
    every = [slice(None)] * x.ndim
    for axis, pad, step in zip(
        axes, options["padding"], options.get("stride", window), strict=True
    ):
        around[axis], every[axis] = (pad, pad), slice(None, None, step)
    padded = np.pad(x, around, constant_values=outside)
    return np.lib.stride_tricks.sliding_window_view(padded, window, axes)[tuple(every)]


@settings(max_examples=60, **IN_ANY_TIME)
@given(pools())
def test_pools(given_: tuple[np.ndarray, dict[str, Any]]) -> None:
    x, options = given_
    least = -np.inf if x.dtype.kind == "f" else False if x.dtype == bool else np.iinfo(x.dtype).min
    last = tuple(range(-len(options["axes"]), 0))
    largest = mdt.max_pool(x, **options)
    assert largest.dtype == x.dtype
    np.testing.assert_array_equal(largest, windows_of(x, options, least).max(last))
    means = mdt.avg_pool(x, **options)
    assert means.dtype == (x.dtype if x.dtype.kind == "f" else np.float64)
    exact = windows_of(x, options, 0).astype("f8").mean(last)
    rtol = 16 * float(np.finfo(means.dtype).eps)
    np.testing.assert_allclose(means, exact, rtol=rtol, atol=rtol)


def test_last_two_axes_by_default() -> None:
    x = np.arange(32.0).reshape(2, 4, 4)
    np.testing.assert_array_equal(mdt.max_pool(x, 2)[0], [[5, 7], [13, 15]])
    out = np.empty((2, 2, 2))
    assert mdt.avg_pool(x, 2, out=out) is out
    np.testing.assert_array_equal(out[0], [[2.5, 4.5], [10.5, 12.5]])


def test_windows_with_padding_are_one_program() -> None:
    x = np.arange(32.0).reshape(2, 4, 4)
    for pool in (mdt.max_pool, mdt.avg_pool):
        seen, _ = planned(pool, x, 3, stride=2, padding=1)
        assert len(seen) == 1


def test_errors() -> None:
    x = np.ones((4, 4))
    with pytest.raises(ShapeError, match="a window of 5 elements does not fit on axis 0"):
        mdt.max_pool(x, 5)
    with pytest.raises(ShapeError, match="windows of 2 elements would lie in 2 of padding"):
        mdt.avg_pool(x, 2, padding=2)
    with pytest.raises(ShapeError, match="stride has 1 values for 2 axes"):
        mdt.max_pool(x, 2, stride=(1,))
    with pytest.raises(ShapeError, match="window is 0"):
        mdt.max_pool(x, 0)
    with pytest.raises(DTypeError, match="padding is 'a'"):
        mdt.max_pool(x, 2, padding="a")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="max_pool takes no complex numbers"):
        mdt.max_pool(x + 1j, 2)
