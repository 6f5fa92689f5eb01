"""Index expressions: polynomials with integer coefficients over names.

An address, a loop bound or an extent is one of them. A constant is a polynomial without names, so
a kernel for one shape and a kernel for every shape come from the same code: in the one, extents
and strides are numbers, in the other they are names of kernel arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import mul

from mdtensor.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Index:
    """A sum of monomials, each an integer times a product of names, sorted by names.

    >>> i, n = name("i"), name("n")
    >>> 3 * i + n * i + 2
    n*i + 3*i + 2
    """

    terms: tuple[tuple[tuple[str, ...], int], ...] = ()

    def __add__(self, other: Index | int) -> Index:
        return _collect((*self.terms, *as_index(other).terms))

    __radd__ = __add__

    def __sub__(self, other: Index | int) -> Index:
        return self + as_index(other) * -1

    def __rsub__(self, other: int) -> Index:
        return as_index(other) - self

    def __mul__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(tuple((m, c * other) for m, c in self.terms)) if other else ZERO
        return _collect(
            (tuple(sorted((*m1, *m2))), c1 * c2) for m1, c1 in self.terms for m2, c2 in other.terms
        )

    __rmul__ = __mul__

    @property
    def constant(self) -> int | None:
        """The value of a constant expression; None if it has names."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def split(self) -> tuple[Index, int]:
        """The symbolic part of the expression, and its constant term."""
        if self.terms and not self.terms[0][0]:
            return Index(self.terms[1:]), self.terms[0][1]
        return self, 0

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for monomial, coefficient in reversed(self.terms):
            size = abs(coefficient)
            factors = [*([str(size)] if size != 1 or not monomial else []), *monomial[::-1]]
            sign = (
                ("-" if coefficient < 0 else "")
                if not text
                else " - "
                if coefficient < 0
                else " + "
            )
            text += sign + "*".join(factors)
        return text


ZERO = Index()


def _collect(terms: Iterable[tuple[tuple[str, ...], int]]) -> Index:
    sums: dict[tuple[str, ...], int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    return Index(tuple(sorted((m, c) for m, c in sums.items() if c)))


def name(text: str) -> Index:
    """The expression of a single name."""
    return Index((((text,), 1),))


def as_index(value: Index | int) -> Index:
    """Convert a number to an expression; return expressions unchanged."""
    if isinstance(value, Index):
        return value
    return Index((((), value),)) if value else ZERO


def product(values: Iterable[Index | int]) -> Index:
    """The product of expressions."""
    return reduce(mul, map(as_index, values), as_index(1))


def total(values: Iterable[Index | int]) -> Index:
    """The sum of expressions."""
    return _collect(term for value in values for term in as_index(value).terms)
