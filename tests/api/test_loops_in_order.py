"""Short loops whose order matters, alone and inside a loop over rows: they agree with Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mdtensor.directive import mdh
from mdtensor.errors import ProgramError


def fibonacci(x):
    for row in range(x.shape[0]):
        for i in range(2, x.shape[1]):
            x[row, i] = x[row, i - 1] + x[row, i - 2]


def forward_substitution(x, lower, b):
    for row in range(x.shape[0]):
        for i in range(9):
            x[row, i] = b[row, i]
            for j in range(i):
                x[row, i] -= lower[i, j] * x[row, j]
            x[row, i] /= lower[i, i]


def fibonacci_alone(x):
    for i in range(2, len(x)):
        x[i] = x[i - 1] + x[i - 2]


def forward_substitution_alone(x, lower, b):
    for i in range(9):
        x[i] = b[i]
        for j in range(i):
            x[i] -= lower[i, j] * x[j]
        x[i] /= lower[i, i]


def forward_substitution_by_sums(x, lower, b):
    for i in range(9):
        rest = b[i]
        for j in range(i):
            rest -= lower[i, j] * x[j]
        x[i] = rest / lower[i, i]


def sorted_by_exchanges(x):
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                held = x[j]
                x[j] = x[j + 1]
                x[j + 1] = held


def position_of_largest(out, x):
    best = x[0]
    place = 0
    for i in range(1, len(x)):
        if x[i] > best:
            best = x[i]
            place = i
    out[0] = place


def shortest_paths(d):
    for k in range(len(d)):
        for i in range(len(d)):
            for j in range(len(d)):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])


def filtered(y, z, x):
    """Two states, each of which depends on the other one."""
    for i in range(1, len(x)):
        y[i] = 0.5 * z[i - 1] + x[i]
        z[i] = 0.25 * y[i] - z[i - 1]


def exchanged(x, y):
    """Reads before writes, of elements that are written from both ends."""
    for i in range(1, 6):
        first, last = x[i], x[8]
        x[i] = x[i - 1] + y[i]
        x[8 - i] = first + last
        y[i] = x[i] * 2


LOWER = np.tril(np.random.default_rng(0).random((9, 9))) + np.eye(9)


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_agree_with_python(rows: int) -> None:
    b = np.random.default_rng(1).random((rows, 9))
    for function, rest in ((fibonacci, ()), (forward_substitution, (LOWER, b))):
        ours, expected = b + 1, b + 1
        function(expected, *rest)
        mdh(function)(ours, *rest)
        np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_an_array_is_a_single_row_by_a_new_axis() -> None:
    x, expected = np.ones(10), np.ones(10)
    fibonacci_alone(expected)
    mdh(fibonacci)(x[None])
    np.testing.assert_array_equal(x, expected)


RANDOM = np.random.default_rng(2)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (fibonacci_alone, [np.ones(3)]),
        (fibonacci_alone, [np.ones(66)]),
        (fibonacci_alone, [np.ones(20, "i4")]),
        (fibonacci_alone, [np.full(20, 0.1, "f4")]),
        (forward_substitution_alone, [np.zeros(9), LOWER, RANDOM.random(9)]),
        (forward_substitution_by_sums, [np.zeros(9), LOWER, RANDOM.random(9)]),
        (sorted_by_exchanges, [RANDOM.random(8)]),
        (position_of_largest, [np.zeros(1, "i8"), RANDOM.random(50)]),
        (shortest_paths, [RANDOM.random((4, 4))]),
        (filtered, [np.ones(9), np.ones(9), RANDOM.random(9)]),
        (exchanged, [RANDOM.random(9), RANDOM.random(9)]),
    ],
)
def test_alone_they_agree_with_python(
    function: Callable[..., None], arrays: list[np.ndarray], executed: str
) -> None:
    ours, expected = ([array.copy() for array in arrays] for _ in range(2))
    function(*expected)
    mdh(function)(*ours)
    for found, wanted in zip(ours, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if wanted.dtype == "f4" else 1e-12)


def test_longer_ones_are_refused() -> None:
    with pytest.raises(ProgramError) as error:
        mdh(fibonacci_alone)(np.ones(67))
    assert error.value.message == "loop 'i' reads an element of x that an earlier iteration writes"
    assert error.value.hint == (
        "write to another array than x, or give it an axis for the loop; if the loop must run in"
        " order, call the function once for each of its iterations"
    )


@pytest.mark.parametrize(
    ("function", "array", "message"),
    [
        (
            shortest_paths,
            np.ones((20, 20)),
            "loop 'k' reads an element of d that an earlier iteration writes",
        ),
        (
            sorted_by_exchanges,
            np.ones(40),
            "loop 'i' updates an element of x by no operator",
        ),
    ],
)
def test_nests_of_too_many_iterations_are_refused_with_the_reason(
    function: Callable[..., None], array: np.ndarray, message: str
) -> None:
    with pytest.raises(ProgramError) as error:
        mdh(function)(array)
    assert error.value.message == message
