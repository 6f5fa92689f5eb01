"""Random reductions and scans against loops of plain Python."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce as fold
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdtensor.api.frontends.reduce import reduce, scan
from mdtensor.translate.operators.combination import Combination, cc, ps, pw


def wrapped(value: int) -> int:
    """What int64 holds of a number."""
    return (value + 2**63) % 2**64 - 2**63


OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda lhs, rhs: wrapped(lhs + rhs),
    "mul": lambda lhs, rhs: wrapped(lhs * rhs),
    "min": min,
    "max": max,
    "xor": operator.xor,
}
Point = dict[str, int]


@dataclass(frozen=True)
class Sum:
    """An index as it is written, and its value at a point."""

    text: str
    coefficients: tuple[tuple[str, int], ...]
    offset: int

    def at(self, point: Mapping[str, int]) -> int:
        return self.offset + sum(c * point[name] for name, c in self.coefficients)


@st.composite
def sums(draw: st.DrawFn, names: tuple[str, ...]) -> Sum:
    used = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    coefficients = tuple((name, draw(st.integers(1, 3))) for name in used)
    offset = draw(st.integers(0, 2))
    text = "+".join(f"{c if c > 1 else ''}{name}" for name, c in coefficients)
    return Sum(f"{text}+{offset}" if offset else text, coefficients, offset)


@dataclass(frozen=True)
class Problem:
    text: str
    extents: dict[str, int]
    combine: dict[str, Combination]
    output: tuple[str, ...]
    operands: tuple[np.ndarray, ...]
    indices: tuple[tuple[Sum, ...], ...]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    names = ("i", "j", "k")[: draw(st.integers(1, 3))]
    extents = {name: draw(st.integers(1, 5)) for name in names}
    output = tuple(draw(st.permutations(names))[: draw(st.integers(0, len(names)))])
    combine = {
        name: draw(st.sampled_from([cc, *map(ps, OPERATORS)]))
        if name in output
        else pw(draw(st.sampled_from([*OPERATORS])))
        for name in draw(st.permutations(names))
    }
    indices = tuple(
        tuple(draw(st.lists(sums(names), max_size=2))) for _ in range(draw(st.integers(1, 2)))
    )
    last = {name: extent - 1 for name, extent in extents.items()}
    shapes = [[index.at(last) + 1 + draw(st.integers(0, 1)) for index in term] for term in indices]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    operands = tuple(rng.integers(-3, 4, shape) for shape in shapes)
    terms = ", ".join(" ".join(index.text for index in term) for term in indices)
    return Problem(f"{terms} -> {' '.join(output)}", extents, combine, output, operands, indices)


def element(problem: Problem, point: Mapping[str, int]) -> int:
    read = (
        int(operand[tuple(index.at(point) for index in term)])
        for operand, term in zip(problem.operands, problem.indices, strict=True)
    )
    return fold(operator.mul, read) + sum((n + 1) * i for n, i in enumerate(point.values()))


def combined(problem: Problem, names: list[str], point: Point, kept: Mapping[str, int]) -> int:
    """One element of the result: the operator of the last dim is applied first."""
    if not names:
        return element(problem, {name: point[name] for name in problem.extents})
    name, *rest = names
    said = problem.combine[name]
    if said.kind == "cc":
        return combined(problem, rest, {**point, name: kept[name]}, kept)
    count = kept[name] + 1 if said.kind == "ps" else problem.extents[name]
    values = [combined(problem, rest, {**point, name: n}, kept) for n in range(count)]
    return fold(OPERATORS[str(said.operator)], values)


@pytest.mark.usefixtures("by_reference")
@given(problems(), st.booleans())
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=150,
)
def test_any_reduction(problem: Problem, as_scan: bool) -> None:
    names = list(reversed(problem.combine))
    shape = [problem.extents[name] for name in problem.output]
    expected = np.empty(shape, np.int64)
    for place in itertools.product(*map(range, shape)):
        kept = dict(zip(problem.output, place, strict=True))
        expected[place] = combined(problem, names, {}, kept)

    weights = {name: n + 1 for n, name in enumerate(problem.extents)}

    def f(*read: Any, i: Any = 0, j: Any = 0, k: Any = 0) -> Any:
        value = fold(operator.mul, read)
        for name, index in (("i", i), ("j", j), ("k", k)):
            value = value + weights.get(name, 0) * index
        return value

    call = scan if as_scan else reduce
    result = call(
        problem.text, *problem.operands, f=f, combine=problem.combine, extents=problem.extents
    )
    np.testing.assert_array_equal(result, expected)
