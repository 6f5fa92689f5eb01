# ruff: noqa: FURB136, PLW0108, RUF015
"""Calls in functions that are traced: which are run by their statements, and which refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from mdtensor.errors import ProgramError
from mdtensor.translate.python.expr_from_function import traced
from mdtensor.translate.scalar import param

A = param(0, "f8")
SEEN: list[object] = []


def above(a, least=0.0):
    return a if a > least else least


class Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, a):
        return a * self.by if a > 0 else a

    def method(self, a):
        return above(a, self.by)


@pytest.mark.parametrize(
    ("function", "printed"),
    [
        (lambda a: above(a) if True else a, "select((p0 > 0.0), p0, 0.0)"),
        (lambda a: partial(above, least=2.0)(a), "select((p0 > 2.0), p0, 2.0)"),
        (lambda a: Scaled(3)(a), "select((p0 > 0), (p0 * 3), p0)"),
        (lambda a: Scaled(3).method(a), "select((p0 > 3), p0, 3)"),
        (lambda a: [*map(above, (a, 1.0))][0], "select((p0 > 0.0), p0, 0.0)"),
        (lambda a: abs(a) if a > len("abc") else a, "select((p0 > 3), abs(p0), p0)"),
    ],
)
def test_functions_that_are_called_are_run(function: Callable, printed: str) -> None:
    assert repr(traced(function, A)) == printed


def kind_of(a):
    return 1.0 if isinstance(a, float) else a


def under_a_condition(a):
    found = [a]
    if a > 0:
        found.append(a)
    return found[0]


def from_around(a):
    positive = a if a > 0 else 0.0
    SEEN.append(positive)
    return positive


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (kind_of, "isinstance of p0, which is known only when the kernel runs"),
        (under_a_condition, "a list is changed under a condition that may not hold"),
        (from_around, "a list from around the function would be changed once"),
    ],
)
def test_calls_that_mean_nothing_in_a_kernel_are_refused(function: Callable, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        traced(function, A)
    assert not SEEN
