"""Online logsumexp: `logaddexp` reductions on pairs of a running maximum and a scaled sum.

`logaddexp` takes an exponential and a logarithm for every element that it adds. A pair of the
largest value so far, and the sum of exponentials relative to it, takes one exponential; the
logarithm is left to the epilogue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdtensor.translate.combine import Operator, Pointwise, PrefixSum
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import Expr, Number, apply, const, equal, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import params_in, substitute


def with_lifted_operators(md_hom: MDHom) -> MDHom:
    """Rewrite reductions by `logaddexp` on pairs (maximum, scaled sum).

    >>> from mdtensor.translate.combine import named
    >>> pair = lifted(named("logaddexp", ["f4"]), (0,))
    >>> pair.dtypes, pair.identity
    ((dtype('float32'), dtype('float32')), (-inf, 0))
    """
    operators = md_hom.operators
    is_scan = any(isinstance(dim.combine, PrefixSum) for dim in md_hom.dims)
    if len(operators) != 1 or is_scan:
        return md_hom
    positions = _sums(operators[0])
    if not positions:
        return md_hom
    pair = Pointwise(lifted(operators[0], positions))
    results: list[Expr] = []
    for n, result in enumerate(md_hom.scalar.results):
        results += [result, _one(result)] if n in positions else [result]
    return replace(
        md_hom,
        dims=tuple(_with(dim, pair) for dim in md_hom.dims),
        scalar=replace(md_hom.scalar, results=tuple(results)),
        epilogue=_with_logarithms(md_hom, positions),
    )


def _one(value: Expr) -> Expr:
    """The sum for one element, 1; 0 where a scatter has nothing to add at an index."""
    one = const(1, value.dtype)
    if value.op != "select" or value.args[0].op != "eq":
        return one
    condition, _, other = value.args
    is_at_index = any(side.op == "index" for side in condition.args)
    is_nothing = other.op == "const" and other.value == -math.inf
    return select(condition, one, const(0, value.dtype)) if is_at_index and is_nothing else one


def _with(dim: Dim, combine: Pointwise) -> Dim:
    return replace(dim, combine=combine) if isinstance(dim.combine, Pointwise) else dim


def _sums(operator: Operator) -> tuple[int, ...]:
    """Positions combined by logaddexp, independently of all others."""
    width = len(operator.dtypes)
    found: list[int] = []
    for n, result in enumerate(operator.results):
        own = {n, n + width}
        others = (r for m, r in enumerate(operator.results) if m != n)
        alone = not any(own & set(params_in(other)) for other in others)
        is_sum = result.op == "logaddexp" and all(arg.op == "param" for arg in result.args)
        if is_sum and alone and set(params_in(result)) == own:
            found.append(n)
    return tuple(found)


def lifted(operator: Operator, positions: Sequence[int]) -> Operator:
    """The operator with pairs (maximum, scaled sum) in place of the elements at `positions`."""
    dtypes: list[np.dtype] = []
    starts: list[int] = []
    for n, dtype in enumerate(operator.dtypes):
        starts.append(len(dtypes))
        dtypes += [dtype, dtype] if n in positions else [dtype]
    width = len(dtypes)
    sides = [[param(side * width + n, t) for n, t in enumerate(dtypes)] for side in (0, 1)]
    moved = [sides[side][start] for side in (0, 1) for start in starts]
    results: list[Expr] = []
    identity: list[Number] = []
    neutral = operator.identity or (0,) * len(operator.dtypes)
    for n, start in enumerate(starts):
        if n not in positions:
            results.append(substitute(operator.results[n], moved))
            identity.append(neutral[n])
            continue
        (lhs, of_lhs), (rhs, of_rhs) = ((side[start], side[start + 1]) for side in sides)
        is_left = apply("ge", lhs, rhs)
        far = apply("exp", -apply("abs", lhs - rhs))
        factor = select(equal(lhs, rhs), const(1, lhs.dtype), far)
        results.append(select(is_left, lhs, rhs))
        results.append(select(is_left, of_lhs + of_rhs * factor, of_lhs * factor + of_rhs))
        identity += [float("-inf"), 0]
    return replace(operator, dtypes=tuple(dtypes), results=tuple(results), identity=tuple(identity))


def _with_logarithms(md_hom: MDHom, positions: Sequence[int]) -> Epilogue:
    """The epilogue with pairs converted back to logarithms first."""
    types: list[np.dtype] = []
    values: list[Expr] = []
    for n, dtype in enumerate(md_hom.scalar.result_dtypes):
        largest = param(len(types), dtype)
        if n not in positions:
            types.append(dtype)
            values.append(largest)
            continue
        values.append(largest + apply("log", param(len(types) + 1, dtype)))
        types += [dtype, dtype]
    if md_hom.epilogue is None:
        return Epilogue(ScalarFunction(tuple(types), tuple(values), "logarithm"))
    return replace(md_hom.epilogue, function=md_hom.epilogue.function.after(types, values))
