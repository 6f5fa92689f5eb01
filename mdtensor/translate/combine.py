"""Combine operators: how the parts of an `md_hom` are put together again, dim by dim.

Definitions: 002, section 4.2.2, Examples 1 and 2, and appendix .2 (prefix sums).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdtensor.errors import TranslationError
from mdtensor.translate.scalar import BOOL, Expr, Number, Values, apply, evaluate, param


@dataclass(frozen=True, slots=True)
class Operator:
    """An associative binary function on tuples of scalars.

    `results` are expressions over the parameters 0…n-1 (the left tuple) and n…2n-1 (the right
    one). `identity` is its neutral tuple, or None where it has none.

    >>> named("add", ["f4"])
    add
    """

    dtypes: tuple[np.dtype, ...]
    results: tuple[Expr, ...]
    identity: tuple[Number, ...] | None
    commutative: bool = True
    name: str = "op"

    def __post_init__(self) -> None:
        if len(self.results) != len(self.dtypes):
            raise TranslationError(
                f"operator {self.name!r} returns {len(self.results)} values for tuples of"
                f" {len(self.dtypes)}"
            )
        if self.identity is not None and len(self.identity) != len(self.dtypes):
            raise TranslationError(
                f"the identity of operator {self.name!r} has {len(self.identity)} values for"
                f" tuples of {len(self.dtypes)}"
            )

    def __call__(self, lhs: Sequence[Values], rhs: Sequence[Values]) -> tuple[Values, ...]:
        """Both tuples combined, element by element of their arrays."""
        return tuple(evaluate(result, [*lhs, *rhs]) for result in self.results)

    def __repr__(self) -> str:
        return self.name


def _limits(dtype: np.dtype) -> tuple[Number, Number]:
    if dtype.kind == "f":
        return float("-inf"), float("inf")
    if dtype == BOOL:
        return False, True
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def named(name: str, dtypes: Sequence[object]) -> Operator:
    """One of the operators add, mul, min, max, and, or, xor, on every element of a tuple.

    On booleans, add is or and mul is and, as in NumPy.
    """
    types = tuple(np.dtype(dtype) for dtype in dtypes)  # type: ignore[call-overload]
    results: list[Expr] = []
    identity: list[Number] = []
    for position, dtype in enumerate(types):
        op = {"add": "or", "mul": "and"}.get(name, name) if dtype == BOOL else name
        if op in ("min", "max") and dtype.kind == "c":
            raise TranslationError(f"complex numbers have no order for operator {name!r}")
        neutral = {
            "add": lambda: 0,
            "mul": lambda: 1,
            "min": lambda dt=dtype: _limits(dt)[1],
            "max": lambda dt=dtype: _limits(dt)[0],
            "and": lambda dt=dtype: (
                True if dt == BOOL else -1 if dt.kind == "i" else _limits(dt)[1]
            ),
            "or": lambda: 0,
            "xor": lambda: 0,
        }.get(op)
        if neutral is None:
            raise TranslationError(
                f"unknown operator {name!r}", hint="one of add, mul, min, max, and, or, xor"
            )
        lhs, rhs = param(position, dtype), param(position + len(types), dtype)
        results.append(apply(op, lhs, rhs))
        identity.append(neutral())
    return Operator(types, tuple(results), tuple(identity), True, name)


@dataclass(frozen=True, slots=True)
class Concat:
    """Concatenation, `cc`: the dim stays in the result."""

    def __repr__(self) -> str:
        return "cc"


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Point-wise combination, `pw(op)`: the dim is reduced to one element."""

    op: Operator

    def __repr__(self) -> str:
        return f"pw({self.op!r})"


@dataclass(frozen=True, slots=True)
class PrefixSum:
    """Prefix sum, `ps(op)`: the dim stays, each element combined with all before it."""

    op: Operator

    def __repr__(self) -> str:
        return f"ps({self.op!r})"


Combine = Concat | Pointwise | PrefixSum

CC = Concat()
