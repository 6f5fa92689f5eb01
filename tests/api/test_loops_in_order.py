"""Loops whose order matters, alone and inside a loop over rows: they agree with Python."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.directive import mdh
from mdtensor.errors import ProgramError
from mdtensor.translate.loops import md_homs_from_loops
from tests.counted import Counted


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


def forward_substitution_of_all(x, lower, b):
    for i in range(len(b)):
        x[i] = b[i]
        for j in range(i):
            x[i] -= lower[i, j] * x[j]
        x[i] /= lower[i, i]


def with_state(s, x):
    state = 0.0
    for i in range(len(x)):
        state = 0.5 * state + x[i]
        s[i] = state


def heat(u, v):
    for _ in range(80):
        for i in range(1, len(u) - 1):
            v[i] = u[i] + 0.1 * (u[i - 1] - 2 * u[i] + u[i + 1])
        for i in range(1, len(u) - 1):
            u[i] = v[i]


def decomposed(a):
    for k in range(len(a)):
        for i in range(k + 1, len(a)):
            a[i, k] /= a[k, k]
        for i in range(k + 1, len(a)):
            for j in range(k + 1, len(a)):
                a[i, j] -= a[i, k] * a[k, j]


def swept(u):
    for _ in range(3):
        for i in range(1, len(u) - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1])


def gathered(x, index):
    for i in range(1, len(x)):
        x[i] = x[index[i]] + 1


def every_other(x, y):
    for i in range(1, 70):
        x[2 * i] = x[2 * i - 2] * 0.5 + y[70 - i]


def smoothed(x, share):
    for i in range(1, len(x)):
        x[i] = share * x[i - 1] + (1 - share) * x[i]


def paths_by(path, k):
    for i in range(len(path)):
        for j in range(len(path)):
            path[i, j] = min(path[i, j], path[i, k] + path[k, j])


def in_turns(M, t, w):
    for i in range(len(w)):
        for k in range(M.shape[1]):
            t[k] = M[i, k] * 2
        for k in range(M.shape[1]):
            w[i] += t[k]


def made(x):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = x[i] - y[i - 1] if x[i] > 0.5 else y[i - 1]
    return y


WIDE = np.tril(RANDOM.random((70, 70))) + 70 * np.eye(70)
EARLIER = np.array([RANDOM.integers(0, max(i, 1)) for i in range(70)])


def agrees(function: Callable[..., object], arrays: list[Any]) -> None:
    ours, expected = ([copy.copy(array) for array in arrays] for _ in range(2))
    wanted, found = function(*expected), mdh(function)(*ours)
    pairs = [*zip(ours, expected, strict=True), *([] if wanted is None else [(found, wanted)])]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-11)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (fibonacci_alone, [np.full(1000, 1e-200)]),
        (fibonacci_alone, [np.ones(90, "i8")]),
        (fibonacci_alone, [np.ones(90, ">f8")]),
        (fibonacci, [RANDOM.random((3, 100))]),
        (forward_substitution_of_all, [np.zeros(70), WIDE, RANDOM.random(70)]),
        (shortest_paths, [RANDOM.random((20, 20))]),
        (shortest_paths, [RANDOM.random((12, 12)) - 0.1]),
        (shortest_paths, [RANDOM.integers(-3, 40, (12, 12))]),
        (sorted_by_exchanges, [RANDOM.random(14)]),
        (filtered, [RANDOM.random(100), RANDOM.random(100), RANDOM.random(100)]),
        (heat, [RANDOM.random(200), RANDOM.random(200)]),
        (decomposed, [RANDOM.random((20, 20)) + 20 * np.eye(20)]),
        (swept, [RANDOM.random(40)]),
        (gathered, [RANDOM.random(70), EARLIER]),
        (every_other, [RANDOM.random(150), RANDOM.random(150)]),
        (made, [RANDOM.random(100)]),
        (smoothed, [RANDOM.random(100), 0.25]),
        (smoothed, [RANDOM.random(100), np.array(0.25)]),
        (paths_by, [RANDOM.random((40, 40)) - 0.5, 2]),
        (in_turns, [RANDOM.random((70, 5)), np.zeros(5), np.zeros(70)]),
    ],
)
def test_long_ones_agree_with_python(
    function: Callable[..., object], arrays: list[Any], executed: str
) -> None:
    agrees(function, arrays)


def test_strided_arrays_are_written_in_place() -> None:
    around = np.full(200, 1e-9)
    expected = around.copy()
    fibonacci_alone(expected[::2])
    mdh(fibonacci_alone)(around[::2])
    np.testing.assert_array_equal(around, expected)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (fibonacci_alone, [np.ones(20, "f4")]),
        (forward_substitution_alone, [np.zeros(9), LOWER, RANDOM.random(9)]),
        (position_of_largest, [np.zeros(1, "i8"), RANDOM.random(20)]),
        (shortest_paths, [RANDOM.random((5, 5)) - 0.3]),
        (exchanged, [RANDOM.random(9), RANDOM.random(9)]),
        (filtered, [np.ones(9), np.ones(9), RANDOM.random(9)]),
        (with_state, [np.zeros(9), RANDOM.random(9)]),
    ],
)
def test_short_ones_agree_by_steps_in_order_too(
    function: Callable[..., object], arrays: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(md_homs_from_loops, "STORES", 0)
    agrees(function, arrays)


def test_long_loops_carry_no_variables() -> None:
    """They are refused before anything is made of their iterations."""
    s, x = np.ones((2, 3000))
    with pytest.raises(ProgramError) as error, Counted(most=50_000):
        mdh(with_state)(s, x)
    assert error.value.message == (
        "loop 'i' carries 'state' to the next iteration, and other statements use it"
    )


@pytest.mark.parametrize(
    ("function", "array", "message"),
    [
        (
            fibonacci,
            np.ones((2, 700)),
            "loop 'i' reads an element of x that an earlier iteration writes",
        ),
        (
            sorted_by_exchanges,
            np.ones(80),
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


def test_plans_and_gradients_hold_no_loops_in_order() -> None:
    directive = mdh(made)
    for attempt in (lambda: mdt.compile(directive, np.ones(100)), lambda: plan_of_sum(directive)):
        with pytest.raises(ProgramError) as error:
            attempt()
        assert error.value.message == (
            "loops that run in order are no part of plans, gradients and calls in parts"
        )


def plan_of_sum(directive: Callable[..., np.ndarray]) -> object:
    return mdt.grad(lambda x: mdt.sum(directive(x)))(np.ones(100))
