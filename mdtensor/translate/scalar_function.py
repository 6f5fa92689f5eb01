"""The scalar function of an `md_hom`: a tuple of expressions of accessed elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import as_dtype
from mdtensor.translate.graphs import Packed
from mdtensor.translate.scalar import (
    BOOL,
    F32,
    Expr,
    apply,
    cast,
    check_size,
    param,
    pickled,
    unpickled,
)
from mdtensor.translate.trees import all_rewritten, all_substituted, nodes

PRECISIONS = ("tf32",)


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """The function `f` of an `md_hom`: from the accessed elements to a tuple of results.

    `params` are the types of the elements in the order of the input view's accesses.
    """

    params: tuple[np.dtype, ...]
    results: tuple[Expr, ...]
    name: str = "f"

    def __post_init__(self) -> None:
        check_size(self.results)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.params, pickled(self.results), self.name)

    @property
    def result_dtypes(self) -> tuple[np.dtype, ...]:
        """Types of the results."""
        return tuple(expr.dtype for expr in self.results)

    @property
    def digest(self) -> int:
        """The hash of the results, also while a function is traced."""
        return hash(tuple([result.digest for result in self.results]))

    @property
    def precision(self) -> str | None:
        """The precision to which hardware may round factors; None for exact ones."""
        rounds = any(node.op in PRECISIONS for result in self.results for node in nodes(result))
        return "tf32" if rounds else None

    def rewritten(self, rule: Callable[[Expr], Expr]) -> ScalarFunction:
        """Apply a rewrite rule to all nodes (see `translate.trees.rewritten`)."""
        return replace(self, results=all_rewritten(self.results, rule))

    def after(self, types: Sequence[np.dtype], values: Sequence[Expr]) -> ScalarFunction:
        """Compose with `values` of parameters of `types`, as the first arguments.

        Its own other parameters follow these.

        >>> scaled = ScalarFunction((F32, F32), (param(0, F32) * param(1, F32),))
        >>> scaled.after([F32, F32], [param(0, F32) + param(1, F32)]).results
        (((p0 + p1) * p2),)
        """
        rest = self.params[len(values) :]
        given = (*values, *(param(len(types) + n, dtype) for n, dtype in enumerate(rest)))
        return ScalarFunction((*types, *rest), all_substituted(self.results, given), self.name)

    def exact(self) -> ScalarFunction:
        """The function without rounding of factors."""
        if self.precision is None:
            return self
        return self.rewritten(_exact)

    def __repr__(self) -> str:
        return self.name if self.precision is None else f"{self.name}_{self.precision}"


def _unpickled(params: tuple[np.dtype, ...], results: Packed, name: str) -> ScalarFunction:
    return ScalarFunction(params, unpickled(results), name)


def _exact(node: Expr) -> Expr:
    return node.args[0] if node.op in PRECISIONS else node


def factor(element: Expr, precision: str | None) -> Expr:
    """Mark a float32 element as a factor that hardware may round to a `precision`.

    >>> factor(param(0, "f4"), "tf32"), factor(param(0, "f8"), "tf32"), factor(param(0, "f4"), None)
    (tf32(p0), p0, p0)
    """
    if precision is None or element.op != "param" or element.dtype != F32:
        return element
    return apply(precision, element)


def identity_function(types: Sequence[np.dtype], name: str = "id") -> ScalarFunction:
    """The identity on elements of the given types."""
    return ScalarFunction(tuple(types), tuple(map(param, range(len(types)), types)), name)


def product(
    params: Sequence[object], dtype: object, precision: str | None = None
) -> ScalarFunction:
    """The product of all accessed elements, each first converted to `dtype`.

    Hardware may round factors that are float32 to a `precision`.

    >>> product(["f4", "f4"], "f4")
    mul
    """
    types = tuple(as_dtype(p) for p in params)
    to = as_dtype(dtype)
    result, *others = (factor(cast(param(n, t), to), precision) for n, t in enumerate(types))
    for other in others:
        result = apply("and", result, other) if to == BOOL else result * other
    return ScalarFunction(types, (result,), "mul" if len(types) > 1 else "id")
