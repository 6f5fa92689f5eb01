from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import mdtensor as mdt
from mdtensor import tuning
from mdtensor.errors import AxisError, DTypeError, FilterError, MdtensorError, ShapeError
from tests.cases import tolerance, values

RNG = np.random.default_rng(0)
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
IMAGE = RNG.uniform(-1, 1, (23, 31))
WINDOW = RNG.uniform(-1, 1, (3, 4))


def check(name: str, *args: Any, **kwargs: Any) -> None:
    expected = getattr(scipy.ndimage, name)(*args, **kwargs)
    result = getattr(mdt.ndimage, name)(*args, **kwargs)
    assert result.dtype == expected.dtype
    scale = max(1.0, float(np.nanmax(np.abs(expected), initial=0)))
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13 * scale)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("mode", MODES)
def test_filters_are_those_of_scipy(mode: str) -> None:
    check("correlate", IMAGE, WINDOW, mode=mode, cval=0.5, origin=(1, -2))
    check("convolve", IMAGE, WINDOW, mode=mode, cval=0.5, origin=(-1, 1))
    check("gaussian_filter", IMAGE, 1.3, mode=mode, order=(0, 2))
    check("uniform_filter", IMAGE, (3, 4), mode=mode, cval=0.5, origin=(1, 0))
    check("minimum_filter", IMAGE, (3, 4), mode=mode, cval=0.5, origin=(0, 1))
    check("maximum_filter", IMAGE, footprint=WINDOW > 0, mode=mode, cval=0.5)


def test_filters_on_kernels() -> None:
    check("correlate", IMAGE, WINDOW, mode="mirror")
    check("gaussian_filter", IMAGE, 1.3, mode="wrap")
    check("uniform_filter1d", IMAGE, 3, mode="constant", cval=0.5)
    check("maximum_filter", IMAGE, footprint=WINDOW > 0, mode="nearest")
    check("correlate", IMAGE[:2], WINDOW, mode="reflect")


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("shape", [(1,), (2,), (3, 2), (1, 5, 2), (4, 1, 7)])
@pytest.mark.parametrize("mode", MODES)
def test_windows_larger_than_the_array(mode: str, shape: tuple[int, ...]) -> None:
    image = RNG.uniform(-1, 1, shape)
    check("correlate", image, RNG.uniform(-1, 1, (5, 4, 9)[: len(shape)]), mode=mode, cval=0.5)
    check("maximum_filter", image, 5, mode=mode, cval=0.5)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("mode", ["grid-mirror", "grid-wrap", "grid-constant"])
def test_other_words_for_borders(mode: str) -> None:
    check("correlate1d", IMAGE, [1, 2, 3, 4], 0, mode=mode, cval=2.0)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", "float32", "c8"])
def test_types(dtype: str) -> None:
    image = values(RNG, (9, 8), dtype)
    if dtype == "uint64":
        image //= 1 << 20
    if dtype == "int32":
        image //= 1 << 8
    for name, args in (("uniform_filter", (3,)), ("correlate", ([[1, -2], [3, 4]],))):
        for output in (None, "complex128") if dtype == "c8" else (None, np.float64, "float32"):
            expected = getattr(scipy.ndimage, name)(image, *args, output=output)
            result = getattr(mdt.ndimage, name)(image, *args, output=output)
            assert result.dtype == expected.dtype
            if dtype == "bool" and output is None:
                continue  # scipy stores other bytes than 0 and 1
            scale = float(np.abs(expected.astype(complex)).max())
            is_single = result.dtype.char in "fF"
            rtol = tolerance("float32" if is_single else "float64", 9)
            np.testing.assert_allclose(result, expected, rtol=0, atol=rtol * max(1.0, scale))


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f4", "c8", "c16"])
@pytest.mark.parametrize("image", [IMAGE, 1j * IMAGE, (100 * IMAGE).astype("i4")])
def test_types_of_weights(dtype: str, image: np.ndarray) -> None:
    """Footprints of extremes say which elements count; weights of booleans are numbers."""
    weights = values(RNG, (2, 3), dtype)
    output = np.complex128 if "c" in image.dtype.kind + weights.dtype.kind else np.float64
    check("correlate", image, weights, output)
    check("convolve1d", image, weights[0].tolist(), output=output)


def test_a_blur_keeps_the_mean() -> None:
    """Of float32 too, whose weights would add up to 1.00000002, were each rounded for itself."""
    image = (np.random.default_rng(1).uniform(-1, 1, (100, 101)) + 8).astype("f4")
    mean = image.mean(dtype=float)
    for result in (
        mdt.ndimage.gaussian_filter(image, 1.0, mode="wrap"),
        mdt.ndimage.uniform_filter(image, 3, mode="wrap"),
    ):
        assert result.dtype == np.float32
        assert abs(result.mean(dtype=float) / mean - 1) < 1e-8


@pytest.mark.usefixtures("by_reference")
def test_nan_times_0_is_nan() -> None:
    """Along several axes too, where scipy leaves elements of weight 0 out."""
    image = IMAGE.copy()
    image[4, 5] = np.nan
    check("correlate1d", image, [1, 0, 1])
    around = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    nans = scipy.ndimage.correlate(np.isnan(image) * 1, np.ones((3, 3))) > 0
    found = mdt.ndimage.correlate(image, around)
    np.testing.assert_array_equal(np.isnan(found), nans)
    expected = scipy.ndimage.correlate(image, around)
    np.testing.assert_allclose(found[~nans], expected[~nans], rtol=0, atol=1e-14)
    assert np.isnan(expected).sum() < nans.sum()


@pytest.mark.usefixtures("by_reference")
def test_float16() -> None:
    image = values(RNG, (9, 8), "float16")
    result = mdt.ndimage.uniform_filter(image, 3)
    assert result.dtype == np.float16
    exact = scipy.ndimage.uniform_filter(image.astype(float), 3)
    np.testing.assert_allclose(result, exact, rtol=0, atol=tolerance("float16", 9) / 9)


def test_weights_are_an_operand() -> None:
    """One structure serves all weights of a size: they are no constants of the kernel."""
    with tuning("record") as seen:
        for weights in (WINDOW, 2 * WINDOW):
            mdt.ndimage.correlate(IMAGE, weights)
    assert len(list(seen)) == 4


def test_output() -> None:
    out = np.empty(IMAGE.shape, np.float32)
    assert mdt.ndimage.correlate(IMAGE, WINDOW, output=out) is out
    expected = scipy.ndimage.correlate(IMAGE, WINDOW)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-6)
    image = IMAGE.copy()
    assert mdt.ndimage.uniform_filter(image, 3, output=image) is image
    np.testing.assert_allclose(image, scipy.ndimage.uniform_filter(IMAGE, 3), atol=1e-14)
    small = np.empty((23, 30))
    np.testing.assert_array_equal(mdt.ndimage.minimum_filter(IMAGE, 1), IMAGE)
    assert mdt.ndimage.minimum_filter(IMAGE, 1, output=out) is out
    with pytest.raises(FilterError, match=r"^output shape not correct: \(23, 30\) for \(23, 31\)"):
        mdt.ndimage.correlate(IMAGE, WINDOW, output=small)


@pytest.mark.usefixtures("by_reference")
def test_axes() -> None:
    image = RNG.uniform(-1, 1, (5, 6, 7))
    check("correlate", image, WINDOW, axes=(0, 2), origin=(1, -1))
    check("convolve", image, WINDOW, axes=(2, 0), origin=(-1, 0))
    check("correlate1d", image, [1, 2, 3], axis=1, origin=1)
    check("convolve1d", image, [1, 2, 3, 4], axis=-3, origin=-1)
    check("gaussian_filter", image, (1.0, 0.5), axes=(2, 1), mode=("wrap", "nearest"))
    check("gaussian_filter", image, (0.0, 1.0, 0.0), radius=2)
    check("gaussian_filter1d", image, 1.0, axis=1, order=3)
    check("uniform_filter1d", image, 4, axis=0, origin=-1)
    check("minimum_filter1d", image, 4, axis=1)
    check("maximum_filter1d", image, 3, axis=2, mode="constant", cval=2.0)
    check("maximum_filter", image, footprint=[[1, 0], [1, 1]], axes=(1, 2))


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.correlate(IMAGE, [1, 2]), "weights.ndim (1) must match len(axes) (2)"),
        (lambda m: m.correlate1d(IMAGE, []), "no filter weights given"),
        (lambda m: m.uniform_filter(IMAGE, 3, origin=2), "Invalid origin 2 for a window of 3"),
        (
            lambda m: m.uniform_filter(IMAGE, (3, 3, 3)),
            "sequence argument must have length equal to input rank: 3 for 2",
        ),
        (lambda m: m.uniform_filter(IMAGE, axes=(0, 0)), "axes must be unique"),
        (lambda m: m.uniform_filter(IMAGE, mode="edge"), "boundary mode not supported: 'edge'"),
        (lambda m: m.uniform_filter1d(IMAGE, 0), "incorrect filter size"),
        (lambda m: m.minimum_filter1d(IMAGE, 1, origin=1), "Invalid origin 1 for a window of 1"),
        (lambda m: m.correlate1d(IMAGE, 3.0), "no filter weights given"),
        (lambda m: m.correlate1d(IMAGE, ["a"]), "weights are no numbers: could not convert"),
        (lambda m: m.gaussian_filter1d(IMAGE, 0), "sigma is 0.0: a Gaussian needs a width"),
        (lambda m: m.gaussian_filter(IMAGE, "x"), "sigma is 'x', which is no number"),
        (lambda m: m.gaussian_filter1d(IMAGE, np.inf), "sigma is inf, which is not finite"),
        (lambda m: m.uniform_filter(IMAGE, "3x"), "size is '3x', which is no number"),
        (lambda m: m.uniform_filter(IMAGE, "3"), "size is '3', which is no number"),
        (lambda m: m.minimum_filter(IMAGE, (memoryview(b"3"), 2)), "size is <memory at"),
        (
            lambda m: m.minimum_filter(IMAGE, footprint=np.zeros((3, 3), "f4,S3")),
            "footprint is neither true nor false: Cannot cast",
        ),
        (lambda m: m.gaussian_filter(IMAGE, "1"), "sigma is '1', which is no number"),
        (lambda m: m.uniform_filter(IMAGE, None), "size is None, which is no number"),
        (lambda m: m.uniform_filter(IMAGE, cval=[1, 2]), "cval has 2 values"),
        (lambda m: m.gaussian_filter1d(IMAGE, 1, truncate=None), "truncate is None, which is no"),
        (lambda m: m.correlate(1.0, 2.0), "a filter needs an array with at least one axis"),
        (lambda m: m.minimum_filter(IMAGE), "no footprint provided"),
        (
            lambda m: m.minimum_filter(IMAGE, footprint=[[0]]),
            "All-zero footprint is not supported.",
        ),
        (
            lambda m: m.minimum_filter(IMAGE, footprint=[1, 0]),
            "footprint.ndim (1) must match len(axes) (2)",
        ),
        (
            lambda m: m.minimum_filter(IMAGE, footprint=[[1, 0]], mode=["wrap", "wrap"]),
            "A sequence of modes is not supported for non-separable footprints",
        ),
        (
            lambda m: m.correlate(IMAGE, WINDOW, mode=["wrap", "wrap"]),
            "A sequence of modes is not supported",
        ),
        (lambda m: m.correlate(IMAGE, WINDOW, output="S1"), "output must have numeric dtype"),
        (lambda m: m.correlate(IMAGE, 1j * WINDOW, output="f8"), "output must have complex dtype"),
        (
            lambda m: m.correlate(IMAGE, WINDOW, cval=1j),
            "Cannot provide a complex-valued cval when the input is real.",
        ),
        (lambda m: m.gaussian_filter(IMAGE, 1, radius=-1), "Radius must be a nonnegative integer."),
        (lambda m: m.gaussian_filter(IMAGE, 1, order=-1), "order must be non-negative"),
    ],
)
def test_wrong_arguments(call: Any, message: str) -> None:
    with pytest.raises(FilterError, match=f"^{re.escape(message)}"):
        call(mdt.ndimage)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.uniform_filter(IMAGE, axes=2), AxisError, "specified axis: 2 is out of range"),
        (lambda m: m.correlate1d(IMAGE, [1], 2), AxisError, "specified axis: 2 is out of range"),
        (
            lambda m: m.uniform_filter(IMAGE, axes=0.5),
            DTypeError,
            "axis 0.5 cannot be interpreted as an integer",
        ),
        (
            lambda m: m.uniform_filter1d(IMAGE, 3, None),
            DTypeError,
            "axis None cannot be interpreted as an integer",
        ),
        (
            lambda m: m.uniform_filter1d(IMAGE, 2.5),
            DTypeError,
            "size 2.5 cannot be interpreted as an integer",
        ),
        (
            lambda m: m.uniform_filter(IMAGE, origin=0.5),
            DTypeError,
            "origin 0.5 cannot be interpreted as an integer",
        ),
        (
            lambda m: m.convolve(IMAGE, WINDOW, origin="0"),
            DTypeError,
            "origin '0' cannot be interpreted as an integer",
        ),
        (
            lambda m: m.gaussian_filter(IMAGE, 1, order=1.0),
            DTypeError,
            "order 1.0 cannot be interpreted as an integer",
        ),
        (lambda m: m.correlate(IMAGE, [[1, 2], [3]]), ShapeError, "weights is a list that is no"),
        (lambda m: m.correlate(IMAGE, WINDOW, output=[0.0]), DTypeError, "output is list, not an"),
    ],
)
def test_arguments_of_wrong_types(call: Any, error: type[MdtensorError], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        call(mdt.ndimage)


def test_wrong_types() -> None:
    with pytest.raises(DTypeError, match=r"^Complex type not supported"):
        mdt.ndimage.maximum_filter(1j * IMAGE, 3)
    with pytest.raises(DTypeError, match="no kernels compute with dtype object"):
        mdt.ndimage.correlate(IMAGE.astype(object), WINDOW)
    with pytest.raises(DTypeError, match="the array is None"):
        mdt.ndimage.uniform_filter(None, 3)
    with pytest.raises(DTypeError, match="no kernels compute with dtype float128"):
        mdt.ndimage.uniform_filter(IMAGE, 3, output=np.longdouble)


def test_the_size_is_ignored_beside_a_footprint() -> None:
    with pytest.warns(UserWarning, match="ignoring size because footprint is set"):
        mdt.ndimage.minimum_filter(IMAGE, 7, footprint=[[1, 1]])
