"""The work of a problem, independent of schedules: arithmetic operations, and bytes moved."""

from __future__ import annotations

import math
from functools import lru_cache

from mdtensor.lower.problem.problem import Problem
from mdtensor.specs import kind_of
from mdtensor.translate.combine import Operator
from mdtensor.translate.graphs import in_order
from mdtensor.translate.operations import LONG_FUNCTIONS
from mdtensor.translate.scalar import Expr
from mdtensor.translate.scalar_function import ScalarFunction

# Instructions of a float extremum: two comparisons, a combination of masks, and a select.
EXTREME = 4
# The least instructions of an elementary function: vectorised exp is a polynomial of so many.
FUNCTION = 20


@lru_cache(64)
def bytes_moved(problem: Problem) -> int:
    """The compulsory traffic in bytes: each input once, each output once."""
    total = 0
    for n, stream in enumerate(problem.streams):
        used = [d for d in problem.dims if stream.uses(d)]
        if n == next(m for m, s in enumerate(problem.streams) if s.buffer == stream.buffer):
            total += (
                math.prod(problem.extent(d) for d in used) * problem.inputs[stream.buffer].itemsize
            )
    return total + bytes_written(problem)


def bytes_written(problem: Problem) -> int:
    """Bytes of the results."""
    elements = math.prod(problem.extent(d) for d in problem.result_dims)
    return elements * sum(problem.outputs[w.buffer].itemsize for w in problem.writes)


def flops(problem: Problem) -> float:
    """Arithmetic operations of the scalar function and the operator, over all points."""
    count = operations(*problem.scalar.results)
    if problem.operator is not None:
        count += operations(*problem.operator.results)
    return float(math.prod(problem.extent(d) for d in problem.dims) * count)


@lru_cache(1024)
def operations(*exprs: Expr) -> int:
    """Number of distinct arithmetic operations in expressions."""
    return sum(expr.op not in ("cast", "tf32", "pack") for expr in nodes_of(*exprs))


def nodes_of(*exprs: Expr) -> set[Expr]:
    """The distinct operations in expressions, including casts."""
    return {node for node in in_order(exprs) if node.args}


@lru_cache(1024)
def instructions_of_point(scalar: ScalarFunction, operator: Operator | None) -> float:
    """Vector instructions per point, with multiply-adds fused."""
    nodes = nodes_of(*scalar.results)
    count = _instructions(nodes) - _fused(nodes)
    if operator is None:
        return max(1.0, count)
    combining = _instructions(nodes_of(*(operator.in_order or operator.results)))
    fused = kind_of(scalar.results[0].dtype) == "f" and operator.name == "add"
    return max(1.0, count + combining - (min(count, combining) if fused else 0))


def links_of_point(scalar: ScalarFunction, operator: Operator | None) -> int:
    """Length of a point's dependency chain through the accumulator, in instructions.

    Sums and differences of two products are added term by term
    (`lower.codegen.base.value_from_expr.combined`). Tuples wait for the comparison that tells
    which one stays, and for the choice.
    """
    if operator is not None and len(operator.results) > 1:
        return 2
    if operator is None or operator.name != "add" or kind_of(scalar.results[0].dtype) != "f":
        return 1
    pairs = [r.args for r in scalar.results if r.op in ("add", "sub")]
    return 2 if any(all(arg.op == "mul" for arg in pair) for pair in pairs) else 1


def _instructions(nodes: set[Expr]) -> int:
    """Vector instructions of some operations; float extrema cost more, to propagate NaN."""
    extremes = sum(expr.op in ("min", "max") and kind_of(expr.dtype) == "f" for expr in nodes)
    functions = sum(expr.op in LONG_FUNCTIONS for expr in nodes)
    simple = sum(expr.op not in ("cast", "pack") for expr in nodes)
    return simple + (EXTREME - 1) * extremes + (FUNCTION - 1) * functions


def _fused(nodes: set[Expr]) -> int:
    """The number of sums that fuse with a product into one instruction (FMA).

    A sum takes one product, and products that several operations take are computed once.
    """
    taken = {
        next(arg for arg in expr.args if arg.op == "mul")
        for expr in nodes
        if expr.op in ("add", "sub") and kind_of(expr.dtype) == "f"
        if any(arg.op == "mul" for arg in expr.args)
    }
    return len(taken)
