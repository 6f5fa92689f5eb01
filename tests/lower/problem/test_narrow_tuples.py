"""Places in int32: which are narrow, and what is computed with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.lower.gpu.scatter.cooperative_scatter import atomic_operations
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.narrow_tuples import with_narrow_places
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.scatter_pattern import selection_of
from mdtensor.lower.schedule.default_schedule import lane_width, plain
from mdtensor.translate.combine import Operator, named
from mdtensor.translate.scalar import Expr, const, equal, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import evaluate
from tests.lower.codegen.scatter.test_cooperative_scatter import counted

F4, I4, I8 = np.dtype("f4"), np.dtype("i4"), np.dtype("i8")
MOST = int(np.iinfo(I4).max)


def wide(combine: Any, n: int = 77, f: Any = None) -> Problem:
    """The problem of a reduction of nine rows, whose places are int64 still."""
    (md_hom,) = mdt.compile(mdt.reduce, "ij->i", mdt.spec((9, n)), f=f, combine=combine).md_homs
    return problem_from_md_hom(md_hom)


def types(problem: Problem) -> tuple[np.dtype, ...]:
    assert problem.operator is not None
    assert problem.operator.dtypes == problem.scalar.result_dtypes
    return problem.operator.dtypes


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_are_narrow_and_results_are_not(name: str) -> None:
    problem = wide(name)
    narrow = with_narrow_places(problem)
    assert (types(problem), types(narrow)) == ((F4, I8), (F4, I4))
    assert narrow.outputs == problem.outputs == (I8,)
    assert narrow.finish is not None
    assert narrow.finish.function.params == (F4, I4)
    assert [result.dtype for result in narrow.finish.function.results] == [I8]


def test_vectors_hold_as_many_places_as_values() -> None:
    problem, target = wide("argmax"), registry.engine_for().target
    widths = [lane_width(p, target) for p in (problem, with_narrow_places(problem))]
    assert widths[1] == 2 * widths[0]


def test_the_neutral_place_stays_the_last_of_all_and_comes_out_as_it_was() -> None:
    problem = wide("argmax", f=lambda a, *, j: (a, j))
    narrow = with_narrow_places(problem)
    assert narrow.operator is not None
    assert narrow.operator.identity == (-np.inf, MOST)
    assert narrow.finish is not None
    place = narrow.finish.function.results[1]
    assert evaluate(place, [0.0, MOST]) == np.iinfo(I8).max
    assert evaluate(place, [0.0, 76]) == 76


def with_places(expr: Expr, operator: Operator | None = None) -> Problem:
    """A reduction that carries an index along, whatever it is."""
    problem = wide("argmax", f=lambda a, *, j: (a, j))
    scalar = replace(problem.scalar, results=(problem.scalar.results[0], expr))
    return replace(problem, scalar=scalar, operator=operator or problem.operator)


J = index_of("j")
FITTING = {
    "itself": J,
    "backwards": const(76, I8) - J,
    "flat": J * const(9, I8) + index_of("i"),
    "negative": const(-1, I8) * J,
}
TOO_LARGE = {
    "far": J * const(1 << 26, I8),
    "on the way": J * const(1 << 26, I8) - J * const(1 << 26, I8),
    "at the end": J * const(0, I8) + const(MOST, I8),
    "not an index": param(0, F4).astype(I8),
}


@pytest.mark.parametrize("name", FITTING)
def test_what_fits(name: str) -> None:
    assert types(with_narrow_places(with_places(FITTING[name]))) == (F4, I4)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_does_not(name: str) -> None:
    problem = with_places(TOO_LARGE[name])
    assert with_narrow_places(problem) is problem


def _operator(results: Callable[[Sequence[Expr]], tuple[Expr, Expr]]) -> Operator:
    params = [param(n, dtype) for n, dtype in enumerate((F4, I8, F4, I8))]
    return replace(named("argmax", [F4, I8]), results=results(params), in_order=None)


OPERATORS: dict[str, Operator] = {
    "sums": _operator(lambda p: (p[0] + p[2], p[1] + p[3])),
    "compares with a number": _operator(
        lambda p: (p[0], select(equal(p[1], const(7, I8)), p[1], p[3]))
    ),
    "mixes": _operator(lambda p: (p[0] + p[1].astype(F4), select(p[0] < p[2], p[1], p[3]))),
    "takes a number": _operator(lambda p: (p[0], select(p[0] < p[2], p[1], const(7, I8)))),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_places_that_are_computed_with_keep_their_width(name: str) -> None:
    problem = with_places(J, OPERATORS[name])
    assert with_narrow_places(problem) is problem


def sums(expr: Expr, n: int = 77, combine: str = "add") -> Problem:
    """A sum of nine rows of so many such elements."""
    problem = wide(combine)
    operator = named(combine, [expr.dtype])
    scalar = ScalarFunction((F4,), (expr,), "counted")
    extents = problem.extents[0], as_index(n)
    return replace(
        problem, extents=extents, scalar=scalar, operator=operator, outputs=(expr.dtype,)
    )


POSITIVE = param(0, F4) > const(0, F4)
COUNTS = {
    "int64": select(POSITIVE, const(1, I8), const(0, I8)),
    "conditions": POSITIVE.astype(I8),
    "signs": select(POSITIVE, const(1, I8), const(-1, I8)),
    "float64": select(POSITIVE, const(0.5, np.dtype("f8")), const(-0.25, np.dtype("f8"))),
    "indices": J,
}


@pytest.mark.parametrize("name", COUNTS)
def test_sums_of_steps_are_counted_in_int32(name: str) -> None:
    problem = sums(COUNTS[name])
    narrow = with_narrow_places(problem)
    assert types(narrow) == (I4,)
    assert narrow.operator is not None
    assert narrow.operator.identity == (0,)
    assert narrow.outputs == problem.outputs


def test_sums_that_may_not_fit_are_not() -> None:
    signs = COUNTS["signs"]
    (most, more) = (sums(signs, n) for n in ((1 << 31) - 2, 1 << 31))
    assert types(with_narrow_places(most)) == (I4,)
    assert with_narrow_places(more) is more
    of_elements = sums(param(0, F4).astype(I8))
    assert with_narrow_places(of_elements) is of_elements
    products = sums(COUNTS["int64"], combine="mul")
    assert with_narrow_places(products) is products


@pytest.mark.parametrize("n", [1, 17, 5003])
def test_counts_are_those_of_numpy(n: int) -> None:
    a = np.random.default_rng(n).standard_normal((9, n)).astype(F4)
    found = mdt.reduce("ij->i", a, f=lambda x: (x > 0).astype(np.int64), combine="add")
    assert found.dtype == I8
    np.testing.assert_array_equal(found, (a > 0).sum(axis=1))
    exact = mdt.reduce("ij->j", a, f=lambda x: np.where(x > 0, 0.5, -0.25), combine="add")
    np.testing.assert_array_equal(exact, np.where(a > 0, 0.5, -0.25).sum(axis=0))
    scanned = mdt.scan("ij->ij", a, f=lambda x: (x > 0).astype(np.int64), combine={"j": "add"})
    np.testing.assert_array_equal(scanned, (a > 0).cumsum(axis=1))


def test_histograms_count_in_int32() -> None:
    problem = with_narrow_places(problem_from_md_hom(counted(5003, 9, "i8")))
    assert types(problem) == (I4,)
    assert selection_of(problem) is not None
    assert atomic_operations(problem.operator) == ("add",)


def test_extrema_of_places_are_taken() -> None:
    operator = _operator(lambda p: (p[0] + p[2], np.minimum(p[1], p[3])))
    assert types(with_narrow_places(with_places(J, operator))) == (F4, I4)


def rows(dtype: str, n: int) -> np.ndarray:
    """Rows with ties, of equal elements, with one NaN, several, and at the ends."""
    rng = np.random.default_rng(n)
    a = rng.integers(0, 4, (9, n)).astype(dtype)
    a[1] = 3
    if a.dtype.kind == "f":
        a[2, n // 2] = a[3, n // 2 :] = a[4, 0] = a[5, -1] = np.nan
        a[6], a[7] = -np.inf, np.inf
    return a


@pytest.mark.parametrize("dtype", ["f4", "f8", "u2"])
@pytest.mark.parametrize(("text", "axis"), [("ij->i", 1), ("ij->j", 0), ("ij->", None)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equals_and_the_first_nan_win(
    name: str, text: str, axis: int | None, dtype: str
) -> None:
    for n in (1, 2, 15, 16, 17, 63, 64, 65, 257):
        a = rows(dtype, n)
        found = mdt.reduce(text, a, combine=name)
        np.testing.assert_array_equal(found, getattr(np, name)(a, axis=axis), f"rows of {n}")


@pytest.mark.parametrize("n", [64, 65, 1000])
@pytest.mark.parametrize("parts", [1, 3])
def test_vectors_of_places_that_groups_share(n: int, parts: int) -> None:
    a, engine = rows("f4", n), registry.engine_for()
    problem = with_narrow_places(wide("argmax", n))
    lanes = {"lane": 1, "width": 16, "registers": (1, 32)}
    schedule = replace(plain(problem), parts=(2, parts), ahead=4, **lanes)
    out = engine.device.empty((9,), I8)
    engine.specialised(problem, schedule, "test", 0.0).program(a, out)
    np.testing.assert_array_equal(out, a.argmax(axis=1))
