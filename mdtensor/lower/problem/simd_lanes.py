"""The limit of SIMD lanes for a computation.

OpenCL C's vectors end at 16 elements, which fill half a register of 64 bytes where elements have
two. Its compilers for processors know longer ones, as far as plain arithmetic goes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.problem.problem import Problem
from mdtensor.translate.scalar import Expr

LANES = 16
LONG = 32
# Elements that lie at most so many apart are loaded as whole vectors, from which shuffles pick.
MOST_APART = 4
# Operations that long vectors have.
_PLAIN = frozenset(
    ("param", "const", "cast", "add", "sub", "mul", "neg", "and", "or", "xor", "not", "invert")
) | frozenset(("min", "max", "select", "lt", "le", "gt", "ge", "eq", "ne"))
_NARROW = 2  # bytes


def most_lanes(problem: Problem) -> int:
    """The longest vector, in lanes, in which a problem's functions can be computed."""
    if problem.scanned >= 0 or any(read.computed for read in problem.all_reads):
        return LANES
    types = (*problem.inputs, *problem.outputs)
    if all(map(_is_narrow, types)) and all(
        expr.op in _PLAIN and _is_narrow(expr.dtype) for expr in _nodes(problem)
    ):
        return LONG
    return LANES


def _is_narrow(dtype: np.dtype) -> bool:
    held = register_dtype(dtype)
    return held.kind in "iu" and held.itemsize <= _NARROW


def _nodes(problem: Problem) -> Iterator[Expr]:
    """Every node of the scalar function, the operator and the epilogue."""
    roots = [*problem.scalar.results]
    if problem.operator is not None:
        roots += problem.operator.results
    if problem.finish is not None:
        roots += problem.finish.function.results
    while roots:
        expr = roots.pop()
        yield expr
        roots += expr.args
