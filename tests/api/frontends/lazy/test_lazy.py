from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdtensor as mdt
from mdtensor import tuning
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import program_calls
from mdtensor.errors import DTypeError, IndexingError, ShapeError, shown
from mdtensor.translate import reference
from tests.cases import DTYPES, tolerance, values

RNG = np.random.default_rng(0)


def check(function: Callable[..., Any], *arrays: Any, rtol: float = 1e-13) -> None:
    """A function of lazy arrays gives what it gives of the arrays: value, type and shape."""
    expected = function(*arrays)
    result = function(*map(mdt.lazy, arrays))
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    computed = result.evaluate()
    assert computed.dtype == expected.dtype
    if expected.dtype == np.float16:
        rtol = 2e-3
    elif expected.dtype.char in "fF":
        rtol = 1e-5
    np.testing.assert_allclose(computed, expected, rtol=rtol, atol=rtol)


def kernels(y: Any) -> int:
    """How many md_homs an evaluation runs."""
    with tuning("record") as seen:
        y.evaluate()
    return len(list(seen))


items = st.one_of(
    st.slices(7),
    st.integers(-3, 2),
    st.none(),
    st.just(slice(None)),
    st.just(slice(None, None, -1)),
)


@given(st.lists(items, max_size=5), st.booleans())
def test_basic_slices(key: list[Any], dots: bool) -> None:
    a = np.arange(7 * 5 * 6).reshape(7, 5, 6)
    index = (*key, ...) if dots else tuple(key)
    try:
        expected = a[index]
    except IndexError:
        with pytest.raises(IndexingError):
            mdt.lazy(a)[index]
        return
    result = mdt.lazy(a)[index]
    assert result.shape == expected.shape
    if not expected.size:
        return
    invalidation.clear()
    before, program_calls.executor = program_calls.executor, reference.compute
    try:
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal((result * 2).T[..., None], (expected * 2).T[..., None])
    finally:
        program_calls.executor = before


@pytest.mark.parametrize(
    "function",
    [
        lambda u: (u[:-2] + u[1:-1] + u[2:]) / 3,
        lambda u: (u[:, 1:] - u[:, :-1])[::-2].T,
        lambda u: u[3, None] * u[1:5, ..., ::3].T[..., None],
        lambda u: (u + u.T[:, :1].T)[-1],
        lambda u: np.broadcast_to(u[0], (3, 20)) - u[4:7, ::-1],
        lambda u: np.moveaxis(np.expand_dims(u, 1), 0, -1) + np.flip(u).T,
        lambda u: np.squeeze(np.swapaxes(u[:1], 0, 1)) ** 2,
        lambda u: abs(-u) ** 0.5 + 2**u - u // 0.3 + u % 0.3,
    ],
)
def test_expressions_of_slices_are_one_kernel(function: Callable[..., Any]) -> None:
    u = RNG.uniform(-1, 1, (10, 20))
    check(function, u)
    assert kernels(function(mdt.lazy(u))) == 1


def test_several_arrays_are_one_kernel() -> None:
    u, v, w = RNG.uniform(1, 2, (3, 12, 15))

    def function(u: Any, v: Any, w: Any) -> Any:
        middle = np.sqrt(u[1:-1] * v[:-2]) + w[2:] / u[2:]
        return np.where(middle > 1.5, middle, np.maximum(v[1:-1], 1.2))

    check(function, u, v, w)
    assert kernels(function(*map(mdt.lazy, (u, v, w)))) == 1


def test_one_array_is_one_buffer() -> None:
    u = RNG.uniform(size=9)
    with tuning("record") as seen:
        np.asarray(mdt.lazy(u)[1:] * mdt.lazy(u)[:-1] - u[0])
    [recorded] = seen
    assert len(recorded.md_hom.inputs) == 2
    assert list(map(repr, recorded.md_hom.inp_view)) == ["(i0+1)", "(i0)", "()"]


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("right", DTYPES)
@pytest.mark.parametrize("left", DTYPES)
def test_types_of_operators_are_those_of_numpy(left: str, right: str) -> None:
    a, b = values(RNG, (5,), left), values(RNG, (5,), right)
    for op in (operator.add, operator.mul, operator.lt, operator.truediv):
        with np.errstate(all="ignore"):
            expected = op(a, b)
        result = op(mdt.lazy(a), b)
        assert result.dtype == expected.dtype
        if op is not operator.truediv:
            found = np.asarray(result)
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("dtype", DTYPES)
def test_types_with_numbers_are_those_of_numpy(dtype: str) -> None:
    a = np.array([1, 0, 3], dtype)
    for number in (2, 0.5, True, np.float32(0.5), np.int16(3), np.array(2.0), 1j):
        check(lambda u, x=number: u * x, a)
        check(lambda u, x=number: x + u, a)


UNARY = (np.negative, np.positive, np.absolute, np.square, np.exp, np.log1p, np.sqrt, np.sin)
UNARY += (np.floor, np.rint, np.sign, np.isnan, np.logical_not, np.tanh, np.arctan, np.invert)
BINARY = (np.add, np.subtract, np.minimum, np.fmax, np.hypot, np.logical_or, np.not_equal)
BINARY += (np.left_shift, np.floor_divide, np.remainder, np.copysign)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32"])
def test_ufuncs_are_those_of_numpy(dtype: str) -> None:
    a, b = np.array([1, 0, 3, 5], dtype), np.array([2, 1, 3, 1], dtype)
    # Exponents of signed integers may be negative.
    powers = () if np.dtype(dtype).kind == "i" else (np.power,)
    for ufunc in (*UNARY, *BINARY, *powers):
        arrays = (a, b)[: ufunc.nin]
        try:
            ufunc(*arrays)
        except TypeError:
            with pytest.raises(DTypeError, match=f"^np.{ufunc.__name__}: "):
                ufunc(*map(mdt.lazy, arrays))
            continue
        check(ufunc, *arrays)


def test_ufuncs_with_several_results() -> None:
    quotient, rest = np.divmod(mdt.lazy(np.array([7, -7, 9])), 4)
    np.testing.assert_array_equal(quotient, [1, -2, 2])
    np.testing.assert_array_equal(rest, [3, 1, 1])


REDUCTIONS = ("sum", "prod", "max", "min", "mean", "any", "all")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32", "float64"])
@pytest.mark.usefixtures("by_reference")
def test_reductions_are_those_of_numpy(dtype: str) -> None:
    a = values(RNG, (4, 5, 3), dtype)
    for name in REDUCTIONS:
        for axis in (None, 0, -1, (0, 2), ()):
            check(lambda u, n=name, a=axis: getattr(u, n)(axis=a), a)
        check(lambda u, n=name: getattr(np, n)(u, axis=1, keepdims=True), a)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda u: (u[1:] * u[:-1]).sum(axis=0), 1),
        (lambda u: np.sqrt((u * u).sum(axis=1)), 1),
        (lambda u: u.mean(axis=0)[None] * 2 + 1, 1),
        (lambda u: u.sum(axis=0) - u[0], 1),
        (lambda u: u.sum(axis=1, keepdims=True).T / u[:, 0], 1),
        (lambda u: u - u.mean(axis=0), 2),
        (lambda u: np.exp(u - u.max(axis=1, keepdims=True)), 2),
        (lambda u: u.sum(axis=0)[::-1] + 1, 2),
        (lambda u: u.sum(axis=0) / u.max(axis=0), 2),
        (lambda u: (u - u.mean()).sum(axis=0), 2),
        (lambda u: (u[:4, :4] + u.sum(axis=0)[:4]).max(axis=1) * 2, 2),
        (lambda u: u[:2, :6] + u[:6].sum(axis=1), 2),
        (lambda u: (u.sum(axis=0) * 2).sum() - u.sum(), 3),
    ],
)
def test_expressions_of_reductions(function: Callable[..., Any], count: int) -> None:
    u = RNG.uniform(-1, 1, (9, 6))
    result = function(mdt.lazy(u))
    expected = function(u)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
    assert kernels(result) == count


def test_complex_numbers_on_kernels() -> None:
    a = RNG.uniform(-1, 1, (5, 6)) + 1j * RNG.uniform(-1, 1, (5, 6))
    check(lambda u: u[1:] * u[:-1] - 2j, a)
    check(lambda u: u.mean(axis=1) * (1 + 1j), a)
    check(lambda u: abs(u).sum(axis=0) + u.real[0], a)


_SIGNED = (0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 7.0, -7.0, 1e-30, -1e30, np.inf, -np.inf, np.nan)


def check_signs(function: Callable[..., Any], *arrays: Any) -> None:
    """The same numbers, and the same signs of zeros."""
    found, expected = np.asarray(function(*map(mdt.lazy, arrays))), function(*arrays)
    np.testing.assert_array_equal(found, expected)
    is_zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found[is_zero]), np.signbit(expected[is_zero]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [np.mod, np.floor_divide, np.fmod], ids=lambda f: f.__name__)
def test_quotients_and_rests_have_the_signs_of_numpy(
    function: Callable[..., Any], dtype: str
) -> None:
    with np.errstate(all="ignore"):
        check_signs(function, *np.meshgrid(*[np.array(_SIGNED, dtype)] * 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda u: np.copysign(u, 0.0) + 10 * np.copysign(u, -0.0),
        lambda u: np.arctan2(0.0, u) * 10 + np.arctan2(-0.0, u),
        lambda u: (u * complex(1, -0.0)).imag,
        lambda u: (u * complex(-0.0, 0.0)).real,
    ],
    ids=["copysign", "arctan2", "imaginary", "real"],
)
def test_zeros_of_both_signs_are_two_constants_of_a_kernel(function: Callable[..., Any]) -> None:
    check_signs(function, np.array([1.0, -2.0, 0.0, -0.0]))
    check_signs(lambda u: function(u.astype(float)), np.array([1, 0, -2], np.int32))


def test_softmax() -> None:
    u = values(RNG, (33, 65), "float32")
    x = mdt.lazy(u)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    result = np.asarray(powers / powers.sum(axis=1, keepdims=True))
    exact = np.exp(u.astype(float) - u.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result, exact, rtol=0, atol=tolerance("float32", 65) / 65)


@pytest.mark.usefixtures("by_reference")
def test_other_functions() -> None:
    a = RNG.uniform(-2, 2, (3, 4))
    check(lambda u: np.clip(u, -1, 0.5), a)
    check(lambda u: np.clip(u, None, 0.5), a)
    check(lambda u: np.clip(u, min=u - 1, max=0.5), a)
    with pytest.raises(DTypeError, match="a_min and a_max, or min and max, and not both"):
        np.clip(mdt.lazy(a), -1, 0.5, min=-1)
    with pytest.raises(DTypeError, match=r"np.clip of lazy arrays: .* argument 'casting'"):
        np.clip(mdt.lazy(a), -1, 0.5, casting="unsafe")
    check(lambda u: np.round(u, 1), a)
    check(np.round, np.array([5, 7]))
    check(lambda u: u.real + u.imag, a + 1j * a)
    check(lambda u: np.real(u).astype("f4"), a)
    check(lambda u: np.where(u, 1, 2.5), np.array([0, 1, 2]))
    check(lambda u: np.multiply.reduce(u, axis=1), a)
    check(np.add.reduce, a)
    assert np.shape(mdt.lazy(a)) == (3, 4)
    assert np.ndim(mdt.lazy(a)) == 2
    assert np.size(mdt.lazy(a)) == 12


STEPS: tuple[Callable[[Any], Any], ...] = (
    lambda u: u.T,
    lambda u: u[None],
    lambda u: u[..., ::-1] if u.ndim else u,
    lambda u: u[1::2] if u.ndim else u,
    lambda u: u[..., -3:-1] if u.ndim else u,
    lambda u: u[0] if u.ndim and u.shape[0] else u,
    lambda u: u * 0.5 + 1,
    lambda u: np.minimum(abs(u), 2),
    lambda u: u.sum(axis=-1) / 4 if u.ndim else u,
    lambda u: u.mean(axis=0, keepdims=True) if u.ndim and u.shape[0] else u,
    lambda u: u - u.max() if 0 not in u.shape else u,
)


@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    """Values made of earlier values, by NumPy and lazily, with the same choices."""
    arrays = [np.arange(12.0).reshape(3, 4) / 5, np.arange(4.0), np.array(2.5)]
    pairs = [(array, mdt.lazy(array)) for array in arrays]
    for _ in range(data.draw(st.integers(1, 8))):
        known, symbolic = data.draw(st.sampled_from(pairs))
        step = data.draw(st.sampled_from([*STEPS, None]))
        if step is not None:
            made = [step(known), step(symbolic)]
        else:
            other, lazily = data.draw(st.sampled_from(pairs))
            try:
                made = [known + 2 * other, symbolic + 2 * lazily]
            except ValueError:
                continue
        pairs.append((made[0], made[1]))
    expected, result = pairs[-1]
    assert result.shape == expected.shape
    invalidation.clear()
    before, program_calls.executor = program_calls.executor, reference.compute
    try:
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
    finally:
        program_calls.executor = before


def test_in_place_operators_give_new_values() -> None:
    u = v = mdt.lazy(np.arange(3, dtype=np.float32))
    u += np.float64(0.5)
    assert u.dtype == np.float32
    np.testing.assert_array_equal(u, [0.5, 1.5, 2.5])
    np.testing.assert_array_equal(v, [0, 1, 2])
    with pytest.raises(ShapeError) as caught:
        v *= 1j
    assert str(caught.value) == "complex64(3,) does not go into float32(3,)"


def test_out() -> None:
    a, b = RNG.uniform(size=(2, 5, 6))
    out = np.empty((5, 6), np.float32)
    y = mdt.lazy(a) + b
    assert y.evaluate(out=out) is out
    np.testing.assert_array_equal(out, (a + b).astype("f4"))
    expected = a + 2 * b
    assert np.add(mdt.lazy(b) * 2, a, out=a) is a
    np.testing.assert_allclose(a, expected, rtol=1e-15)
    a += mdt.lazy(b)[::-1]
    np.testing.assert_allclose(a, expected + b[::-1], rtol=1e-15)
    total = np.empty(5)
    assert mdt.lazy(b).sum(axis=1, out=total) is total
    np.testing.assert_allclose(total, b.sum(axis=1), rtol=1e-15)


def test_arrays_are_read_when_evaluated() -> None:
    a = np.zeros(3)
    y = mdt.lazy(a) + 1
    a[:] = 5
    np.testing.assert_array_equal(y, [6, 6, 6])


def test_single_values() -> None:
    u = mdt.lazy(np.arange(4))
    assert (u > 3).any().evaluate() is np.False_
    assert not (u > 3).any()
    assert float(u.sum()) == 6.0
    assert int(u.max()) == 3
    assert complex(u[1]) == 1 + 0j
    assert [int(x) for x in u] == [0, 1, 2, 3]
    assert mdt.lazy(u) is u
    assert repr(u[1:] * 2.5) == "<lazy float64[3]: (float64(p0) * 2.5)>"


@pytest.mark.parametrize("index", [[0, 1], np.array([0, 1]), np.array([True] * 4), True, 1.5, "x"])
def test_fancy_indices_are_refused(index: Any) -> None:
    with pytest.raises(IndexingError) as caught:
        mdt.lazy(np.arange(4))[index]
    assert str(caught.value) == (
        f"a lazy array cannot be indexed by {shown(index)}\n"
        "  hint: integers, slices, ... and np.newaxis; mdtensor.reduce reads at computed indices"
    )


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda u: u[5, 0],
            IndexingError,
            "index 5 is out of range for axis 0, which has 4 elements",
        ),
        (lambda u: u[0, 0, 0], IndexingError, "3 indices for 2 axes"),
        (lambda u: u[..., 0, ...], IndexingError, "an index has more than one ellipsis"),
        (
            lambda u: u[:2] + u[:3],
            ShapeError,
            (
                "shapes (2, 5), (3, 5) do not broadcast\n"
                "  hint: axes are matched from the last one on; np.newaxis adds one of extent 1"
            ),
        ),
        (
            lambda u: np.broadcast_to(u, (4, 6)),
            ShapeError,
            "shape (4, 5) does not broadcast to (4, 6)",
        ),
        (
            lambda u: u[:0].max(axis=0),
            ShapeError,
            "nothing to take the max of: shape (0, 5), axes (0,)",
        ),
        (
            lambda u: u.sum(axis=2),
            ShapeError,
            "axis 2 is out of bounds for array of dimension 2",
        ),
        (
            lambda u: np.squeeze(u, 0),
            ShapeError,
            "axes (0,) of shape (4, 5) are not all of extent 1",
        ),
        (lambda u: u.transpose(1), ShapeError, "1 axes to order 2 by"),
        (
            lambda u: np.add(u, u, where=u > 0),
            DTypeError,
            (
                "np.add with where= takes no lazy arrays\n"
                "  hint: np.asarray(y) evaluates a lazy array y first"
            ),
        ),
        (lambda u: len(u[0, 0]), DTypeError, "a lazy array without axes has no length"),
        (
            lambda u: mdt.lazy(np.array([None])),
            DTypeError,
            (
                "no kernels compute with dtype object\n"
                "  hint: convert the arrays to bool, integers, float16 to float64 or"
                " complex numbers"
            ),
        ),
    ],
)
def test_errors(function: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        function(mdt.lazy(np.zeros((4, 5))))
    assert str(caught.value) == message
