"""NumPy's signs of zeros in sums of floats.

A sum begins with 0.0, so that one of -0.0 alone is 0.0. A prefix sum begins with its first element:
with -0.0, which changes no number that is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdtensor.specs import kind_of
from mdtensor.translate.combine import Operator, Pointwise, PrefixSum
from mdtensor.translate.md_hom import Dim
from mdtensor.translate.scalar import apply, const, param
from mdtensor.translate.scalar_function import ScalarFunction


def beginning_with_zero(
    function: ScalarFunction, operator: Operator | None, dims: Sequence[Dim]
) -> ScalarFunction:
    """Add 0.0 to a function's results where its sums run over dims of extent 1 only.

    >>> from mdtensor.translate.combine import named
    >>> from mdtensor.translate.scalar_function import identity_function
    >>> add = named("add", ["f4"])
    >>> one = identity_function(add.dtypes)
    >>> beginning_with_zero(one, add, [Dim("i", 1, Pointwise(add))]).results
    ((p0 + 0.0),)
    """
    summed = [dim for dim in dims if isinstance(dim.combine, Pointwise)]
    if operator is None or not summed or any(dim.extent != 1 for dim in summed):
        return function
    sums = _sums(operator)
    if not sums:
        return function
    results = [
        apply("add", result, const(0.0, result.dtype)) if n in sums else result
        for n, result in enumerate(function.results)
    ]
    return replace(function, results=tuple(results))


def with_scans_from_minus_zero(operator: Operator | None, dims: Sequence[Dim]) -> Operator | None:
    """A scan's operator with -0.0 as the identity of its sums.

    >>> from mdtensor.translate.combine import named
    >>> add = named("add", ["f4"])
    >>> with_scans_from_minus_zero(add, [Dim("i", 9, PrefixSum(add))]).identity
    (-0.0,)
    """
    is_scan = any(isinstance(dim.combine, PrefixSum) for dim in dims)
    if operator is None or operator.identity is None or not is_scan:
        return operator
    sums = _sums(operator)
    identity = tuple(-0.0 if n in sums else value for n, value in enumerate(operator.identity))
    return replace(operator, identity=identity) if sums else operator


def _sums(operator: Operator) -> tuple[int, ...]:
    """The numbers of tuple elements that are sums of floats."""
    width = len(operator.dtypes)
    return tuple(
        n
        for n, dtype in enumerate(operator.dtypes)
        if kind_of(dtype) == "f"
        and operator.results[n] == apply("add", param(n, dtype), param(n + width, dtype))
        and operator.identity is not None
        and operator.identity[n] == 0
    )
