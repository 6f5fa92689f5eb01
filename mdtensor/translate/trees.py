"""What is done with expressions as trees: their values, what they read, parts of them replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.translate.operations import OPERATIONS, Values
from mdtensor.translate.scalar import F64, Expr, index_of


def wide(dtype: np.dtype) -> np.dtype:
    """The type in which the reference computes: float64, complex128, and integers as they are.

    Integers keep their width, since their arithmetic is exact modulo it.
    """
    if dtype.kind == "f":
        return F64
    return np.dtype(np.complex128) if dtype.kind == "c" else dtype


def evaluate(
    expr: Expr, params: Sequence[Values], indices: Mapping[str, Values] | None = None
) -> Values:
    """The value of an expression on arrays, in the reference's precision (see `wide`)."""
    if expr.op == "param":
        return np.asarray(params[expr.number]).astype(wide(expr.dtype), copy=False)
    if expr.op == "const":
        return np.asarray(expr.value).astype(wide(expr.dtype))
    if expr.op == "index":
        assert indices is not None and isinstance(expr.value, str)
        return indices[expr.value]
    args = [evaluate(arg, params, indices) for arg in expr.args]
    if expr.op == "cast":
        return _converted(np.asarray(args[0]), wide(expr.dtype))
    with np.errstate(all="ignore"):
        result = OPERATIONS[expr.op].evaluate(*args)
    return np.asarray(result).astype(wide(expr.dtype), copy=False)


def _converted(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if values.dtype.kind == "c" and dtype.kind not in "bc":
        values = np.real(values)
    with np.errstate(all="ignore"):
        return values.astype(dtype, copy=False)


def nodes(expr: Expr) -> Iterator[Expr]:
    """All nodes of an expression, each before its arguments."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.args)


def rewritten(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """The expression with `rule` applied to its nodes, to each one after its arguments.

    Nodes that several others share stay shared, and what the rule leaves as it is stays itself.

    >>> from mdtensor.translate.scalar import param
    >>> a, b = param(0, "f4"), param(1, "f4")
    >>> rewritten(a * b + 1, lambda node: b if node == a else node)
    ((p1 * p1) + 1)
    """
    found: dict[int, Expr] = {}  # by identity, since hashes of trees take long

    def visit(node: Expr) -> Expr:
        if (known := found.get(id(node))) is not None:
            return known
        args = tuple(map(visit, node.args))
        same = all(map(operator.is_, args, node.args))
        found[id(node)] = result = rule(node if same else replace(node, args=args))
        return result

    return visit(expr)


def substitute(expr: Expr, params: Sequence[Expr] | Mapping[int, Expr]) -> Expr:
    """The expression with its parameters replaced, those that a mapping has by position."""
    by_position = params if isinstance(params, Mapping) else dict(enumerate(params))
    return rewritten(
        expr, lambda node: by_position.get(node.number, node) if node.op == "param" else node
    )


def with_dims(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression with other names for some dims."""

    def renamed(node: Expr) -> Expr:
        return index_of(names[str(node.value)]) if node.value in names else node

    return rewritten(expr, lambda node: renamed(node) if node.op == "index" else node)


def params_in(expr: Expr) -> tuple[int, ...]:
    """Positions of the parameters in an expression, in order of first occurrence.

    >>> from mdtensor.translate.scalar import param
    >>> params_in(param(2, "f4") * param(0, "f4") + param(2, "f4"))
    (2, 0)
    """
    return tuple(dict.fromkeys(node.number for node in nodes(expr) if node.op == "param"))


def dims_in(expr: Expr) -> tuple[str, ...]:
    """Names of the dims whose indices an expression takes, in order of first occurrence."""
    return tuple(dict.fromkeys(str(node.value) for node in nodes(expr) if node.op == "index"))
