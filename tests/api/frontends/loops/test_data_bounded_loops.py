"""Loops whose bounds are data: rows of sparse arrays, segments, ranges of two arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.directive import Buffer, add, cc, combine_ops, fp64, inp, int64, mdh, out, ps, pw
from mdtensor.errors import ProgramError
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.rewrites.stored_elements import over_ranges

RNG = np.random.default_rng(7)
INF = float("inf")
D, L = Buffer[fp64], Buffer[int64]


def product(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] += val[k] * x[col[k]]


def product_by_a_variable(y, ptr, col, val, x):
    for i in range(len(y)):
        total = 0
        for k in range(ptr[i], ptr[i + 1]):
            total += val[k] * x[col[k]]
        y[i] = total


def shortest(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] = min(y[i], val[k] + x[col[k]])


def shortest_by_a_condition(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            if val[k] + x[col[k]] < y[i]:
                y[i] = val[k] + x[col[k]]


def largest(y, ptr, col, val, x):
    for i in range(len(y)):
        highest = -1
        for k in range(ptr[i], ptr[i + 1]):
            highest = max(highest, val[k])
        y[i] = highest


def products(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] *= val[k]


def degrees(y, ptr, col, val, x):
    for i in range(len(y)):
        for _ in range(ptr[i], ptr[i + 1]):
            y[i] += 1


def lengths(y, ptr, col, val, x):
    for i in range(len(y)):
        for _ in range(ptr[i + 1] - ptr[i]):
            y[i] += x[i]


def off_diagonal(y, ptr, col, val, x):
    for i in range(len(y)):
        count = 0
        for k in range(ptr[i], ptr[i + 1]):
            if col[k] != i:
                count += 1
        y[i] = count


def below_the_diagonal(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            if 0 <= col[k] < i:
                y[i] += val[k] * x[col[k]]


def row_by_column(y, ptr, col, val, x):
    for i in range(len(y)):
        for j in range(3):
            for k in range(ptr[i], ptr[i + 1]):
                y[i] += val[k] * x[col[k]] * j


def two_steps(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            total = 0
            for m in range(ptr[col[k] % len(y)], ptr[col[k] % len(y) + 1]):
                total += val[m]
            y[i] += val[k] + total


def every_pair(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            for m in range(ptr[col[k] % len(y)], ptr[col[k] % len(y) + 1]):
                y[i] += val[k] * val[m]


def earlier_ones(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            for m in range(ptr[i], k):
                y[i] += val[m] * val[k]


def a_part(y, ptr, col, val, x):
    for k in range(ptr[0] + 1, ptr[-1]):
        val[k] = 2 * val[k]


def several(y, ptr, col, val, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] += k
            x[i] = max(x[i], val[k])


EVERY = (
    *(product, product_by_a_variable, shortest, shortest_by_a_condition, largest, products),
    *(degrees, lengths, off_diagonal, below_the_diagonal, row_by_column, two_steps, every_pair),
    *(earlier_ones, a_part, several),
)
ROWS = ("random", "empty", "all in one", "one each", "none at all")


def rows(form: str, count: int = 11) -> np.ndarray:
    """How many elements each of some rows has."""
    match form:
        case "random":
            return RNG.integers(0, 9, count) * (RNG.random(count) < 0.7)
        case "empty":
            return np.zeros(count, int)
        case "all in one":
            return np.where(np.arange(count) == count // 2, 60, 0)
        case "one each":
            return np.ones(count, int)
        case _:
            return np.zeros(0, int)


def operands(form: str, dtype: str, index: str) -> list[np.ndarray]:
    """The arrays of a sparse matrix, with columns in no order and some of them repeated."""
    count = rows(form)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(index)
    n = len(count)
    col = RNG.integers(-n, n, ptr[-1]).astype(index) if n else np.zeros(0, index)
    val, x = (RNG.integers(1, 5, size).astype(dtype) for size in (ptr[-1], n))
    return [np.ones(n, dtype), ptr, col, val, x]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("function", EVERY, ids=[f.__name__ for f in EVERY])
def test_loops_compute_what_python_does(function: Callable[..., None], form: str) -> None:
    for dtype, index in (("f8", "i4"), ("f4", "i8"), ("i8", "i8"), ("i4", "i4"), ("f8", "u2")):
        given = operands(form, dtype, index if index != "u2" else "i2")
        given[1] = given[1].astype(index)
        expected = [array.copy() for array in given]
        with np.errstate(all="ignore"):
            function(*expected)
        mdh(function)(*given)
        for found, want in zip(given, expected, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5 if dtype == "f4" else 1e-12)


def between(y, begin, end, x):
    for i in range(len(y)):
        for k in range(begin[i], end[i]):
            y[i] += x[k]


def test_ranges_of_two_arrays_may_overlap_and_be_empty() -> None:
    begin, end = RNG.integers(0, 50, (2, 30))
    x, y = RNG.random(50), np.zeros(30)
    expected = y.copy()
    between(expected, begin, end, x)
    mdh(between)(y, begin, end, x)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_arrays_may_end_before_ranges_do_where_conditions_say_so() -> None:
    def guarded(y, n, a, b):
        for i in range(len(y)):
            first = second = 0
            for k in range(n[i]):
                if k < len(a):
                    first += a[k]
                if k < len(b):
                    second += b[k] * k
            y[i] = first + second

    y, n, a, b = np.zeros(9), np.arange(9), RNG.random(3), RNG.random(5)
    expected = y.copy()
    guarded(expected, n, a, b)
    mdh(guarded)(y, n, a, b)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_rows_are_the_md_hom_of_a_sparse_operand() -> None:
    y, ptr, col, val, x = operands("random", "f8", "i8")
    (found,) = mdh(product_by_a_variable).steps(y, ptr, col, val, x)
    dense = md_hom_from_einsum("ij,j->i", [mdt.spec((len(y), len(x)), "f8"), mdt.spec(x.shape)])
    stored = over_ranges(dense, 0, 0, *(mdt.spec(a.shape, a.dtype) for a in (val, col, ptr)))
    assert [dim.extent for dim in found.dims] == [dim.extent for dim in stored.dims]
    assert found.operators == dense.operators
    test, value, none = found.scalar.results[0].args
    assert repr(test) == "((p0 <= k) & (k < p1))"
    assert (repr(value), repr(none)) == ("(p2 * p4)", "0")


@mdt.operator(identity=(INF, -1))
def nearest(lhs, rhs):
    return lhs if lhs[0] <= rhs[0] else rhs


@mdh(out(d=D, at=L), inp(ptr=L, x=D), combine_ops(cc, pw(nearest)))
def smallest(d, at, ptr, x):
    for i in range(len(ptr) - 1):
        for k in range(ptr[i], ptr[i + 1]):
            d[i], at[i] = x[k], k


def test_arrays_end_nothing_where_loops_inside_are_empty() -> None:
    def nested(y, n, q, a, b):
        for i in range(len(y)):
            first = second = 0.0
            for k in range(n[i]):
                for m in range(q[k]):
                    first += a[k] * q[m]
                second += b[k]
            y[i] = first + second

    n, q, y = np.array([8, 3, 6]), np.array([1, 2, 0, 4, 0, 0, 0, 0]), np.zeros(3)
    a, b, expected = RNG.random(4), RNG.random(8), np.zeros(3)
    nested(expected, n, q, a, b)
    mdh(nested)(y, n, q, a, b)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def paths(y, ptr, col, val):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            for m in range(ptr[col[k]], ptr[col[k] + 1]):
                for n in range(ptr[col[m]], ptr[col[m] + 1]):
                    if val[n] > 2:
                        y[i] += val[n]


def pairs(y, ptr, col, val):
    for i in range(len(y)):
        least = INF
        for k in range(ptr[i], ptr[i + 1]):
            for m in range(ptr[col[k]], ptr[col[k] + 1]):
                least = min(least, val[k] * val[m])
        y[i] = least


def triangles(y, ptr, col, val):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            for m in range(ptr[col[k]], ptr[col[k] + 1]):
                for n in range(ptr[i], ptr[i + 1]):
                    if col[n] == col[m]:
                        y[i] += 1


@pytest.mark.parametrize(("function", "count"), [(paths, 3), (pairs, 2), (triangles, 1)])
def test_ranges_inside_of_ranges_have_steps_of_their_own(
    function: Callable[..., None], count: int
) -> None:
    y, ptr, col, val, _ = operands("random", "f8", "i8")
    given = y, ptr, np.abs(col) % len(y), val
    expected = y.copy()
    function(expected, *given[1:])
    kernel = mdh(function)
    steps = [step for step in kernel.steps(*given) if step.reduced]
    assert [len(step.reduced) for step in steps] == ([1] * count if count > 1 else [3])
    kernel(*given)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_arrays_of_all_pairs_of_iterations_are_refused() -> None:
    def weighted(y, ptr, col, val):
        for i in range(len(y)):
            for k in range(ptr[i], ptr[i + 1]):
                total = 0.0
                for m in range(ptr[col[k]], ptr[col[k] + 1]):
                    total += val[m] if m > i else 0
                y[i] += total * total

    y, ptr, col, val, _ = operands("random", "f8", "i8")
    given = y, ptr, np.abs(col) % len(y), val
    expected = y.copy()
    weighted(expected, *given[1:])
    mdh(weighted)(*given)
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    with pytest.raises(ProgramError) as error:
        mdh(weighted)(np.zeros(9000), np.zeros(9001, int), np.zeros(9000, int), np.ones(9000))
    assert error.value.message.startswith("what a loop inside of 'k' gives depends on loop 'i' too")
    assert error.value.hint


def test_long_ranges_inside_of_ranges_are_refused() -> None:
    ptr, col = np.zeros(5, int), np.zeros(2000, int)
    with pytest.raises(ProgramError) as error:
        mdh(triangles)(np.zeros(4), ptr, col, np.ones(2000))
    assert error.value.message == (
        "the bounds of loop 'm' are data that differ with a loop around it, and both are reduced"
        " together: each of their iterations would be asked"
    )
    assert error.value.hint


def test_operators_are_named_for_ranges() -> None:
    _, ptr, _, x, _ = operands("random", "f8", "i8")
    values, places = smallest(ptr, x)
    for i, (begin, end) in enumerate(itertools.pairwise(ptr)):
        part = x[begin:end]
        assert values[i] == (part.min() if part.size else INF)
        assert places[i] == (begin + part.argmin() if part.size else -1)


def test_loops_in_order_have_ranges() -> None:
    def solved(y, ptr, col, val, b):
        for i in range(len(y)):
            total = b[i]
            for k in range(ptr[i], ptr[i + 1]):
                if col[k] < i:
                    total -= val[k] * y[col[k]]
            y[i] = total

    a = scipy.sparse.random(100, 100, 0.05, format="csr", random_state=RNG)
    b, y = RNG.random(100), np.zeros(100)
    expected = y.copy()
    solved(expected, a.indptr, a.indices, a.data, b)
    mdh(solved)(y, a.indptr, a.indices, a.data, b)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_other_numbers_of_elements_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, engine = mdh(product_by_a_variable), registry.engine_for()

    def call(count: int, n: int) -> None:
        a = scipy.sparse.random(n, n, count / n**2, format="csr", random_state=RNG)
        x, y = RNG.random(n), np.zeros(n)
        kernel(y, a.indptr, a.indices, a.data, x)
        np.testing.assert_allclose(y, a @ x, rtol=1e-12)

    for count, n in ((150, 31), (170, 37)):
        call(count, n)
        engine.settle(timeout=600)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was compiled")

    monkeypatch.setattr(type(engine.device), "compile", refuse)
    call(190, 31)
    call(333, 41)


# --- what is refused -----------------------------------------------------------------------------


def no_end(y, ptr):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] += k


def backwards(y, ptr, x):
    for i in range(len(y)):
        for k in range(ptr[i + 1], ptr[i], -1):
            y[i] += x[k - 1]


def float_bound(y, ptr, x):
    for i in range(len(y)):
        for k in range(x[i]):
            y[i] += x[k]


def stored_elements(y, ptr, x):
    for i in range(len(ptr) - 1):
        for k in range(ptr[i], ptr[i + 1]):
            y[k] = x[k]


def in_turn(y, ptr, x):
    for i in range(len(y)):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] = 2 * y[i] + x[k]


def kept(y, ptr, x):
    for k in range(ptr[0], ptr[1]):
        y[k] = x[k]


Y, PTR, X = np.zeros(4), np.arange(5), np.ones(4)
WRONG = [
    (
        no_end,
        (Y, PTR),
        "loop 'k' goes up to bounds that are data, and reads no array at k in each iteration",
    ),
    (backwards, (Y, PTR, X), "bounds that are data need a step of 1"),
    (float_bound, (Y, PTR, X), "a bound of a loop is no integer"),
    (
        stored_elements,
        (np.zeros(5000), np.arange(5001), np.ones(5000)),
        (
            "the bounds of loop 'k' are data, so iterations of loop 'i' may write the same"
            " elements of y"
        ),
    ),
    (in_turn, (Y, PTR, X), "loop 'k' updates an element of y by no operator"),
]


@pytest.mark.parametrize(
    ("function", "arguments", "message"), WRONG, ids=[function.__name__ for function, *_ in WRONG]
)
def test_what_is_refused_says_why(
    function: Callable[..., None], arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ProgramError) as error:
        mdh(function)(*arguments)
    assert error.value.message == message
    assert error.value.text
    assert error.value.hint
    assert error.value.notes[0].endswith(f"in {function.__name__}")


@mdh(out(y=D), inp(ptr=L, col=L, val=D, x=D), combine_ops(cc, pw(add)))
def weighted_sums(y, ptr, col, val, x):
    for i in range(len(ptr) - 1):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] = val[k] * x[col[k]]


def test_gradients_are_those_of_products() -> None:
    _, ptr, col, val, x = operands("random", "f8", "i8")
    col %= len(x)
    of_val = mdt.grad(lambda val: mdt.sum(weighted_sums(ptr, col, val, x)))(val)
    np.testing.assert_allclose(of_val, x[col], rtol=1e-12)
    of_x = mdt.grad(lambda x: mdt.sum(weighted_sums(ptr, col, val, x)))(x)
    np.testing.assert_allclose(of_x, np.bincount(col, val, len(x)), rtol=1e-12)


BELOW_0 = "loop 'k' begins below 0, where indices count from the end"


def test_ranges_that_begin_below_0_are_refused_in_every_call() -> None:
    def one_before(y, begin, end, x):
        for i in range(len(y)):
            total = 0.0
            for k in range(begin[i] - 1, end[i]):
                total += x[k]
            y[i] = total

    def sums(y, begin, end, x):
        for i in range(len(y)):
            total = 0.0
            for k in range(begin[i], end[i]):
                total += x[k]
            y[i] = total

    begin, end, x = np.array([0, 2, 3]), np.array([2, 4, 5]), RNG.random(5)
    for function, first in ((sums, begin), (one_before, begin + 1)):
        kernel, y, expected = mdh(function), np.zeros(3), np.zeros(3)
        for _ in range(3):  # the last of them by the call cache
            kernel(y, first, end, x)
            function(expected, first, end, x)
            np.testing.assert_allclose(y, expected, rtol=1e-12)
            with pytest.raises(ProgramError) as error:
                kernel(y, first - 2, end, x)
            assert error.value.message == BELOW_0
            assert (error.value.text or "").startswith("for k in range(")
            # Ranges without elements begin anywhere, as do those of unsigned numbers.
            kernel(y, first - 2, np.minimum(end, first - 3), x)
            np.testing.assert_array_equal(y, 0)
        kernel(y, first.astype("u4"), end, x)
        np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_begins_inside_of_loops_that_are_counted() -> None:
    def counted(y, n, ptr, x):
        for i in range(len(y)):
            for _ in range(n[i]):
                for k in range(ptr[0], ptr[1]):
                    y[i] += x[k]

    n, ptr, x, y = np.array([2, 0, 3]), np.array([1, 4]), RNG.random(5), np.zeros(3)
    expected = y.copy()
    counted(expected, n, ptr, x)
    mdh(counted)(y, n, ptr, x)
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    with pytest.raises(ProgramError, match="begins below 0"):
        mdh(counted)(y, n, ptr - 2, x)


def test_ranges_in_order_and_with_operators_begin_at_0() -> None:
    def solved(y, ptr, x):
        for i in range(len(y)):
            total = x[i]
            for k in range(ptr[i], i):
                total += y[k]
            y[i] = total

    below = np.arange(-1, 100)
    calls = (
        lambda: mdh(solved)(np.zeros(100), below, np.ones(100)),
        lambda: smallest(below, np.ones(100)),
    )
    for call in calls:
        with pytest.raises(ProgramError) as error:
            call()
        assert error.value.message == BELOW_0


def two_operators(y, ptr, x):
    for i in range(1):
        for k in range(ptr[i], ptr[i + 1]):
            for j in range(2):
                y[i] = x[k] * j


WRONG_WITH_OPERATORS = [
    (kept, (cc,), "the bounds of loop 'k' are data, but cc keeps its iterations"),
    (kept, (ps(add),), "the bounds of loop 'k' are data, but ps(add) keeps its iterations"),
    (
        two_operators,
        (cc, pw("min"), pw(add)),
        "the bounds of loop 'k' are data, and loops inside are combined by another operator",
    ),
    (
        two_operators,
        (cc, pw(lambda a, b: a), pw(lambda a, b: a)),
        "the bounds of loop 'k' are data, it may be empty, and pw(op) has no identity",
    ),
]


@pytest.mark.parametrize(("function", "operators", "message"), WRONG_WITH_OPERATORS)
def test_operators_that_ranges_refuse(
    function: Callable[..., None], operators: tuple[Any, ...], message: str
) -> None:
    kernel = mdh(out(y=D), inp(ptr=L, x=D), combine_ops(*operators))(function)
    with pytest.raises(ProgramError) as error:
        kernel(Y.copy(), PTR, X)
    assert error.value.message == message
    assert error.value.hint
