"""einsum strings with sums for indices and gathers, against windows that NumPy cuts out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdtensor.api.frontends.einsum.einsum import einsum
from mdtensor.api.plans.compile import compile as compiled
from mdtensor.errors import DTypeError, ShapeError, SubscriptError
from tests.cases import tolerance, values


def windows(array: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(array, shape, axes)


def close(result: Any, expected: np.ndarray, terms: int) -> None:
    assert result.shape == expected.shape
    np.testing.assert_allclose(
        result, expected, rtol=0, atol=tolerance(np.asarray(result).dtype, terms, 4.0)
    )


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(1, 7, 7, 3), (2, 9, 12, 5)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_convolution(executed: str, shape: tuple[int, ...], stride: int, dtype: str) -> None:
    rng = np.random.default_rng(stride)
    image = values(rng, shape, dtype)
    filters = values(rng, (4, 3, 2, shape[3]), dtype)
    result = einsum(f"n {stride}h+r {stride}w+s c, k r s c -> n h w k", image, filters)
    cut = windows(image, (3, 2), (1, 2))[:, ::stride, ::stride]
    wide = np.float64 if np.dtype(dtype).kind == "f" else dtype
    expected = np.einsum("nhwcrs,krsc->nhwk", cut.astype(wide), filters.astype(wide))
    assert result.dtype == dtype
    close(result, expected, 6 * shape[3])


def test_dilation_groups_and_capsules(executed: str) -> None:
    rng = np.random.default_rng(0)
    line, taps = values(rng, (11,), "float64"), values(rng, (3,), "float64")
    expected = np.array([sum(line[h + 2 * r] * taps[r] for r in range(3)) for h in range(7)])
    close(einsum("h+2r, r -> h", line, taps), expected, 3)
    grouped, filters = values(rng, (8, 6), "float64"), values(rng, (2, 5, 4, 3), "float64")
    cut = windows(grouped.reshape(2, 4, 6), (3,), (2,))
    expected = np.einsum("gchr,gkcr->gkh", cut, filters)
    close(einsum("4g+c h+r, g k c r -> g k h", grouped, filters), expected, 12)
    image, poses = values(rng, (1, 5, 2, 4, 4), "float64"), values(rng, (3, 3, 2, 4, 4), "float64")
    expected = np.einsum("npcijr,krcjl->npkil", windows(image, (3,), (1,)), poses)
    close(einsum("n p+r c i j, k r c j l -> n p k i l", image, poses), expected, 24)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("2i -> i", np.s_[::2]),
        ("2i+1 -> i", np.s_[1::2]),
        ("i+3 -> i", np.s_[3:]),
        ("10-i -> i", np.s_[::-1]),
        ("10-3i -> i", np.s_[::-3]),
    ],
)
def test_slices(executed: str, text: str, cut: slice) -> None:
    array = np.arange(11)
    np.testing.assert_array_equal(einsum(text, array), array[cut])


def test_gathers(executed: str) -> None:
    rng = np.random.default_rng(1)
    table = values(rng, (9, 4), "float32")
    index = np.array([[3, -1, 0], [8, 100, -100]])
    inside = np.clip(np.where(index < 0, index + 9, index), 0, 8)
    np.testing.assert_array_equal(einsum("@1 d, b k -> b k d", table, index), table[inside])
    weights = values(rng, (2, 3), "float32")
    expected = np.einsum("bkd,bk->bd", table[inside].astype("f8"), weights)
    close(einsum("@1 d, b k, b k -> b d", table, index, weights), expected, 3)
    line = np.arange(30)
    shifted = line[(2 * np.array([4, 1, 7]) + 3)[:, None] + np.arange(2)]
    narrow = np.array([4, 1, 7], "u1")
    assert (einsum("2@1+r+3, i, r -> i r", line, narrow, np.ones(2, int)) == shifted).all()
    nested = einsum("@1, @2, i -> i", line, np.array([5, 3, 1]), np.array([2, 0]))
    np.testing.assert_array_equal(nested, [1, 5])


def test_options(executed: str) -> None:
    line, taps = np.arange(10, dtype="i2"), np.array([1, 2, 3], "i2")
    expected = np.convolve(line, taps[::-1], "valid")
    out = np.empty(8, "i4")
    assert einsum("h+r, r -> h", line, taps, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert einsum("h+r, r -> h", line, taps, dtype="f8").dtype == np.float64
    image = np.ones((4, 5))
    assert einsum("i+1 j -> i j", image, order="F").strides == (8, 24)
    overlapping = np.arange(6)
    einsum("i+1 -> i", overlapping, out=overlapping[:5])
    np.testing.assert_array_equal(overlapping, [1, 2, 3, 4, 5, 5])
    assert einsum("h+r, r -> h", np.zeros(0), np.ones(1)).shape == (0,)
    assert einsum("h+r, r ->", np.ones(5), np.ones(2)) == 8


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"^out has shape \(3,\) but the result \(4,\)$"):
        einsum("h+1 -> h", np.ones(5), out=np.empty(3))
    with pytest.raises(DTypeError, match="NumPy has no sums for indices"):
        einsum("h+1 -> h", np.ones(5, "longdouble"))
    with pytest.raises(SubscriptError, match=r"operands \[0, 1\] are indices into each other"):
        einsum("@1, @0 -> ", np.ones(5, int), np.ones(5, int))
    with pytest.raises(DTypeError, match="cannot be cast"):
        einsum("h+1 -> h", np.ones(5), dtype="i4")


def test_a_plan() -> None:
    line, taps = np.arange(10.0), np.array([1.0, 2.0])
    plan = compiled("h+r, r -> h", line, taps)
    np.testing.assert_array_equal(plan(line, taps), np.convolve(line, taps[::-1], "valid"))
