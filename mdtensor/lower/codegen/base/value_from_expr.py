"""Translation of scalar expressions to values of a LoopNest, scalar or vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.lower.ir.index import name
from mdtensor.lower.ir.register_types import BOOL, I64, U8, register_dtype
from mdtensor.lower.ir.values import Calc, FromIndex, Iota, Literal, Value
from mdtensor.translate.combine import Operator
from mdtensor.translate.graphs import RECURSIVE, folded, in_order
from mdtensor.translate.operations import COMPARISONS
from mdtensor.translate.scalar import Expr, Number
from mdtensor.translate.trees import params_in

_WRITTEN = 2000  # nodes of trees up to which statements are written without names for their parts
_LEVELS = 16  # nested operations of larger ones


def _no_indices(label: str) -> Value:
    raise LoweringError(f"the index of dim {label!r} has no value here")


Naming = Callable[[Value], Value]
"""Gives a value a variable, and returns that."""


def value_of(
    expr: Expr,
    params: Sequence[Value],
    indices: Callable[[str], Value] = _no_indices,
    naming: Naming | None = None,
) -> Value:
    """Translate an expression to a value, given its parameters; see `values_of`."""
    return values_of([expr], params, indices, naming)[0]


def values_of(
    exprs: Sequence[Expr],
    params: Sequence[Value],
    indices: Callable[[str], Value] = _no_indices,
    naming: Naming | None = None,
    *,
    name_shared: bool = False,
) -> list[Value]:
    """Translate expressions to values, given their parameters and the `indices` of dims.

    Half floats are computed in float32 and booleans in bytes that are 0 or 1; operands of fewer
    lanes widen to the most lanes among them. With `naming`, what large expressions share is named
    once, and with `name_shared` what small ones do; values are written out elsewhere.
    """
    if naming is not None and (name_shared or are_large(exprs)):
        return _Named(exprs, params, indices, naming).values()
    return folded(exprs, lambda node, args: _value(node, args, params, indices))


def _value(
    expr: Expr, args: list[Value], params: Sequence[Value], indices: Callable[[str], Value]
) -> Value:
    if expr.op == "param":
        return params[expr.number]
    if expr.op == "const":
        assert expr.value is not None and not isinstance(expr.value, str)
        return literal(expr.value, expr.dtype)
    if expr.op == "size":
        assert isinstance(expr.value, str)
        return FromIndex(name(expr.value), I64)
    if expr.op == "index":
        assert isinstance(expr.value, str)
        return indices(expr.value)
    if expr.op == "tf32":
        return args[0]  # what has no tensor cores computes exactly
    lanes = max([arg.lanes for arg in args])
    dtype = register_dtype(expr.dtype)
    if expr.op == "cast":
        source = expr.args[0].dtype
        if expr.dtype == BOOL and source != BOOL:
            return Calc("ne", (args[0], literal(0, source)), U8, lanes)
        return args[0] if args[0].dtype == dtype else _converted(args[0], dtype)
    return Calc(expr.op, tuple(args), dtype, lanes)


class _Named:
    """Translation of large expressions to statements of bounded nesting."""

    def __init__(
        self,
        exprs: Sequence[Expr],
        params: Sequence[Value],
        indices: Callable[[str], Value],
        naming: Naming,
    ) -> None:
        self._exprs = exprs
        self._params = params
        self._indices = indices
        self._naming = naming
        self._uses = Counter([id(arg) for node in in_order(exprs) for arg in node.args])

    def values(self) -> list[Value]:
        return [value for value, _ in folded(self._exprs, self._step)]

    def _step(self, node: Expr, args: list[tuple[Value, int]]) -> tuple[Value, int]:
        """The value of a node, and its depth of nested operations."""
        value = _value(node, [arg for arg, _ in args], self._params, self._indices)
        if not args or not isinstance(value, Calc):
            return value, 0
        levels = 1 + max(level for _, level in args)
        # Vectors compare faster than they make masks of bytes.
        is_shared = self._uses[id(node)] > 1 and node.op not in COMPARISONS
        return (self._naming(value), 0) if is_shared or levels >= _LEVELS else (value, levels)


def are_large(exprs: Sequence[Expr]) -> bool:
    """Whether expressions are too large to be written out as trees."""
    size = sum([expr.size for expr in exprs])
    return size > _WRITTEN or any(expr.depth > RECURSIVE for expr in exprs)


def _converted(value: Value, dtype: np.dtype) -> Value:
    """A value cast to another type; vectors of indices are computed in an integer type directly."""
    if isinstance(value, Calc) and value.op == "add" and dtype.kind in "iu":
        first, lanes = value.args
        if isinstance(first, FromIndex) and isinstance(lanes, Iota):
            own = replace(first, dtype=dtype), replace(lanes, dtype=dtype)
            return Calc("add", own, dtype, value.lanes)
    return Calc("cast", (value,), dtype, value.lanes)


def literal(value: Number, dtype: np.dtype) -> Literal:
    """A constant in the register type of `dtype`."""
    held = register_dtype(dtype)
    if isinstance(value, complex):
        raise LoweringError("a complex constant met the code generator")
    if held.kind in "iu":
        wrapped = int(np.array(int(value)).astype(held)) if value >= 0 else int(value)
        return Literal(wrapped, held)
    return Literal(float(value), held)


def identity_of(operator: Operator) -> tuple[Literal, ...]:
    """The identity of a combine operator; LoweringError where it declares none."""
    if operator.identity is None:
        raise LoweringError(
            f"operator {operator!r} declares no identity", hint="give it identity=(…)"
        )
    pairs = zip(operator.identity, operator.dtypes, strict=True)
    return tuple(literal(value, dtype) for value, dtype in pairs)


def combined(
    operator: Operator, lhs: Sequence[Value], rhs: Sequence[Value], *, in_order: bool = False
) -> tuple[Value, ...]:
    """Two tuples of values combined by an operator.

    `in_order` says that the left one is of elements that come before those of the right one.
    """
    results = operator.results
    if in_order and operator.in_order is not None:
        results = operator.in_order
    return tuple(map(_term_by_term, values_of(results, (*lhs, *rhs))))


def _term_by_term(value: Value) -> Value:
    """The sum a + (x*y ± u*v) reassociated to (a + x*y) ± u*v, so that both products can fuse.

    So products of complex numbers are added up as by libraries, whose results are rounded alike.
    """
    if not isinstance(value, Calc) or value.op != "add" or value.dtype.kind != "f":
        return value
    before, added = value.args
    if not isinstance(added, Calc) or added.op not in ("add", "sub"):
        return value
    alike = (added.dtype, added.lanes) == (value.dtype, value.lanes)
    if not alike or any(not isinstance(t, Calc) or t.op != "mul" for t in added.args):
        return value
    first, second = added.args
    return replace(added, args=(replace(value, args=(before, first)), second))


def is_elementwise(operator: Operator) -> bool:
    """Whether element n of an operator's result depends only on elements n of its operands."""
    width = len(operator.dtypes)
    used = map(params_in, operator.results)
    return all({n, n + width}.issuperset(params) for n, params in enumerate(used))
