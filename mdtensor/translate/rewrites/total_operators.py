"""Operators without an identity made total by a validity flag in the tuple.

A tuple whose flag is unset is neutral, whatever else it holds; so every operator has an identity,
and the lowering needs one way only to begin a reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdtensor.translate.combine import Concat, Operator
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import BOOL, Expr, apply, const, param, select
from mdtensor.translate.scalar_function import identity_function
from mdtensor.translate.trees import params_in, substitute


def with_total_operators(md_hom: MDHom) -> MDHom:
    """Rewrite an `md_hom` so that every operator has an identity."""
    partial = [op for op in md_hom.operators if op.identity is None]
    if not partial:
        return md_hom
    types = md_hom.scalar.result_dtypes
    scalar = md_hom.scalar
    flagged = replace(scalar, results=(*scalar.results, const(True, BOOL)))
    return replace(
        md_hom,
        dims=tuple(_with_total_operator(dim) for dim in md_hom.dims),
        scalar=flagged,
        epilogue=_without_flag(md_hom.epilogue, types),
    )


def _with_total_operator(dim: Dim) -> Dim:
    if isinstance(dim.combine, Concat):
        return dim
    return replace(dim, combine=replace(dim.combine, op=total(dim.combine.op)))


def total(operator: Operator) -> Operator:
    """The operator on tuples with a validity flag as their last element.

    >>> from mdtensor.translate.combine import named
    >>> total(replace(named("max", ["f4"]), identity=None)).identity
    (0, False)
    """
    width = len(operator.dtypes)
    types = (*operator.dtypes, BOOL)
    lhs = [param(n, dtype) for n, dtype in enumerate(types)]
    rhs = [param(width + 1 + n, dtype) for n, dtype in enumerate(types)]
    results: list[Expr] = []
    for n, result in enumerate(operator.results):
        both = substitute(result, (*lhs[:-1], *rhs[:-1]))
        results.append(select(lhs[-1], select(rhs[-1], both, lhs[n]), rhs[n]))
    results.append(apply("or", lhs[-1], rhs[-1]))
    neutral = operator.identity or (0,) * width
    return replace(operator, dtypes=types, results=tuple(results), identity=(*neutral, False))


def forgets(operator: Operator) -> bool:
    """Whether a result is independent of the left tuple if both are valid.

    >>> from mdtensor.translate.combine import named
    >>> add = named("add", ["f4"])
    >>> last = replace(add, results=(param(1, "f4"),), identity=None, commutative=False)
    >>> forgets(last), forgets(total(last)), forgets(total(add))
    (True, True, False)
    """
    width = len(operator.dtypes)
    return any(
        all(n >= width for n in params_in(_of_two_that_count(result, width)))
        for result in operator.results
    )


def _of_two_that_count(result: Expr, width: int) -> Expr:
    """The operator's own expression within `total`'s selects; others unchanged."""
    flags = [param(n, BOOL) for n in (width - 1, 2 * width - 1)]
    if result.op == "select" and result.args[0] == flags[0]:
        inner = result.args[1]
        if inner.op == "select" and inner.args[0] == flags[1]:
            return inner.args[1]
    return result


def _without_flag(epilogue: Epilogue | None, types: Sequence[np.dtype]) -> Epilogue:
    """The epilogue behind the removal of the flag."""
    before = Epilogue(identity_function(types, "value")) if epilogue is None else epilogue
    values = identity_function(types).results
    return replace(before, function=before.function.after((*types, BOOL), values))
