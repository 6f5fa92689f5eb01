from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import program_calls
from mdtensor.errors import DTypeError, ShapeError, TranslationError
from tests.cases import tolerance, values

RNG = np.random.default_rng(0)
BORDERS = ("constant", "nearest", "reflect", "mirror", "wrap")
LAPLACE = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])


def laplacian(u: Any) -> Any:
    return u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]


@mdt.stencil
def jacobi(u: Any) -> Any:
    """The mean of four neighbours."""
    return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])


def jacobi_in_numpy(u: np.ndarray) -> np.ndarray:
    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


@pytest.fixture
def allocated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The specs of all arrays that are allocated for results and temporaries."""
    specs: list[Any] = []
    allocate = program_calls.allocate

    def counted(spec: Any, xp: Any) -> Any:
        specs.append(spec)
        return allocate(spec, xp)

    monkeypatch.setattr(program_calls, "allocate", counted)
    monkeypatch.setattr(program_calls, "allocator", lambda spec, xp: lambda: counted(spec, xp))
    invalidation.clear()
    return specs


@pytest.mark.parametrize(
    ("border", "dtype"), [("reflect", "float64"), *((border, "float32") for border in BORDERS)]
)
def test_borders(border: str, dtype: str) -> None:
    u = values(RNG, (37, 61), dtype)
    result = mdt.stencil(laplacian, border=border, cval=0.5)(u)
    expected = scipy.ndimage.correlate(u.astype(float), LAPLACE, mode=border, cval=0.5)
    assert result.dtype == u.dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance(dtype, 5, 4))


def test_three_axes_on_kernels() -> None:
    check_three_axes("mirror")


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("border", BORDERS)
def test_three_axes(border: str) -> None:
    check_three_axes(border)


def check_three_axes(border: str) -> None:
    @mdt.stencil(border=border)
    def function(u: Any) -> Any:
        return u[-1, 0, 2] - 2 * u[0, 1, 0] + 3 * u[0, -2, -1]

    weights = np.zeros((3, 5, 5))
    weights[0, 2, 4], weights[1, 3, 2], weights[1, 0, 1] = 1, -2, 3
    for shape in [(12, 17, 33), (3, 4, 5), (1, 2, 1)]:
        u = values(RNG, shape, "float64")
        expected = scipy.ndimage.correlate(u, weights, mode=border)
        np.testing.assert_allclose(function(u), expected, rtol=0, atol=1e-13)


def test_the_function_stays_known() -> None:
    assert jacobi.__name__ == "jacobi"
    assert jacobi.__doc__ == "The mean of four neighbours."
    assert repr(jacobi) == "<stencil jacobi, border 'valid'>"


def test_out() -> None:
    u = RNG.uniform(size=(20, 30))
    out = np.empty((18, 28))
    assert jacobi(u, out=out) is out
    np.testing.assert_allclose(out, jacobi_in_numpy(u), rtol=1e-15)
    wide = np.full((20, 30), np.nan)
    inner = wide[1:-1, 1:-1]
    jacobi(u, out=inner)
    np.testing.assert_allclose(inner, jacobi_in_numpy(u), rtol=1e-15)
    assert np.isnan(wide).sum() == wide.size - inner.size
    expected = jacobi_in_numpy(u)
    jacobi(u, out=u[1:-1, 1:-1])
    np.testing.assert_allclose(u[1:-1, 1:-1], expected, rtol=1e-15)
    with pytest.raises(ShapeError, match=r"out has shape \(20, 30\) but the result \(18, 28\)"):
        jacobi(u, out=wide)


@pytest.mark.parametrize(
    ("function", "dtype", "expected"),
    [
        (lambda u: u[-1] + 2, "int8", "int8"),
        (lambda u: u[-1] + 2.0, "float32", "float32"),
        (lambda u: 0.5 * u[-1], "int16", "float64"),
        (lambda u: u[-1] > u[1], "float32", "bool"),
        (lambda u: np.sqrt(u[0] * u[0]), "float32", "float32"),
        (lambda u: 1j * u[0], "float32", "complex64"),
    ],
)
def test_types_are_those_of_the_expression(function: Any, dtype: str, expected: str) -> None:
    u = np.array([1, 5, 2, 7, 3, 3, 9, 4], dtype)
    result = mdt.stencil(function, border="wrap")(u)
    by_numpy = function({n: np.roll(u, -n) for n in (-1, 0, 1)})
    assert result.dtype == expected
    np.testing.assert_allclose(result, by_numpy, rtol=1e-6)


@pytest.mark.usefixtures("by_reference")
def test_numbers_are_constants_and_scalars_are_operands() -> None:
    @mdt.stencil(border="nearest")
    def heat(u: Any, rate: Any, steps: int = 1) -> Any:
        return u[0, 0] + steps * rate * laplacian(u)

    u = values(RNG, (20, 30), "float32")
    laplace = scipy.ndimage.correlate(u.astype(float), LAPLACE, mode="nearest")
    atol = tolerance("float32", 6, 4)
    for rate in (0.1, 0.2, np.float32(0.1), np.array(0.2, np.float32)):
        result = heat(u, rate)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, u + float(rate) * laplace, rtol=0, atol=atol)
    assert heat(u, np.float64(0.1)).dtype == np.float64
    result = heat(u, steps=2, rate=0.1)
    np.testing.assert_allclose(result, u + 0.2 * laplace, rtol=0, atol=atol)


def limited(value: Any, limit: float) -> Any:
    return value if abs(value) < limit else limit


@mdt.stencil(border="mirror")
def upwind(u: Any, speed: Any, steps: int = 2) -> Any:
    total = u[0]
    for step in range(1, steps + 1):
        if speed[0] > 0 and u[0] > u[-step]:
            total += u[-step]
        elif speed[0] < 0:
            total -= limited(u[step], 0.5)
    return total


def test_functions_with_control_flow() -> None:
    u, speed = RNG.uniform(-1, 1, (2, 40))
    padded = np.pad(u, 2, mode="reflect")
    expected = u.copy()
    for n in range(40):
        for step in (1, 2):
            below, above = padded[n + 2 - step], padded[n + 2 + step]
            if speed[n] > 0 and u[n] > below:
                expected[n] += below
            elif speed[n] < 0:
                expected[n] -= above if abs(above) < 0.5 else 0.5
    np.testing.assert_allclose(upwind(u, speed), expected, rtol=1e-13)


def test_equal_numbers_of_different_types_are_different_constants() -> None:
    scaled = mdt.stencil(lambda u, c: u[0] * c)
    u = np.arange(3)
    assert scaled(u, 1).dtype == np.int64
    assert scaled(u, 1.0).dtype == np.float64


def test_arrays_of_any_layout() -> None:
    u = RNG.uniform(size=(30, 20)).T
    v = RNG.uniform(size=(40, 60))[::-2, ::2]
    function = mdt.stencil(lambda u, v: u[-1, 0] * v[1, 1])
    np.testing.assert_array_equal(function(u, v), u[:-2, :-1] * v[2:, 1:])


@pytest.mark.parametrize("border", ["valid", "wrap"])
def test_steps_are_calls(border: str) -> None:
    function = mdt.stencil(jacobi.function, border=border)
    u = RNG.uniform(size=(24, 31))
    before, expected = u.copy(), u
    for n in range(8):
        np.testing.assert_allclose(function.steps(u, n=n), expected, rtol=1e-13)
        out = np.empty_like(expected)
        assert function.steps(u, n=n, out=out) is out
        np.testing.assert_allclose(out, expected, rtol=1e-13)
        expected = function(expected)
    np.testing.assert_array_equal(u, before)


def test_steps_allocate_two_arrays(allocated: list[Any]) -> None:
    function = mdt.stencil(jacobi.function, border="wrap")
    u = RNG.uniform(size=(24, 31))
    expected = u
    for _ in range(50):
        expected = function(expected)
    allocated.clear()
    result = function.steps(u, n=50)
    assert len(allocated) == 2
    np.testing.assert_allclose(result, expected, rtol=1e-13)
    function.steps(u, n=50, out=u)
    np.testing.assert_allclose(u, expected, rtol=1e-13)


def heat_in_numpy(u: np.ndarray, rate: float, n: int) -> np.ndarray:
    u = u.copy()
    inner = (slice(1, -1),) * u.ndim
    for _ in range(n):
        change = -2.0 * u.ndim * u[inner]
        for axis in range(u.ndim):
            for shift in (slice(None, -2), slice(2, None)):
                change = change + u[(*inner[:axis], shift, *inner[axis + 1 :])]
        u[inner] += rate * change
    return u


def heat(u: Any, rate: float) -> Any:
    """One step of the heat equation in as many dimensions as `u` has."""
    here = (0,) * u.ndim
    change = -2 * u.ndim * u[here]
    for axis in range(u.ndim):
        for shift in (-1, 1):
            change += u[(*here[:axis], shift, *here[axis + 1 :])]
    return u[here] + rate * change


@pytest.mark.parametrize("shape", [(50,), (24, 31), (9, 11, 40), (2, 7), (1,), (3, 3)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fixed_boundary_values(shape: tuple[int, ...], dtype: str, allocated: list[Any]) -> None:
    function = mdt.stencil(heat, border="fixed")
    u = values(RNG, shape, dtype)
    before = u.copy()
    for n in (1, 2, 3, 200):
        allocated.clear()
        result = function.steps(u, 0.1, n=n)
        assert len(allocated) <= 2
        assert result.dtype == u.dtype
        expected = heat_in_numpy(u.astype(float), 0.1, n)
        atol = tolerance(dtype, 7 * n, 4)
        np.testing.assert_allclose(result, expected, rtol=0, atol=atol)
        out = np.full_like(u, np.nan)
        assert function.steps(u, 0.1, n=n, out=out) is out
        np.testing.assert_array_equal(out, result)
    np.testing.assert_array_equal(u, before)
    function.steps(u, 0.1, n=200, out=u)
    np.testing.assert_array_equal(u, out)


def test_steps_write_a_fixed_border_once_in_each_array() -> None:
    function = mdt.stencil(heat, border="fixed")
    u = RNG.uniform(size=(20, 30))
    with mdt.tuning("record") as seen:
        function.steps(u, 0.1, n=100)
    assert [seen.calls(item) for item in seen] == [100, 2, 2]


def test_a_fixed_border_of_waves() -> None:
    """As many arrays as results; the reach is longer on one side than on the other."""

    @mdt.stencil(border="fixed")
    def wave(u: Any, before: Any, rate: float) -> Any:
        return 2 * u[0, 0] - before[0, 0] + rate * (u[0, 2] + u[-1, 0] - 2 * u[0, 0]), u[0, 0]

    u, before = RNG.uniform(size=(2, 15, 22))
    found = wave.steps(u, before, 0.1, n=40)
    for _ in range(40):
        inner = (slice(1, None), slice(None, -2))
        change = u[1:, 2:] + u[:-1, :-2] - 2 * u[inner]
        after, kept = u.copy(), before.copy()
        after[inner] = 2 * u[inner] - before[inner] + 0.1 * change
        kept[inner] = u[inner]
        u, before = after, kept
    np.testing.assert_allclose(found[0], u, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found[1], before, rtol=0, atol=1e-10)


def test_a_fixed_border_changes_its_type_with_the_result() -> None:
    mean = mdt.stencil(lambda u: (u[-1] + u[1]) / 2, border="fixed")
    u = np.array([0, 0, 0, 0, 4], "i4")
    np.testing.assert_array_equal(mean(u), [0.0, 0, 0, 2, 4])
    np.testing.assert_allclose(mean.steps(u, n=200), np.arange(5.0))
    with pytest.raises(DTypeError, match="a fixed border keeps elements of int32, which do not"):
        mdt.stencil(lambda u: u[-1] > u[1], border="fixed")(u)
    with pytest.raises(TranslationError, match="returns 2 values, more than it has arrays"):
        mdt.stencil(lambda u: (u[-1], u[1]), border="fixed")(u)


def test_steps_of_several_arrays(allocated: list[Any]) -> None:
    @mdt.stencil(border="constant")
    def wave(u: Any, before: Any, rate: float) -> Any:
        return 2 * u[0, 0] - before[0, 0] + rate * laplacian(u), u[0, 0]

    u, before = RNG.uniform(size=(2, 20, 30))
    result = wave.steps(u, before, 0.1, n=30)
    assert len(allocated) == 4
    for _ in range(30):
        laplace = scipy.ndimage.correlate(u, LAPLACE, mode="constant")
        u, before = 2 * u - before + 0.1 * laplace, u
    np.testing.assert_allclose(result[0], u, rtol=0, atol=1e-11)
    np.testing.assert_allclose(result[1], before, rtol=0, atol=1e-11)


def test_steps_with_arrays_that_stay() -> None:
    @mdt.stencil(border="nearest")
    def heated(u: Any, source: Any) -> Any:
        return 0.5 * (u[-1] + u[1]) + source[0]

    u, source = RNG.uniform(size=(2, 33))
    expected = heated(heated(heated(u, source), source), source)
    np.testing.assert_array_equal(heated.steps(u, source, n=3), expected)


def test_steps_whose_type_changes_once() -> None:
    mean = mdt.stencil(lambda u: (u[-1] + u[1]) / 2, border="wrap")
    u = np.arange(10)
    result = mean.steps(u, n=5)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, mean(mean(mean(mean(mean(u))))), rtol=1e-13)


def test_wrong_calls() -> None:
    with pytest.raises(ShapeError, match=r"^n is -1; a number of steps is 0 or more$"):
        jacobi.steps(np.zeros((4, 4)), n=-1)
    with pytest.raises(ShapeError, match="the stencil spans 3 elements along axis 0, which has 2"):
        jacobi.steps(np.zeros((4, 4)), n=3)
    with pytest.raises(DTypeError, match="no kernels compute with dtype object"):
        jacobi(np.zeros((4, 4), object))
    with pytest.raises(TypeError, match="missing a required argument: 'u'"):
        jacobi()
    both = mdt.stencil(lambda u: (u[0], -u[0]))
    with pytest.raises(ShapeError) as caught:
        both.steps(np.zeros(3), n=2)
    assert str(caught.value) == (
        "<lambda> returns 2 values, but takes 1\n"
        "  hint: a step replaces the first arguments by the results"
    )


def test_empty_arrays() -> None:
    assert mdt.stencil(laplacian, border="wrap")(np.zeros((0, 5))).shape == (0, 5)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(64, 31), (5, 31), (33, 23)])
def test_corners_of_few_reads(border: str, shape: tuple[int, int]) -> None:
    """Intel's compiler took other rows at a reflecting border, written as minima and maxima."""
    u = RNG.permutation(shape[0] * shape[1]).reshape(shape).astype("i4")
    found = mdt.stencil(lambda u: np.maximum(u[-1, -1], u[0, 1]), border=border, cval=0)(u)
    footprint = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]])
    expected = scipy.ndimage.maximum_filter(u, footprint=footprint, mode=border)
    np.testing.assert_array_equal(found, expected)


def test_wide_neighbourhoods_compile_at_the_border() -> None:
    def smooth(u: Any) -> Any:
        total, weights = np.float32(0), np.float32(0)
        for y in range(-2, 3):
            for x in range(-2, 3):
                weight = np.exp(-((u[y, x] - u[0, 0]) ** 2))
                total, weights = total + weight * u[y, x], weights + weight
        return total / weights

    u = RNG.random((20, 40), dtype=np.float32)
    wide = np.pad(u.astype(np.float64), 2, mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(wide, (5, 5))
    weight = np.exp(-((windows - u[:, :, None, None]) ** 2))
    expected = (weight * windows).sum((2, 3)) / weight.sum((2, 3))
    np.testing.assert_allclose(mdt.stencil(smooth, border="reflect")(u), expected, rtol=2e-6)
