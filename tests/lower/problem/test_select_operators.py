"""Operators that choose: when the right tuple wins, a cheap look first, what kernels compute."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.llvm.language import LLVM_IR_FMA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.space.gpu_ranking import gpu_schedule
from mdtensor.lower.ir.statements import Let, Set, Statement, When
from mdtensor.lower.ir.values import Calc, Ref
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.narrow_tuples import with_narrow_places
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.select_operators import choice_of, right_wins
from mdtensor.lower.problem.widen_comparisons import with_compared_words
from mdtensor.lower.search.candidates import ranked
from mdtensor.translate.combine import Operator, named, operator_from_function
from mdtensor.translate.trees import evaluate
from tests.lower import fuzz_llvm
from tests.lower.running import device
from tests.targets import CPU, H200

BEST = 9


@mdt.operator(identity=(-np.inf, 2**31 - 1, 0), commutative=True)
def better(lhs: Any, rhs: Any) -> Any:
    """The tuple that is certain, else the heavier one, else the one with the lesser place."""
    if lhs[2] == BEST and rhs[2] != BEST:
        return lhs
    if rhs[2] == BEST and lhs[2] != BEST:
        return rhs
    if lhs[0] > rhs[0] or (lhs[0] == rhs[0] and lhs[1] < rhs[1]):
        return lhs
    return rhs


def score(a: Any, b: Any, c: Any, d: Any, *, j: Any) -> Any:
    """A sum of weights, a place, and a count, unless two numbers agree."""
    same, near, far = a == b, c == d, a < d
    weight = (2.5 if same else -1.25) + (3.5 if near else 0.5) + (0.25 if far else 0)
    count = (1 if same else 0) + (1 if near else 0) + (1 if far else 0)
    return weight, np.int32(j), np.int32(BEST if c == b else count)


TYPES = ("i4", "i2", "i2", "i4")


def problem_of(rows: int, columns: int) -> Problem:
    specs = [mdt.spec((n,), t) for n, t in zip((rows, columns, rows, columns), TYPES, strict=True)]
    plan = mdt.compile(mdt.reduce, "i,j,i,j->i", *specs, f=score, combine=better)
    (md_hom,) = plan.md_homs
    return with_compared_words(with_narrow_places(problem_from_md_hom(md_hom)))


def results(arrays: Any) -> list[tuple[float, int, int]]:
    a, b, c, d = arrays
    found: list[tuple[float, int, int]] = []
    for x, z in zip(a.tolist(), c.tolist(), strict=True):
        tuples = [score(x, y, z, w, j=j) for j, (y, w) in enumerate(zip(b, d, strict=True))]
        found.append(max(tuples, key=lambda t: (t[2] == BEST, t[0], -t[1])))
    return found


def test_a_cheap_look_asks_for_one_pair_of_elements() -> None:
    problem = problem_of(9, 50)
    choice = choice_of(problem, in_order=True)
    assert choice is not None
    assert len(choice.conditions) == 2
    first, wins = choice.conditions
    # Parameters 4, 5, 6 are the accumulator's, 7 the weight of the point.
    assert re.fullmatch(r"\(\(\w+\(p2\) == \w+\(p1\)\) \| not\(\(p4 > p7\)\)\)", repr(first))
    assert choice.asked == ((0,), (1,))
    assert "p9" not in repr(wins)  # that it is certain is the equation, not the count


def _tuples(dtypes: tuple[np.dtype, ...]) -> np.ndarray:
    values = [(0, 1, np.nan) if t.kind == "f" else (0, 1, BEST) for t in dtypes]
    return np.array(list(itertools.product(*values)))


@pytest.mark.parametrize("name", ["argmax", "argmin", "better"])
def test_the_condition_says_what_the_operator_does(name: str) -> None:
    if name == "better":
        operator = operator_from_function(better, ["f8", "i4", "i4"], (-np.inf, 2**31 - 1, 0))
    else:
        operator = named(name, ["f4", "i8"])
    condition = right_wins(operator)
    assert condition is not None
    width = len(operator.dtypes)
    every = _tuples(operator.dtypes)
    lhs, rhs = (np.repeat(every, len(every), 0), np.tile(every, (len(every), 1)))
    sides = [side[:, n] for side in (lhs, rhs) for n in range(width)]
    wins = np.asarray(evaluate(condition, sides)).astype(bool)
    expected = [evaluate(result, sides) for result in operator.results]
    for n, values in enumerate(expected):
        np.testing.assert_array_equal(np.where(wins, rhs[:, n], lhs[:, n]), values)


def mixed(lhs: Any, rhs: Any) -> Any:
    """The greater of each."""
    return (max(rhs[0], lhs[0])), (max(rhs[1], lhs[1]))


def first(lhs: Any, rhs: Any) -> Any:
    """The left one."""
    return lhs


OTHERS: dict[str, Operator] = {
    "sums": named("add", ["f4", "f4"]),
    "in parts": operator_from_function(mixed, ["f4", "f4"]),
    "always one side": operator_from_function(first, ["f4", "i4"]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_choice(name: str) -> None:
    assert right_wins(OTHERS[name]) is None


def test_columns_that_are_compared_only_are_words_in_tiles() -> None:
    problem = problem_of(64, 1024)
    schedule = next(s for _, s in ranked(problem, H200) if any(s.staged))
    text = program_of(problem, schedule, CUDA).text
    assert "__shared__ __align__(16) short" not in text
    assert text.count("__shared__ __align__(16) int S") == 2


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (9, 50), (64, 257), (70, 1000)])
def test_kernels_choose_as_python_does(rows: int, columns: int) -> None:
    problem = problem_of(rows, columns)
    draw = np.random.default_rng(columns)
    arrays = [
        draw.integers(0, 40, n).astype(t)
        for n, t in zip((rows, columns, rows, columns), TYPES, strict=True)
    ]
    expected = results(arrays)
    schedules = [schedule for _, schedule in ranked(problem, H200)[:3]]
    for schedule in (*schedules, gpu_schedule(problem, H200)):
        program = device().compile(program_of(problem, schedule, OPENCL))
        outs = [np.full(rows, -7, dtype) for dtype in ("f8", "i4", "i4")]
        program(*arrays, *outs)
        assert list(zip(*(out.tolist() for out in outs), strict=True)) == expected


def test_a_tuple_is_computed_where_it_is_taken() -> None:
    problem = problem_of(64, 256)
    schedule = next(s for _, s in ranked(problem, H200) if any(s.staged))
    (nest,) = lowered(problem, schedule)
    every = _whens(nest.body)
    taken = [when for when in every if [type(s) for s in when.body] == [Set] * 3]
    looks = [when for when in every if any(inner in taken for inner in when.body)]
    assert len(taken) == len(looks) > 0
    for when in looks:
        assert not re.search(r"'a\d+_0_[12]'", repr(when.condition))


def test_in_vectors_one_condition_chooses_all_elements() -> None:
    problem = problem_of(64, 256)
    schedule = next(s for _, s in ranked(problem, CPU) if s.width > 1)
    values = _new_elements(lowered(problem, schedule)[0].body)
    groups = [values[n : n + 3] for n in range(0, len(values), 3)]
    assert groups
    for group in groups:
        assert len({value.args[0] for value in group}) == 1


def test_kernels_of_processors_choose_as_python_does() -> None:
    problem = problem_of(70, 257)
    draw = np.random.default_rng(7)
    arrays = [
        draw.integers(0, 40, n).astype(t) for n, t in zip((70, 257, 70, 257), TYPES, strict=True)
    ]
    expected = results(arrays)
    schedule = next(s for _, s in ranked(problem, CPU) if s.width > 1)
    runs = (device(), OPENCL), (fuzz_llvm.device(), LLVM_IR_FMA)
    for on, language in runs:
        source = program_of(problem, schedule, language)
        assert "65535" in source.text  # the count and the weight are one sum
        outs = [np.full(70, -7, dtype) for dtype in ("f8", "i4", "i4")]
        on.compile(source)(*arrays, *outs)
        assert list(zip(*(out.tolist() for out in outs), strict=True)) == expected


def _new_elements(statements: Sequence[Statement]) -> list[Calc]:
    """The selections that accumulators are assigned, in order."""
    found: list[Calc] = []
    for statement in statements:
        match statement:
            case Let(Ref(name), Calc("select") as value) if name.startswith("n"):
                found.append(value)
            case _:
                found += _new_elements(getattr(statement, "body", ()))
    return found


def _whens(statements: Sequence[Statement]) -> list[When]:
    found: list[When] = []
    for statement in statements:
        found += [statement] if isinstance(statement, When) else []
        found += _whens(getattr(statement, "body", ()))
    return found
