from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import mdtensor as mdt
from mdtensor.errors import AxisError, DTypeError, FilterError, MdtensorError
from tests.cases import tolerance, values

RNG = np.random.default_rng(0)
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
IMAGE = RNG.uniform(-1, 1, (23, 31))
CALLS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("sobel", ()),
    ("prewitt", (0,)),
    ("laplace", ()),
    ("gaussian_laplace", (1.3,)),
    ("gaussian_gradient_magnitude", (1.3,)),
    ("generic_laplace", (scipy.ndimage.prewitt,)),
    ("generic_gradient_magnitude", (scipy.ndimage.sobel,)),
)


def check(name: str, *args: Any, **kwargs: Any) -> None:
    expected = getattr(scipy.ndimage, name)(*args, **kwargs)
    result = getattr(mdt.ndimage, name)(*args, **kwargs)
    assert result.dtype == expected.dtype
    single = expected.dtype.char in "fF"
    scale = max(1.0, float(np.abs(expected.astype(complex)).max(initial=0)))
    atol = tolerance("float32", 9) if single else 1e-13
    np.testing.assert_allclose(result, expected, rtol=0, atol=atol * scale)


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "args"), CALLS)
def test_derivatives_are_those_of_scipy(name: str, args: tuple[Any, ...], mode: str) -> None:
    for image in (IMAGE, IMAGE[0], IMAGE[:1], RNG.uniform(-1, 1, (3, 1, 5))):
        check(name, image, *args, mode=mode, cval=0.5)


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_derivatives_on_kernels(name: str, args: tuple[Any, ...]) -> None:
    check(name, IMAGE, *args)
    check(name, (IMAGE + 1j * IMAGE[::-1, ::-1]), *args)


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32", "complex64"])
@pytest.mark.parametrize(("name", "args"), CALLS)
def test_types(name: str, args: tuple[Any, ...], dtype: str) -> None:
    image = values(RNG, (9, 8), dtype)
    if image.dtype.kind in "iu":
        image = image % 64
        if "magnitude" not in name and "gaussian" not in name:
            check(name, image, *args)  # the same integers
    check(name, image, *args, output="complex128" if dtype == "complex64" else "float64")


@pytest.mark.usefixtures("by_reference")
def test_axes_and_modes() -> None:
    image = RNG.uniform(-1, 1, (5, 6, 7))
    check("sobel", image, 1, mode=("wrap", "nearest", "mirror"))
    check("prewitt", image, -3, mode=("wrap", "nearest", "mirror"))
    check("laplace", image, axes=(2, 0), mode=("wrap", "nearest"))
    check("laplace", image, axes=())
    check("gaussian_laplace", image, (1.0, 0.5), axes=(0, 2), mode=("wrap", "mirror"))
    check("gaussian_laplace", image, 1.0, truncate=2.0)
    check("gaussian_gradient_magnitude", image, (1.0, 0.0, 0.5), axes=(0, 1))


def test_output() -> None:
    out = np.empty(IMAGE.shape, np.float32)
    assert mdt.ndimage.laplace(IMAGE, output=out) is out
    np.testing.assert_allclose(out, scipy.ndimage.laplace(IMAGE), rtol=0, atol=1e-5)
    image = IMAGE.copy()
    assert mdt.ndimage.gaussian_gradient_magnitude(image, 1.0, output=image) is image
    expected = scipy.ndimage.gaussian_gradient_magnitude(IMAGE, 1.0)
    np.testing.assert_allclose(image, expected, rtol=0, atol=1e-13)


def test_a_function_gets_what_scipys_gets_and_is_called_each_time() -> None:
    seen: list[Any] = []

    def derivative(u: Any, axis: int, output: Any, mode: str, cval: float, *more: Any) -> Any:
        seen.append((axis, np.dtype(output), mode, cval, more))
        return np.full(u.shape, axis + 1)

    for _ in range(2):
        result = mdt.ndimage.generic_gradient_magnitude(
            IMAGE, derivative, "float32", ("wrap", "mirror"), 2.0, (7,)
        )
    assert seen == 2 * [
        (0, np.float32, "wrap", 2.0, (7,)),
        (1, np.float32, "mirror", 2.0, (7,)),
    ]
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, np.full(IMAGE.shape, np.sqrt(5)), rtol=1e-6)


def test_a_plan_of_a_derivative() -> None:
    plan = mdt.compile(mdt.ndimage.sobel, mdt.spec(IMAGE.shape, "f8"))
    np.testing.assert_allclose(plan(IMAGE), scipy.ndimage.sobel(IMAGE), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.sobel(IMAGE, 2), AxisError, "specified axis: 2 is out of range"),
        (lambda m: m.sobel(1.0, 0), AxisError, "specified axis: 0 is out of range"),
        (
            lambda m: m.prewitt(IMAGE, mode=["wrap"]),
            FilterError,
            "sequence argument must have length equal to input rank: 1 for 2",
        ),
        (
            lambda m: m.laplace(IMAGE, mode="edge"),
            FilterError,
            "boundary mode not supported: 'edge'",
        ),
        (
            lambda m: m.generic_laplace(IMAGE, 3),
            DTypeError,
            "the derivative is 3, which is no function",
        ),
        (
            lambda m: m.generic_laplace(IMAGE, lambda u, *_: u[0]),
            FilterError,
            "the derivative along axis 0 has shape (31,), the array (23, 31)",
        ),
        (
            lambda m: m.generic_laplace(IMAGE, max, extra_arguments=1),
            DTypeError,
            "extra_arguments and extra_keywords: 'int' object is not iterable",
        ),
        (
            lambda m: m.generic_laplace(IMAGE, max, extra_keywords=[1]),
            DTypeError,
            "extra_arguments and extra_keywords: ",
        ),
    ],
)
def test_wrong_arguments(call: Any, error: type[MdtensorError], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        call(mdt.ndimage)


@pytest.mark.parametrize(("name", "args"), [CALLS[2], CALLS[4]])
def test_derivatives_of_more_axes_than_scipy_has(name: str, args: tuple[Any, ...]) -> None:
    """SciPy computes wrong values from 33 axes on; axes of extent 1 add nothing to these."""
    image = IMAGE[:3, :2]
    expected = getattr(scipy.ndimage, name)(image, *args)
    result = getattr(mdt.ndimage, name)(image.reshape((1,) * 32 + image.shape), *args)
    np.testing.assert_allclose(result.reshape(image.shape), expected, rtol=1e-12, atol=1e-12)
