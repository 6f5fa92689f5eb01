"""Stores at indices that are data: histograms, sums of segments, products by coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdtensor.api.engine import registry
from mdtensor.directive import mdh
from mdtensor.errors import ProgramError
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.problem.scatter_pattern import selection_of

RNG = np.random.default_rng(11)


def product(y, row, col, val, x):
    for e in range(len(val)):
        y[row[e]] += val[e] * x[col[e]]


def counts(y, row, col, val, x):
    for e in range(len(val)):
        y[row[e]] += 1


def shortest(y, row, col, val, x):
    for e in range(len(val)):
        y[row[e]] = min(y[row[e]], val[e] + x[col[e]])


def largest_by_a_condition(y, row, col, val, x):
    for e in range(len(val)):
        if val[e] > y[row[e]]:
            y[row[e]] = val[e]


def products(y, row, col, val, x):
    for e in range(len(val)):
        y[row[e]] *= val[e]


def differences_from_zero(y, row, col, val, x):
    for i in range(len(y)):
        y[i] = 0
    for e in range(len(val)):
        y[row[e]] -= val[e]


def off_diagonal(y, row, col, val, x):
    for e in range(len(val)):
        if row[e] != col[e]:
            y[row[e]] += val[e]


def computed(y, row, col, val, x):
    for e in range(len(val)):
        y[row[e] // 2] += val[e]


def several_for_each(y, row, col, val, x):
    for e in range(len(val)):
        for j in range(3):
            y[row[e]] += val[e] * j


def along_columns(y, row, col, val, x):
    h = np.zeros((len(y), 4))
    for e in range(len(val)):
        for j in range(4):
            h[row[e], j] += val[e] * x[col[e]] * j
    return h


def counts_of_pairs(y, row, col, val, x):
    h = np.zeros((len(y), len(x)))
    for e in range(len(val)):
        h[row[e], col[e]] += val[e]
    return h


def one_of_each_row(y, row, col, val, x):
    h = np.ones((len(val), len(x)))
    for e in range(len(val)):
        h[e, col[e]] -= val[e]
    for e in range(len(val)):
        h[e, row[e]] = 7
    return h


def between_data(y, row, col, val, x):
    for e in range(x[0], x[1] + len(val)):
        y[row[e]] += val[e]


EVERY = (
    *(product, counts, shortest, largest_by_a_condition, products, differences_from_zero),
    *(off_diagonal, computed, several_for_each, along_columns, counts_of_pairs, one_of_each_row),
)


def operands(count: int, dtype: str, index: str, n: int = 19) -> list[np.ndarray]:
    """Elements by coordinates, some of them twice; signed ones also count from the end."""
    low = 0 if index[0] == "u" else -n
    row, col = RNG.integers(low, n, (2, count)).astype(index)
    val, x = (RNG.integers(1, 4, size).astype(dtype) for size in (count, n))
    return [np.ones(n, dtype), row, col, val, x]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("count", [0, 1, 2, 300])
@pytest.mark.parametrize("function", EVERY, ids=[f.__name__ for f in EVERY])
def test_stores_compute_what_python_does(function: Callable[..., Any], count: int) -> None:
    for dtype, index in (("f8", "i4"), ("f4", "i8"), ("i8", "i8"), ("i4", "i2"), ("f8", "u1")):
        given = operands(count, dtype, index)
        expected = [array.copy() for array in given]
        with np.errstate(all="ignore"):
            want = function(*expected)
        found = mdh(function)(*given)
        for one, other in zip(given, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == "f4" else 1e-12)
        if want is not None:
            np.testing.assert_allclose(found, want, rtol=1e-6)


def test_ranges_that_are_the_same_for_all_elements() -> None:
    y, row, _, val, _ = operands(60, "f8", "i8")
    ends = np.array([3, -7])
    expected = y.copy()
    between_data(expected, row, row, val, ends)
    mdh(between_data)(y, row, row, val, ends)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_elements_are_gone_to_at_once() -> None:
    for function in (product, counts, shortest, off_diagonal, along_columns):
        step = mdh(function).steps(*operands(300, "f8", "i8"))[-1]
        assert selection_of(problem_from_md_hom(step)) is not None


def test_nothing_is_written_outside_of_arrays() -> None:
    around = np.ones(60)
    y, row = around[20:40], np.array([-21, -20, 0, 19, 20, 1 << 40, -(1 << 40)])
    mdh(counts)(y, row, row, np.ones(len(row)), y.copy())
    expected = np.ones(60)
    expected[[20, 20, 39]] += 1
    expected[20] += 1
    np.testing.assert_array_equal(around, expected)


def test_short_loops_without_an_operator_run_in_order() -> None:
    def last(y, row, val):
        for e in range(len(val)):
            y[row[e]] = val[e]

    _, row, _, val, _ = operands(50, "f8", "i8")
    y, expected = np.zeros(19), np.zeros(19)
    last(expected, row, val)
    mdh(last)(y, row, val)
    np.testing.assert_array_equal(y, expected)


def test_other_numbers_of_elements_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, engine = mdh(product), registry.engine_for()

    def call(count: int, n: int) -> None:
        y, *others = operands(count, "f8", "i8", n)
        expected = y.copy()
        product(expected, *others)
        kernel(y, *others)
        np.testing.assert_allclose(y, expected, rtol=1e-12)

    for count, n in ((150, 31), (170, 37)):
        call(count, n)
        engine.settle(timeout=600)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was compiled")

    monkeypatch.setattr(type(engine.device), "compile", refuse)
    call(190, 31)
    call(333, 41)


# --- what is refused -----------------------------------------------------------------------------


def no_operator(y, row, val):
    for e in range(len(val)):
        y[row[e]] = val[e]


def another_operator(y, row, val):
    for e in range(len(val)):
        y[row[e]] = 2 * y[row[e]] + val[e]


def rounded(y, row, val):
    for e in range(len(val)):
        row[row[e]] += val[e]


def by_turns(y, row, val):
    for e in range(len(val)):
        y[row[e]] += val[e]
        y[row[e]] *= val[e]


def transposed(y, row, val):
    for i in range(len(y)):
        for k in range(row[i], row[i + 1]):
            y[row[k]] += val[k]


Y, ROW, VAL = np.zeros(5000), np.zeros(5001, int), np.ones(5000)
WRONG = [
    (no_operator, "iterations of loop 'e' may write the same element of y, and the last would win"),
    (another_operator, "loop 'e' updates an element of y by no operator"),
    (rounded, "row holds integers, so every step of the reduction would round"),
    (by_turns, "loop 'e' writes an element of y here and again in line"),
    (
        transposed,
        "y is written at an index that is data, inside of loop 'k', whose bounds are data",
    ),
]


@pytest.mark.parametrize(
    ("function", "message"), WRONG, ids=[function.__name__ for function, _ in WRONG]
)
def test_what_is_refused_says_why(function: Callable[..., None], message: str) -> None:
    with pytest.raises(ProgramError) as error:
        mdh(function)(Y, ROW, VAL)
    assert error.value.message.startswith(message)
    assert error.value.text
    assert error.value.hint
    assert error.value.notes[0].endswith(f"in {function.__name__}")
