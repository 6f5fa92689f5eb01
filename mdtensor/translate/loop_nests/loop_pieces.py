"""Index-set splitting of a loop, at fixed indices that its body reads.

`d[i, j] = min(d[i, j], d[i, k] + d[k, j])` reads in all iterations of j what iteration k writes.
Those before k, k itself and those after it are loops whose iterations do not depend on each other.
A loop may be cut anywhere, since its pieces run in order; whether that helps, dependences say.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.errors import TranslationError

MOST_CUTS = 4
"""Indices around which one loop is cut, at most."""


def pieces_of(
    statement: ast.For, bounds: Sequence[Any], value_of: Callable[[ast.expr], Any]
) -> list[tuple[Any, ...]]:
    """The bounds of a loop's pieces, in order; `value_of` evaluates expressions before the loop."""
    if not all(isinstance(bound, int) for bound in bounds):
        return [tuple(bounds)]
    whole = range(*bounds)
    if whole.step != 1 or not whole:
        return [tuple(bounds)]
    cuts: set[int] = set()
    for expression in fixed_indices(statement):
        try:
            value = value_of(expression)
        except TranslationError:
            continue
        if isinstance(value, int) and value in whole:
            cuts |= {value, value + 1}
    if len(cuts) > 2 * MOST_CUTS:
        return [tuple(bounds)]
    edges = sorted({whole.start, whole.stop, *cuts})
    return [*itertools.pairwise(edges)]


def fixed_indices(statement: ast.For) -> list[ast.expr]:
    """The loop-invariant indices in a loop's body."""
    changed = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    found: dict[str, ast.expr] = {}
    for node in ast.walk(statement):
        if not isinstance(node, ast.Subscript):
            continue
        axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for axis in axes:
            inside = list(ast.walk(axis))
            names = {each.id for each in inside if isinstance(each, ast.Name)}
            if all(isinstance(each, _SIMPLE) for each in inside) and not names & changed:
                found.setdefault(ast.dump(axis), axis)
    return list(found.values())


_SIMPLE = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)
