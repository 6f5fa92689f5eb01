# ruff: noqa: FURB136, PLW0108, RUF015
"""Calls in functions that are traced: which are run by their statements, and which refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from mdtensor.translate.python.expr_from_function import traced
from mdtensor.translate.scalar import param

A = param(0, "f8")


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
