"""Short loops whose order matters, inside a loop over rows: they agree with Python."""

from __future__ import annotations

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
    for i in range(2, 10):
        x[i] = x[i - 1] + x[i - 2]


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


def test_alone_they_are_refused_with_what_to_write() -> None:
    with pytest.raises(ProgramError, match="that an earlier iteration writes") as error:
        mdh(fibonacci_alone)(np.ones(10))
    assert error.value.hint == (
        "loops whose order matters are written out inside a loop of independent iterations: give"
        " the arrays an axis for one, and pass array[None] for a single row; or call the function"
        " once for each iteration"
    )
