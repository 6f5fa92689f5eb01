"""bfloat16 on processors, by LLVM and by OpenCL: computed in float32, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdtensor as mdt
from mdtensor.api.calls.statistics import stats
from mdtensor.errors import DTypeError, ShapeError, SubscriptError
from mdtensor.translate.scalar import Expr
from tests.strategies import Problem, laid_out, problems

BFLOAT16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
LANGUAGES = ("llvm", "opencl")
fixture_is_constant = settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PATTERNS = np.arange(1 << 16, dtype="u2")
TIES = (PATTERNS.astype("u4") << 16) | 0x8000  # halfway between neighbours
RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(BFLOAT16)


A, B, X = drawn(5, 40), drawn(40, 6), drawn(30)
IMAGE, FILTER = drawn(2, 9, 10, 3), drawn(4, 3, 3, 3)
# More than vectors hold, and a few elements behind the last whole one.
ROWS, COLUMNS = drawn(37, 131), drawn(131, 45)
# An even number of products, which some processors add up by twos.
EVEN, BESIDE, SQUARE = ROWS[:, :130], COLUMNS[:130], drawn(12, 12)
CHANNELS = drawn(2, 9, 10, 6), drawn(4, 3, 3, 6)


@pytest.fixture(params=LANGUAGES, autouse=True)
def language(request: pytest.FixtureRequest, device_chosen_here: None) -> str:
    """Each test runs on each of the devices of NumPy's arrays."""
    mdt.device(request.param)
    return request.param


def blurred(u: Any) -> Expr:
    return (u[-1, 0] + 2 * u[0, 0] + u[1, 0]) / 4


def last_of(a: np.ndarray) -> Any:
    return mdt.scan("ij->ij", a, combine={"j": mdt.ps("add")})


CALLS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "einsum": (lambda *arrays: mdt.einsum("ij,jk->ik", *arrays), (A, B)),
    "tails": (lambda *arrays: mdt.einsum("ij,jk->ik", *arrays), (ROWS, COLUMNS)),
    "pairs in rows": (lambda a, b: mdt.einsum("ij,kj->ik", a, b), (EVEN, EVEN[:9])),
    "pairs": (lambda *arrays: mdt.einsum("ij,jk->ik", *arrays), (EVEN, BESIDE)),
    "pairs in columns": (lambda *a: mdt.einsum("ji,jk->ik", *a), (EVEN.T.copy(), BESIDE)),
    "pairs at odd places": (
        lambda a, b: mdt.einsum("ij,kj->ik", a, b),
        (ROWS[:, 1:], ROWS[:, :-1]),
    ),
    "pairs backwards": (lambda a: mdt.einsum("ij,kj->ik", a[:, ::-1], a), (EVEN,)),
    "pairs of one array": (lambda a: mdt.einsum("ij,ji->i", a, a), (SQUARE,)),
    "pairs of channels": (lambda *a: mdt.conv(*a, padding=1, epilogue="relu"), CHANNELS),
    "columns": (lambda *arrays: mdt.einsum("ij,jk->ki", *arrays), (ROWS, COLUMNS)),
    "rows": (lambda a, b: mdt.einsum("ij,kj->ik", a, b), (ROWS, ROWS[:9])),
    "steps": (lambda a: mdt.einsum("ij,ij->i", a[:, ::2], a[:, ::-2]), (ROWS,)),
    "interleaved": (lambda a, b: mdt.einsum(a, [0, 1], b, [1, 2]), (A, B)),
    "a path": (lambda a, b: mdt.einsum("ij,jk,ij->k", a, b, a, optimize="greedy"), (A, B)),
    "sums for indices": (lambda a, x: mdt.einsum("i j+r, r -> i j", a, x[:3]), (A, X)),
    "a number": (lambda x: mdt.einsum("i,i->", x, x), (X,)),
    "tensordot": (lambda *arrays: mdt.tensordot(*arrays, 1), (A, B)),
    "matmul": (mdt.matmul, (A, B)),
    "convolve": (mdt.convolve, (X, X[:7])),
    "two axes": (lambda *arrays: mdt.correlate(*arrays, mode="same"), (A, B)),
    "fft": (lambda *arrays: mdt.convolve(*arrays, method="fft"), (X, X[:7])),
    "conv": (mdt.conv, (IMAGE, FILTER)),
    "pooling": (lambda x: mdt.avg_pool(x, 2, axes=(1, 2)), (IMAGE,)),
    "stencil": (mdt.stencil(blurred), (ROWS,)),
    "sum": (lambda a: mdt.sum(a, axis=1), (ROWS,)),
    "variance": (lambda a: mdt.var(a, axis=0), (ROWS,)),
    "maximum": (lambda a: mdt.max(a, axis=1), (ROWS,)),
    "scan": (last_of, (ROWS,)),
    "softmax": (lambda a: mdt.softmax(a, axis=1), (ROWS,)),
    "layer_norm": (lambda a: mdt.layer_norm(a, axis=1), (ROWS,)),
    "min_plus": (lambda *a: mdt.einsum("ij,jk->ik", *a, semiring="min_plus"), (A, B)),
    "epilogue": (lambda *a: mdt.einsum("ij,jk->ik", *a, epilogue="relu"), (A, B)),
    "lazy": (lambda a, b: (mdt.lazy(a)[:, :6] * mdt.lazy(b)[:5] + 1).evaluate(), (A, B)),
    "gradient": (mdt.grad(lambda a: mdt.reduce("ij->", a, f=lambda x: x * x)), (A,)),
    "plan": (lambda *arrays: mdt.compile("ij,jk->ik", *arrays)(*arrays), (A, B)),
}


# A plan takes the types that it was made for.
MIXED = [name for name, (_, arrays) in CALLS.items() if len(arrays) > 1 and name != "plan"]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_rounded_once(name: str) -> None:
    call, arrays = CALLS[name]
    exact = np.asarray(call(*(array.astype(float) for array in arrays)))
    result = np.asarray(call(*arrays))
    assert (result.dtype, result.shape) == (BFLOAT16, exact.shape)
    np.testing.assert_allclose(result.astype(float), exact, rtol=2.0**-8, atol=1e-5)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", MIXED)
def test_beside_float32_they_are_float32(name: str) -> None:
    call, arrays = CALLS[name]
    exact = call(*(array.astype(float) for array in arrays))
    mixed = call(arrays[0].astype("f4"), *arrays[1:])
    assert mixed.dtype == F32
    np.testing.assert_allclose(mixed, exact, rtol=1e-5, atol=1e-5)


def assert_rounded(result: Any, exact: Any) -> None:
    """Equal to exact numbers of this size but for one rounding, and those of sums in float32."""
    result, exact = np.asarray(result), np.asarray(exact)
    assert (result.dtype, result.shape) == (BFLOAT16, exact.shape)
    np.testing.assert_allclose(result.astype(float), exact, rtol=2.0**-8, atol=1e-4)


@given(problems(("bfloat16",)))
@fixture_is_constant
def test_any_einsum_in_any_layout(problem: Problem) -> None:
    wide = [operand.astype(float) for operand in problem.operands]
    assert_rounded(mdt.einsum(problem.text, *problem.operands), np.einsum(problem.text, *wide))


ON_ROWS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "sum": (lambda a: mdt.reduce("ij->i", a), lambda a: a.sum(1)),
    "sum of columns": (lambda a: mdt.reduce("ij->j", a), lambda a: a.sum(0)),
    "maximum": (lambda a: mdt.reduce("ij->i", a, combine="max"), lambda a: a.max(1)),
    "squares": (lambda a: mdt.reduce("ij->", a, f=lambda x: x * x), lambda a: (a * a).sum()),
    "scan": (last_of, lambda a: a.cumsum(1)),
    "blur": (
        mdt.stencil(lambda u: (u[0, -1] + u[0, 0] + u[0, 1]) / 2, border="wrap"),
        lambda a: (np.roll(a, 1, 1) + a + np.roll(a, -1, 1)) / 2,
    ),
    "formula": (lambda a: (mdt.lazy(a) * 3 - 1).evaluate(), lambda a: a * 3 - 1),
    "copy": (lambda a: mdt.lazy(a).T.evaluate(), lambda a: a.T),
}


@pytest.mark.sampled(5)
@given(st.data(), *[st.sampled_from((1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65))] * 2)
@pytest.mark.parametrize("name", ON_ROWS)
@fixture_is_constant
def test_any_rows_in_any_layout(name: str, data: st.DataObject, rows: int, columns: int) -> None:
    array = data.draw(laid_out((rows, columns), BFLOAT16))
    call, expected = ON_ROWS[name]
    assert_rounded(call(array), expected(array.astype(float)))


@pytest.mark.parametrize("place", ["argmax", "argmin"])
def test_places_are_exact(place: str) -> None:
    values = ROWS.copy()
    values[3, 70] = np.nan
    expected = getattr(np, place)(values.astype("f4"), axis=1)
    np.testing.assert_array_equal(getattr(mdt, place)(values, axis=1), expected)
    assert expected[3] == 70


def test_ranks_are_elements() -> None:
    values = drawn(9, 13)
    expected = np.median(np.lib.stride_tricks.sliding_window_view(values.astype("f4"), 3, 1), -1)
    result = mdt.ndimage.median_filter(values, (1, 3))
    np.testing.assert_array_equal(result[:, 1:-1].astype("f4"), expected)


@pytest.mark.parametrize("count", [1, 3, 7, 15, 17, 1 << 16])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_every_pattern_is_widened_exactly(count: int, dtype: str) -> None:
    values = PATTERNS[-count:].view(BFLOAT16)
    with np.errstate(invalid="ignore"):
        expected = values.astype(dtype)
    np.testing.assert_array_equal(mdt.lazy(values).astype(dtype).evaluate(), expected)
    back = mdt.lazy(expected).astype(BFLOAT16).evaluate()
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(back.view("u2")[numbers], values.view("u2")[numbers])


def test_float32_is_rounded_to_the_nearest_even() -> None:
    bits = np.concatenate([TIES, TIES + 1, TIES - 1, RNG.integers(0, 1 << 32, 9999, "u4")])
    wide = bits.view("f4")
    with np.errstate(all="ignore"):
        expected = wide.astype(BFLOAT16)
    result = mdt.lazy(wide).astype(BFLOAT16).evaluate()
    numbers = ~np.isnan(wide)
    np.testing.assert_array_equal(result.view("u2")[numbers], expected.view("u2")[numbers])
    not_numbers = result.view("u2")[~numbers]
    assert ((not_numbers & 0x7FC0) == 0x7FC0).all(), "quiet, whatever the lower half was"
    np.testing.assert_array_equal(not_numbers >> 15, bits[~numbers] >> 31)


def nearest(wide: np.ndarray) -> np.ndarray:
    """Float64 rounded to eight bits, or to multiples of the least bfloat16."""
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(wide)[1], -125) - 8
        rounded = np.ldexp(np.rint(np.ldexp(wide, -exponent)), exponent)
        rounded = np.where(np.isfinite(wide), rounded, wide)
        return np.where(np.abs(rounded) < 2.0**128, rounded, np.copysign(np.inf, wide))


def test_float64_is_rounded_once() -> None:
    ties = TIES.view("f4")
    ties = ties[np.isfinite(ties)].astype("f8")
    special = [1e300, -1e300, 1e-300, -1e-300, np.inf, -np.inf, 0.0, -0.0]
    wide = np.concatenate([ties, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), special])
    result = mdt.lazy(wide).astype(BFLOAT16).evaluate().astype("f8")
    np.testing.assert_array_equal(result, nearest(wide))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(wide))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_are_converted_as_ml_dtypes_does(dtype: str) -> None:
    values = RNG.integers(0, 256, 8 * 137, "u1").view(dtype) if dtype != "?" else X > 0
    result = mdt.lazy(values).astype(BFLOAT16).evaluate()
    np.testing.assert_array_equal(result, values.astype(BFLOAT16))


def test_what_is_no_number_stays_none() -> None:
    values = ROWS.copy()
    values[0, 3], values[1, 130], values[2, 7], values[3, :2] = np.nan, np.inf, 0, (np.inf, -np.inf)
    with np.errstate(invalid="ignore"):
        exact = values.astype(float).sum(1)
        totals = mdt.sum(values, axis=1).astype(float)
    np.testing.assert_allclose(totals, exact, rtol=2.0**-8, atol=1e-5)
    assert np.isnan(totals[[0, 3]]).all()
    assert np.isinf(totals[1])


def test_subnormal_numbers_are_kept() -> None:
    least = np.full(70, 1, "u2").view(BFLOAT16)
    np.testing.assert_array_equal(mdt.einsum("i,->i", least, BFLOAT16.type(3)).view("u2"), 3)
    assert mdt.sum(least).view("u2") == 70


def test_accumulators_are_float32() -> None:
    ones = np.ones(4099, BFLOAT16)
    assert mdt.einsum("i,i->", ones, ones) == BFLOAT16.type(4096)
    for total in (mdt.einsum("i,i->", ones, ones, dtype="f4"), mdt.sum(ones, dtype="f4")):
        assert (total, total.dtype) == (4099, F32)


def test_out_and_dtype() -> None:
    exact = A.astype(float) @ B.astype(float)
    for dtype in (BFLOAT16, F32, np.dtype(float)):
        out = np.empty((5, 6), dtype)
        assert mdt.einsum("ij,jk->ik", A, B, out=out) is out
        np.testing.assert_allclose(out.astype(float), exact, rtol=2.0**-8, atol=1e-5)
    result = mdt.einsum("ij,jk->ik", A, B, dtype="f8")
    assert result.dtype == float
    np.testing.assert_allclose(result, exact, rtol=1e-12)
    wide = A.astype("f4") + np.float32(2.0**-20)
    rounded = mdt.einsum("ij,jk->ik", wide, B, dtype=BFLOAT16, casting="same_kind")
    np.testing.assert_array_equal(rounded, mdt.einsum("ij,jk->ik", wide.astype(BFLOAT16), B))


def test_kernels_compute() -> None:
    stats(reset=True)
    mdt.einsum("ij,jk->ik", A, B)
    mdt.convolve(X, X)
    mdt.reduce("ij->i", A)
    assert stats().generated == {"float": 3}
    assert not stats().numpy


def test_what_does_not_fit() -> None:
    with pytest.raises(DTypeError, match="operand 0 cannot be cast from float32 to bfloat16"):
        mdt.einsum("ij,jk->ik", A.astype("f4"), B, dtype=BFLOAT16)
    for other in ("i4", "f2"):
        name = np.dtype(other).name
        with pytest.raises(DTypeError, match=f"bfloat16 and {name} have no common type"):
            mdt.einsum("ij,jk->ik", A, np.ones((40, 6), other))
        with pytest.raises(DTypeError, match=f"bfloat16 and {name} have no common type"):
            mdt.convolve(X, np.ones(3, other))
        with pytest.raises(DTypeError, match=f"bfloat16 and {name} have no common type"):
            mdt.reduce("ij,ij->i", A, A.astype(other), f=lambda x, y: x + y)
    fixed = np.empty((5, 6), BFLOAT16)
    fixed.flags.writeable = False
    with pytest.raises(ShapeError, match="out is read-only"):
        mdt.einsum("ij,jk->ik", A, B, out=fixed)
    with pytest.raises(SubscriptError, match="out has shape"):
        mdt.einsum("ij,jk->ik", A, B, out=np.empty((6, 5), BFLOAT16))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "int4", "int1", "complex32"])
def test_other_types_of_ml_dtypes_are_refused(name: str) -> None:
    given = np.zeros(3, getattr(ml_dtypes, name, "V3"))
    with pytest.raises(DTypeError, match=f"no kernels compute with dtype {given.dtype.name}"):
        mdt.reduce("i->", given)
