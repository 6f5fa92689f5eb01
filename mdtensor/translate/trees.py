"""Evaluation, inspection and rewriting of expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from mdtensor.specs import kind_of
from mdtensor.translate.graphs import folded, in_order
from mdtensor.translate.operations import OPERATIONS, Values
from mdtensor.translate.scalar import F64, Expr, index_of


def wide(dtype: np.dtype) -> np.dtype:
    """The type of reference computations: float64, complex128, or integers as they are.

    Integers keep their width, since their arithmetic is exact modulo it.
    """
    if kind_of(dtype) == "f":
        return F64
    return np.dtype(np.complex128) if dtype.kind == "c" else dtype


def evaluate(
    expr: Expr, params: Sequence[Values], indices: Mapping[str, Values] | None = None
) -> Values:
    """Evaluate an expression on arrays, in the reference's precision (see `wide`)."""
    return evaluated([expr], params, indices)[0]


def evaluated(
    exprs: Sequence[Expr],
    params: Sequence[Values],
    indices: Mapping[str, Values] | None = None,
    *,
    types: Callable[[np.dtype], np.dtype] = wide,
) -> tuple[Values, ...]:
    """Evaluate several expressions; shared nodes are computed once.

    `types` gives the type in which values of a type are computed.
    """
    listed = in_order(exprs)
    last_use = {id(arg): n for n, node in enumerate(listed) for arg in node.args}
    last_use |= {id(expr): len(listed) for expr in exprs}
    found: dict[int, Values] = {}
    for n, node in enumerate(listed):
        args = [found[id(arg)] for arg in node.args]
        found[id(node)] = _value(node, args, params, indices, types)
        for arg in node.args:
            if last_use[id(arg)] == n:
                found.pop(id(arg), None)
    return tuple([found[id(expr)] for expr in exprs])


def _value(
    node: Expr,
    args: list[Values],
    params: Sequence[Values],
    indices: Mapping[str, Values] | None,
    types: Callable[[np.dtype], np.dtype],
) -> Values:
    if node.op == "param":
        return np.asarray(params[node.number]).astype(types(node.dtype), copy=False)
    if node.op == "const":
        return np.asarray(node.value).astype(types(node.dtype))
    if node.op == "index":
        assert indices is not None and isinstance(node.value, str)
        return indices[node.value]
    if node.op == "cast":
        return _converted(np.asarray(args[0]), types(node.dtype))
    with np.errstate(all="ignore"):
        result = OPERATIONS[node.op].evaluate(*args)
    return np.asarray(result).astype(types(node.dtype), copy=False)


def _converted(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if values.dtype.kind == "c" and dtype.kind not in "bc":
        values = np.real(values)
    with np.errstate(all="ignore"):
        return values.astype(dtype, copy=False)


def nodes(expr: Expr) -> Iterator[Expr]:
    """The nodes in pre-order; those with arguments once each."""
    waiting, seen = [expr], set[int]()
    while waiting:
        node = waiting.pop()
        if not node.args:
            yield node  # again, where several share it: that is faster than to look
        elif id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += node.args[::-1]


def rewritten(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """Apply `rule` to all nodes, bottom-up.

    Nodes that several others share stay shared, and what the rule leaves as it is stays itself.

    >>> from mdtensor.translate.scalar import param
    >>> a, b = param(0, "f4"), param(1, "f4")
    >>> rewritten(a * b + 1, lambda node: b if node == a else node)
    ((p1 * p1) + 1)
    """
    [result] = all_rewritten([expr], rule)
    return result


def all_rewritten(exprs: Sequence[Expr], rule: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    """Rewrite several expressions together, which preserves sharing between them."""

    def step(node: Expr, args: list[Expr]) -> Expr:
        return rule(with_args(node, args) if args else node)

    return tuple(folded(exprs, step))


def unified(expr: Expr) -> Expr:
    """Hash-consing: replace equal nodes by one object.

    >>> from mdtensor.translate.scalar import param
    >>> product = unified((param(0, "f4") + 1) * (param(0, "f4") + 1))
    >>> product.args[0] is product.args[1]
    True
    """
    found: dict[Expr, Expr] = {}
    return rewritten(expr, lambda node: found.setdefault(node, node))


def with_args(node: Expr, args: Sequence[Expr]) -> Expr:
    """The node with other arguments; returned as is if they are the same."""
    if all(map(operator.is_, args, node.args)):
        return node
    return Expr(node.op, tuple(args), node.dtype, node.value, node.weak)


def substitute(expr: Expr, params: Sequence[Expr] | Mapping[int, Expr]) -> Expr:
    """Substitute parameters by position."""
    [result] = all_substituted([expr], params)
    return result


def all_substituted(
    exprs: Sequence[Expr], params: Sequence[Expr] | Mapping[int, Expr]
) -> tuple[Expr, ...]:
    """Substitute parameters in several expressions, which preserves sharing."""
    by_position = params if isinstance(params, Mapping) else dict(enumerate(params))
    return all_rewritten(
        exprs, lambda node: by_position.get(node.number, node) if node.op == "param" else node
    )


def with_dims(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Rename dims in an expression."""
    return rewritten(expr, renaming(names))


def renaming(names: Mapping[str, str]) -> Callable[[Expr], Expr]:
    """The rewrite rule that renames dims."""

    def renamed(node: Expr) -> Expr:
        is_other = node.op == "index" and node.value in names
        return index_of(names[str(node.value)]) if is_other else node

    return renamed


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
