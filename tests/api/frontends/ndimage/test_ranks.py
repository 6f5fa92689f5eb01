from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import mdtensor as mdt
from mdtensor.errors import DTypeError, FilterError, MdtensorError
from tests.cases import values

RNG = np.random.default_rng(0)
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
IMAGE = RNG.uniform(-1, 1, (23, 31))
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 1]])


def check(name: str, *args: Any, **kwargs: Any) -> None:
    expected = getattr(scipy.ndimage, name)(*args, **kwargs)
    result = getattr(mdt.ndimage, name)(*args, **kwargs)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("mode", MODES)
def test_ranks_are_those_of_scipy(mode: str) -> None:
    check("median_filter", IMAGE[0], 5, mode=mode, cval=0.5)
    # scipy's filter of arrays of one axis reads beyond them where the window is wider.
    for shape in ((9, 8), (1, 1), (2, 1), (1, 7), (3, 1, 5)):
        image = RNG.uniform(-1, 1, shape)
        check("median_filter", image, 3 if len(shape) > 2 else 5, mode=mode, cval=0.5)
        check("rank_filter", image, -2, size=3, mode=mode, cval=0.5)
        check("percentile_filter", image, 30, size=3, mode=mode, cval=0.5)
    check("median_filter", IMAGE, footprint=CROSS, mode=mode, origin=(1, -1))


@pytest.mark.usefixtures("by_reference")
def test_every_rank() -> None:
    for rank in range(-7, 7):
        check("rank_filter", IMAGE, rank, size=7, axes=1)
    for percentile in (0, 1, 17, 50.0, 99, 100, -1, -100):
        check("percentile_filter", IMAGE, percentile, footprint=CROSS)


def test_ranks_on_kernels() -> None:
    check("median_filter", IMAGE, 3)
    check("rank_filter", values(RNG, (19, 18), "uint8"), 2, size=(2, 3), mode="wrap")


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", "float32"])
def test_types(dtype: str) -> None:
    image = values(RNG, (9, 8), dtype)
    if dtype == "uint64":
        image //= 1 << 20  # scipy compares doubles
    check("median_filter", image, 3)
    check("median_filter", image, 3, output="float64")
    check("rank_filter", image[0], 3, size=6)
    half = mdt.ndimage.median_filter(values(RNG, (9, 8), "float16"), 3)
    assert half.dtype == np.float16


@pytest.mark.parametrize("rank", range(1, 8))
def test_nan_where_the_window_has_one(rank: int) -> None:
    image = IMAGE[:9, :8].copy()
    image[4, 5] = np.nan
    near = scipy.ndimage.maximum_filter(np.isnan(image) * 1, 3) > 0
    found = mdt.ndimage.rank_filter(image, rank, size=3)
    np.testing.assert_array_equal(np.isnan(found), near)
    expected = scipy.ndimage.rank_filter(IMAGE[:9, :8], rank, size=3)
    np.testing.assert_array_equal(found[~near], expected[~near])


def test_infinities() -> None:
    image = IMAGE.copy()
    image[::3], image[:, ::4] = np.inf, -np.inf
    check("median_filter", image, 3)


@pytest.mark.usefixtures("by_reference")
def test_output() -> None:
    out = np.empty(IMAGE.shape, np.float32)
    assert mdt.ndimage.median_filter(IMAGE, 3, output=out) is out
    np.testing.assert_array_equal(out, scipy.ndimage.median_filter(IMAGE, 3).astype("f4"))
    image = IMAGE.copy()
    assert mdt.ndimage.median_filter(image, 3, output=image) is image
    np.testing.assert_array_equal(image, scipy.ndimage.median_filter(IMAGE, 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda m: m.median_filter(IMAGE, 6),
            FilterError,
            "a window of 36 elements is too large to sort\n  hint: at most 27; scipy.ndimage has",
        ),
        (
            lambda m: m.rank_filter(IMAGE, 9, 3),
            FilterError,
            "rank not within filter footprint size\n  hint: from -9 to 8",
        ),
        (
            lambda m: m.rank_filter(IMAGE, 0.5, 3),
            DTypeError,
            "rank 0.5 cannot be interpreted as an integer",
        ),
        (lambda m: m.percentile_filter(IMAGE, 101, 3), FilterError, "invalid percentile"),
        (lambda m: m.percentile_filter(IMAGE, "x", 3), FilterError, "percentile is 'x', which is"),
        (lambda m: m.median_filter(IMAGE), FilterError, "no footprint or filter size provided"),
        (lambda m: m.median_filter(IMAGE, 0), FilterError, "incorrect filter size"),
        (
            lambda m: m.median_filter(IMAGE, 2**35),
            FilterError,
            "a window of 1180591620717411303424 elements is too large to sort",
        ),
        (
            lambda m: m.median_filter(IMAGE, footprint=[1, 1, 1]),
            FilterError,
            "footprint.ndim (1) must match len(axes) (2)",
        ),
        (
            lambda m: m.median_filter(IMAGE, 3, mode=["wrap", "wrap"]),
            FilterError,
            "A sequence of modes is not supported by non-separable rank filters",
        ),
        (
            lambda m: m.median_filter(IMAGE, 3, origin=2),
            FilterError,
            "Invalid origin 2 for a window of 3",
        ),
        (lambda m: m.median_filter(1j * IMAGE, 3), DTypeError, "Complex type not supported"),
    ],
)
def test_wrong_arguments(call: Any, error: type[MdtensorError], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        call(mdt.ndimage)


def test_the_size_is_ignored_beside_a_footprint() -> None:
    with pytest.warns(UserWarning, match="ignoring size because footprint is set"):
        mdt.ndimage.median_filter(IMAGE, 7, footprint=[[1, 1, 1]])
