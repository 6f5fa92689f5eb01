"""Arithmetic cost of a point on a GPU, where it is more than one multiply-add."""

from __future__ import annotations

from functools import lru_cache

from mdtensor.lower.ir.register_types import F64
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.select_operators import choice_of
from mdtensor.lower.problem.work import nodes_of, operations
from mdtensor.translate.operations import COMPARISONS
from mdtensor.translate.scalar import BOOL, Expr
from mdtensor.translate.trees import params_in

FEW_OPERATIONS = 16  # of a point, up to which memory was what schedules were measured by
# Cycles in which a scheduler begins an operation of a warp: cores have 64 units for integers, for
# comparisons and for float64, 128 for float32, 16 for conversions and functions. Conditions are
# combined by what compares; of choices the other units take a part.
_HALF, _CHOICE, _DOUBTFUL = 2.0, 1.0, 8.0
_FULL = frozenset(("add", "sub", "mul", "neg", "abs"))
_WHOLE = frozenset(("add", "sub", "mul", "neg", "abs", "and", "or", "xor", "lshift", "rshift"))
_COMPARING = COMPARISONS | {"min", "max"}
MUCH = _HALF  # cycles of a point beyond which cores compute more than they wait for memory
# A warp alone takes so many times as long as its instructions, since conditions wait for others.
ALONE = 2.2
_TAKEN = 1.45  # times as long as looks alone, since some of a warp's points win


@lru_cache(64)
def cycles_of_point(problem: Problem) -> float:
    """Cycles of a scheduler to issue a warp's work for one point, at least 1.

    2 for float64. Selections mostly evaluate only their first condition.
    """
    operator = problem.operator
    combining = () if operator is None else operator.results
    if operations(*problem.scalar.results) + operations(*combining) <= FEW_OPERATIONS:
        return _HALF if F64 in problem.scalar.result_dtypes else 1.0
    choice = choice_of(problem, in_order=True)
    if choice is None:
        return max(1.0, sum(map(_cycles, nodes_of(*problem.scalar.results, *combining))))
    asked = (choice.results[n] for n in choice.asked[0])
    return max(1.0, _TAKEN * sum(map(_cycles, nodes_of(choice.conditions[0], *asked))))


def cycles_along(problem: Problem, d: int) -> float:
    """`cycles_of_point` of the operations that change along a dim, without the minimum."""
    combining = () if problem.operator is None else problem.operator.results
    changing = {
        number
        for number, read in enumerate(problem.reads)
        if problem.streams[read.stream].uses(d) or read.computed
    }
    own = [e for e in nodes_of(*problem.scalar.results) if changing & {*params_in(e)}]
    return sum(map(_cycles, (*own, *nodes_of(*combining))))


def _cycles(expr: Expr) -> float:
    operand = expr.args[-1].dtype
    words = max(1, operand.itemsize // 4) if operand.kind in "iu" else 1
    if expr.op in _COMPARING:
        return _HALF * words
    if expr.dtype == BOOL or expr.op == "tf32":
        return 0.0
    if expr.op == "select":
        return _CHOICE * words
    if expr.op == "cast":
        converts = (expr.dtype.kind == "f") != (operand.kind == "f")
        return _DOUBTFUL if converts else 0.0
    if operand.kind in "iu" and expr.op in _WHOLE:
        return _HALF * words
    if operand.kind == "f" and expr.op in _FULL:
        return 1.0 if operand.itemsize < 8 else _HALF
    return _DOUBTFUL
