"""Integer feasibility of linear systems, by Fourier-Motzkin elimination.

Coefficients are divided by their common divisor and constants rounded down. "No" is a proof;
"maybe" is not: the rational shadow may hold no integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from mdtensor.dataclass import dataclass

ROWS = 600
"""With more inequalities than these, the answer is "maybe"."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear expression: coefficients of variables, and a constant."""

    terms: tuple[tuple[str, int], ...]
    constant: int = 0

    @classmethod
    def of(cls, terms: Mapping[str, int], constant: int = 0) -> Linear:
        """Build an expression with variables in canonical order."""
        return cls(tuple(sorted((v, c) for v, c in terms.items() if c)), constant)

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for variable, coefficient in other.terms:
            terms[variable] = terms.get(variable, 0) + coefficient
        return Linear.of(terms, self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.times(-1)

    def times(self, factor: int) -> Linear:
        """Multiply by an integer."""
        return Linear(tuple((v, factor * c) for v, c in self.terms), factor * self.constant)

    def coefficient(self, variable: str) -> int:
        """The coefficient of a variable; 0 if it does not occur."""
        return dict(self.terms).get(variable, 0)

    @property
    def divisor(self) -> int:
        """The greatest common divisor of the coefficients; 0 without any."""
        return math.gcd(*(c for _, c in self.terms))


def may_hold(equations: Iterable[Linear], inequalities: Iterable[Linear]) -> bool:
    """False if no integers make all `equations` 0 and all `inequalities` non-negative.

    >>> i, j = Linear.of({"i": 1}), Linear.of({"j": 1})
    >>> may_hold([i.times(2) - j.times(2) - Linear((), 1)], [])
    False
    >>> may_hold([i - j], [i - j - Linear((), 1)])
    False
    >>> may_hold([i - j], [i, j])
    True
    """
    left = list(equations)
    rows = set(inequalities)
    while left:
        equation = left.pop()
        if not equation.terms:
            if equation.constant:
                return False
            continue
        if equation.constant % equation.divisor:
            return False
        unit = next((v for v, c in equation.terms if abs(c) == equation.divisor), None)
        if unit is None:
            rows |= {equation, equation.times(-1)}
            continue
        left = [_without(unit, equation, other) for other in left]
        rows = {_without(unit, equation, other) for other in rows}
    return _shadow_holds(rows)


def _without(variable: str, equation: Linear, row: Linear) -> Linear:
    """Eliminate a variable from `row` by an equation."""
    inside = row.coefficient(variable)
    if not inside:
        return row
    own = equation.coefficient(variable)
    # The row is multiplied by a positive number, so an inequality keeps its direction.
    return row.times(abs(own)) - equation.times(inside if own > 0 else -inside)


def _shadow_holds(inequalities: Iterable[Linear]) -> bool:
    rows = _tightened(inequalities)
    while rows is not None:
        variables = {v for row in rows for v, _ in row.terms}
        if not variables:
            return True
        products = {v: _products(rows, v) for v in sorted(variables)}
        chosen = min(products, key=products.__getitem__)
        lower = [row for row in rows if row.coefficient(chosen) > 0]
        upper = [row for row in rows if row.coefficient(chosen) < 0]
        if len(rows) + len(lower) * len(upper) > ROWS:
            return True
        rest = [row for row in rows if not row.coefficient(chosen)]
        combined = [
            low.times(-high.coefficient(chosen)) + high.times(low.coefficient(chosen))
            for low in lower
            for high in upper
        ]
        rows = _tightened([*rest, *combined])
    return False


def _products(rows: Iterable[Linear], variable: str) -> int:
    signs = [row.coefficient(variable) for row in rows]
    return sum(c > 0 for c in signs) * sum(c < 0 for c in signs)


def _tightened(rows: Iterable[Linear]) -> list[Linear] | None:
    """Normalised rows, the strictest per left-hand side; None if one is infeasible."""
    strictest: dict[tuple[tuple[str, int], ...], int] = {}
    for row in rows:
        if not row.terms:
            if row.constant < 0:
                return None
            continue
        divisor = row.divisor
        terms = tuple((v, c // divisor) for v, c in row.terms)
        constant = row.constant // divisor
        strictest[terms] = min(constant, strictest.get(terms, constant))
    return [Linear(terms, constant) for terms, constant in strictest.items()]
