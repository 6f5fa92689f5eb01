"""Comparisons of small integers widened to 32 bits, for devices without vectors.

They would convert both sides for every point; as words, elements are converted when a tile is
staged, or before the loops. Vectors compare small integers as they are, many at once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdtensor.lower.problem.problem import Problem
from mdtensor.translate.operations import COMPARISONS
from mdtensor.translate.scalar import BOOL, Expr, cast
from mdtensor.translate.trees import all_rewritten

_WORD = np.dtype(np.int32)


def with_compared_words(problem: Problem) -> Problem:
    """Widen comparisons of small integers to 32 bits; unchanged without such."""
    results = all_rewritten(problem.scalar.results, _in_words)
    if all(a is b for a, b in zip(results, problem.scalar.results, strict=True)):
        return problem
    return replace(problem, scalar=replace(problem.scalar, results=results))


def _in_words(node: Expr) -> Expr:
    if node.op not in COMPARISONS or node.dtype != BOOL:
        return node
    args = tuple(map(_word, node.args))
    same = all(a is b for a, b in zip(args, node.args, strict=True))
    return node if same else replace(node, args=args)


def _word(expr: Expr) -> Expr:
    # Both sides of a comparison have one type, so both are converted.
    is_small = expr.dtype.kind in "iu" and expr.dtype.itemsize < _WORD.itemsize
    return cast(expr, _WORD) if is_small and expr.op in ("param", "const") else expr
