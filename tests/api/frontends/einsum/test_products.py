"""`matmul`, `dot`, `inner`, `vdot` and `outer` beside NumPy's, on shapes at random."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import mdtensor as mdt
from mdtensor.errors import DTypeError, ShapeError
from tests.conftest import IN_ANY_TIME

DTYPES = ("?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")
EXTENTS = st.sampled_from((0, 1, 2, 3, 5, 8, 17))


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """An array of small whole numbers, whose products and sums are exact in every type."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    array = rng.integers(0, 3, shape).astype(dtype)
    if dtype.kind == "c":
        array += (1j * rng.integers(0, 3, shape)).astype(dtype)
    return array.copy(order=draw(st.sampled_from("CF")))


def shapes(most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(EXTENTS, max_size=most).map(tuple)


def assert_same(result: Any, expected: Any) -> None:
    assert type(result) is type(expected)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@st.composite
def matmuls(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    m, k, n = draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)
    stack = draw(shapes(2))
    stacks = [tuple(draw(st.sampled_from((1, e))) for e in stack) for _ in range(2)]
    stacks = [each[draw(st.integers(0, len(each))) :] for each in stacks]
    left = draw(st.sampled_from(((k,), (*stacks[0], m, k))))
    right = draw(st.sampled_from(((k,), (*stacks[1], k, n))))
    return draw(arrays(left)), draw(arrays(right))


@settings(max_examples=100, **IN_ANY_TIME)
@given(matmuls())
def test_matmul(operands: tuple[np.ndarray, np.ndarray]) -> None:
    assert_same(mdt.matmul(*operands), np.matmul(*operands))


@st.composite
def dots(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Operands of dot, and another second one for inner."""
    k = draw(EXTENTS)
    rows, columns = draw(shapes(2)), draw(shapes(2))
    left = draw(st.sampled_from(((), (*rows, k))))
    right = draw(st.sampled_from(((), (k,), (*columns[:-1], k, *columns[-1:]))))
    last = draw(st.sampled_from(((), (*columns, k))))
    return draw(arrays(left)), draw(arrays(right)), draw(arrays(last))


@settings(max_examples=100, **IN_ANY_TIME)
@given(dots())
def test_dot_and_inner(operands: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    a, b, last = operands
    expected = np.dot(a, b)
    assert_same(mdt.dot(a, b), expected)
    assert_same(mdt.inner(a, last), np.inner(a, last))
    out = np.empty_like(expected, order="C")
    if out.ndim:
        assert mdt.dot(a, b, out) is out
        assert_same(out, expected)


@settings(max_examples=50, **IN_ANY_TIME)
@given(shapes(3).flatmap(lambda shape: st.tuples(arrays(shape), arrays(shape))))
def test_vdot(operands: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = operands
    assert_same(mdt.vdot(a, b), np.vdot(a, b))
    assert_same(mdt.vdot(a, b.T.reshape(-1)), np.vdot(a, b.T.reshape(-1)))


@settings(max_examples=50, **IN_ANY_TIME)
@given(shapes(2).flatmap(arrays), shapes(2).flatmap(arrays))
def test_outer(a: np.ndarray, b: np.ndarray) -> None:
    expected = np.outer(a, b)
    assert_same(mdt.outer(a, b), expected)
    out = np.empty(expected.shape, "c16")
    assert mdt.outer(a, b, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_matmul_of_fractions(dtype: str) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.random((3, 33, 65)).astype(dtype), rng.random((65, 17)).astype(dtype)
    exact = np.matmul(a.astype("f8"), b.astype("f8"))
    np.testing.assert_allclose(mdt.matmul(a, b), exact, rtol=65 * np.finfo(dtype).eps)


def test_options_of_matmul() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12).reshape(3, 4)
    out = np.empty((2, 4), "f4", order="F")
    assert mdt.matmul(a, b, out) is out
    np.testing.assert_array_equal(out, a @ b)
    assert mdt.matmul(a, b, order="F").flags.f_contiguous
    assert mdt.matmul(a, b, order="K").flags.c_contiguous
    assert_same(mdt.matmul(a, b, dtype="f4"), np.matmul(a, b, dtype="f4"))
    assert_same(mdt.matmul(b.T, a.T, dtype="c8"), np.matmul(b.T, a.T, dtype="c8"))


def test_results_may_lie_over_operands() -> None:
    a = np.arange(9.0).reshape(3, 3)
    expected = a @ a
    assert mdt.matmul(a, a, out=a) is a
    np.testing.assert_array_equal(a, expected)


def test_repeated_calls_are_recalled() -> None:
    a, b = np.ones((4, 5)), np.ones((5, 6))
    calls = {"matmul": (a, b), "dot": (a, b), "inner": (a, a), "vdot": (a, a), "outer": (a[0], a)}
    for name, operands in calls.items():
        function = getattr(mdt, name)
        function(*operands)
        with mdt.trace() as trace:
            function(*operands)
        assert [call.front_end for call in trace.calls] == [name]


def test_objects_are_numpys() -> None:
    a = np.array([[1, 2], [3, 4]], object)
    mdt.stats(reset=True)
    np.testing.assert_array_equal(mdt.matmul(a, a), a @ a)
    assert mdt.vdot(a, a) == 30
    assert dict(mdt.stats().numpy) == {("object", "dtype object"): 2}


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "numbers": (
        lambda: mdt.matmul(3, [1]),
        ShapeError,
        "matmul multiplies no numbers\n  a: ()    b: (1,)\n  hint: a * b, or mdtensor.dot(a, b)",
    ),
    "summed": (
        lambda: mdt.matmul(np.ones((2, 1)), np.ones((3, 2))),
        ShapeError,
        "matmul sums over 1 elements of a but 3 of b\n  a: (2, 1)    b: (3, 2)",
    ),
    "casts": (
        lambda: mdt.matmul([1.5], [2.5], out=np.empty((), int)),
        DTypeError,
        "the result is float64, which does not go into int64",
    ),
    "shape of out": (
        lambda: mdt.matmul([[1.5]], [[2.5]], out=np.empty((2, 2), "f4")),
        ShapeError,
        "out has shape (2, 2) but the result (1, 1)",
    ),
    "type of out": (
        lambda: mdt.dot([1.5], [2.5], out=np.empty((), "f4")),
        DTypeError,
        "out is float32, but the result float64",
    ),
    "order of out": (
        lambda: mdt.dot(np.ones((2, 2)), np.ones((2, 2)), out=np.ones((2, 2), order="F")),
        ShapeError,
        "out is not in C order\n  hint: numpy.matmul and einsum take any order",
    ),
    "sizes": (
        lambda: mdt.vdot([1, 2], [1, 2, 3]),
        ShapeError,
        "vdot sums over 2 elements of a but 3 of b\n  a: (2,)    b: (3,)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(case: str) -> None:
    call, kind, text = WRONG[case]
    with pytest.raises(kind) as raised:
        call()
    assert str(raised.value) == text
