"""Ranges that arrays tell: which conditions are such, and what kernels make of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mdtensor.api.engine import registry
from mdtensor.api.engine.generic_selection import without_parts
from mdtensor.api.plans.problem_text import problem_text
from mdtensor.api.tuning.flat_buffer import Flat
from mdtensor.api.tuning.verification import expected
from mdtensor.errors import LoweringError
from mdtensor.kernels.llvm.language import LLVM_IR_FMA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.data_bounds import dims_around, regular, with_bounds
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.rules.valid import is_valid, validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from mdtensor.translate.reference import run
from tests.lower.fuzz_llvm import device as llvm_device
from tests.lower.random_schedules import random_schedule
from tests.lower.running import device, launch_sizes

ROWS, STORED, COLUMNS = 13, 90, 17
SPECS = {
    "lo": TensorSpec.of((ROWS,), "i4"),
    "hi": TensorSpec.of((ROWS,), "i4"),
    "x": TensorSpec.of((STORED,), "f8"),
    "at": TensorSpec.of((STORED,), "i4"),
    "y": TensorSpec.of((COLUMNS,), "f8"),
    "b": TensorSpec.of((COLUMNS, 21), "f8"),
}


def md_hom(text: str, names: str, f: Any, combine: Any = "add", **options: Any) -> MDHom:
    specs = [SPECS[name] for name in names.split()]
    return md_hom_from_reduction(Reduction(text, f, combine, **options), specs)


def bound(text: str, names: str, f: Any, combine: Any = "add") -> Problem:
    return with_bounds(problem_from_md_hom(md_hom(text, names, f, combine)))


def chained(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return x if lo <= e < hi else 0.0


def swapped(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return np.where((hi > e) & (e >= lo), x, 0.0)


def inclusive(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return np.where((e > lo) & (hi >= e), x, 0.0)


def of_many(lo: Any, hi: Any, x: Any, *, e: Any, i: Any) -> Any:
    return np.where((lo <= e) & (e < hi) & (i <= e) & (e < 60), x, 0.0)


def of_large(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return np.where((lo <= e) & (e < hi) & (x > 0.5), x, 0.0)


FOUND = {
    chained: ("int64(p0)", "int64(p1)"),
    swapped: ("int64(p0)", "int64(p1)"),
    inclusive: ("(int64(p0) + 1)", "(int64(p1) + 1)"),
    of_many: ("max(int64(p0), i)", "min(int64(p1), 60)"),
    of_large: ("int64(p0)", "int64(p1)"),
}


@pytest.mark.parametrize("f", FOUND)
def test_conditions_are_bounds(f: Any) -> None:
    problem = bound("i,i,e->i", "lo hi x", f)
    assert problem.bounds is not None
    assert (repr(problem.bounds.begin), repr(problem.bounds.end)) == FOUND[f]
    assert (problem.labels[problem.bounds.dim], dims_around(problem)) == ("e", {0})
    left = "select((p2 > 0.5), p2, 0)" if f is of_large else "p2"
    assert repr(problem.scalar.results[0]).replace("0.0)", "0)") == left


def elsewhere(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return np.where((lo <= e) & (e < hi), x, 1.0)


def constant(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return np.where((e >= 3) & (e < 9), x + lo + hi, 0.0)


def half(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return np.where(lo <= e, x + hi, 0.0)


def either(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return np.where((lo <= e) | (e < hi), x, 0.0)


def of_sums(lo: Any, hi: Any, x: Any, *, e: Any) -> Any:
    return np.where((lo <= e + 1) & (e + 1 < hi), x, 0.0)


@pytest.mark.parametrize("f", [elsewhere, constant, half, either, of_sums])
def test_other_conditions_are_no_bounds(f: Any) -> None:
    problem = problem_from_md_hom(md_hom("i,i,e->i", "lo hi x", f))
    assert with_bounds(problem) is problem


def test_bounds_do_not_depend_on_what_is_reduced() -> None:
    problem = problem_from_md_hom(md_hom("i,i,e->", "lo hi x", chained))
    assert with_bounds(problem) is problem
    by_maximum = problem_from_md_hom(md_hom("i,i,e->i", "lo hi x", chained, "max"))
    assert with_bounds(by_maximum) is by_maximum  # 0 is no identity


def test_only_processors_have_bounds() -> None:
    target = registry.engine_for().target
    made = md_hom("i,i,e->i", "lo hi x", chained)
    assert registry.engine_for().problem_of(made).bounds is not None
    assert target.kind == "cpu"


def test_keys_and_texts_tell_bounds() -> None:
    problem = bound("i,i,e->i", "lo hi x", chained)
    other = bound("i,i,e->i", "lo hi x", inclusive)
    assert problem_key(problem) != problem_key(other)
    assert "\nfrom int64(p0) up to int64(p1) along e\n" in problem_text(problem)
    general, sizes = generalised(problem)
    assert general.bounds is not None
    assert (general.is_general, sizes[:2]) == (True, (ROWS, STORED))


def test_regular_ranges_have_the_mean_length() -> None:
    problem = bound("i,i,e->i", "lo hi x", chained)
    same = regular(problem)
    assert [same.extent(d) for d in same.dims] == [ROWS, round(STORED / ROWS)]
    assert same.bounds is None
    assert [s.constant for s in same.streams[-1].strides] == [round(STORED / ROWS), 1]
    assert regular(same) is same


def times_vector(lo: Any, hi: Any, x: Any, y: Any, *, e: Any) -> Any:
    return np.where((lo <= e) & (e < hi), x * y, 0.0)


def least(lo: Any, hi: Any, x: Any, y: Any, *, e: Any) -> Any:
    return np.where((lo <= e) & (e < hi), x + y, np.inf)


PRODUCTS: dict[str, MDHom] = {
    "vector": md_hom("i,i,e,@4,e->i", "lo hi x y at", times_vector),
    "matrix": md_hom("i,i,e,@4 k,e->i k", "lo hi x b at", times_vector),
    "columns": md_hom("i,i,e,@4 k,e->k i", "lo hi x b at", times_vector),
    "paths": md_hom("i,i,e,@4 k,e->i k", "lo hi x b at", least, "min"),
    "sums": md_hom("i,i,e->i", "lo hi x", chained),
    "large": md_hom("i,i,e->i", "lo hi x", of_large),
}


def inputs_of(product: MDHom, rng: np.random.Generator) -> list[np.ndarray]:
    """Ranges of all lengths, some of which are empty or lie outside."""
    arrays: list[np.ndarray] = []
    for number, buffer in enumerate(product.inputs):
        spec = buffer.spec
        if spec.dtype.kind == "f":
            arrays.append(rng.random(spec.shape))
        elif number < 2:
            arrays.append(rng.integers(-9, STORED + 9, spec.shape).astype(spec.dtype))
        else:
            arrays.append(rng.integers(0, COLUMNS, spec.shape).astype(spec.dtype))
    return arrays


def check(name: str, problem: Problem, schedules: Iterable[Schedule]) -> int:
    """Compiles a problem by all schedules that fit it, and compares results; counts them."""
    count = 0
    inputs = inputs_of(PRODUCTS[name], np.random.default_rng(7))
    (right,) = run(PRODUCTS[name], inputs)
    own = registry.engine_for().problem_of(PRODUCTS[name])
    for schedule in schedules:
        sizes = launch_sizes(own, schedule, 3) if problem.is_general else ()
        for opened, language in ((device, OPENCL), (llvm_device, LLVM_IR_FMA)):
            try:
                source = program_of(problem, schedule, language)
            except LoweringError:
                continue
            result = np.full_like(right, 7)
            opened().compile(source, sizes)(*inputs, result)
            np.testing.assert_allclose(result, right, rtol=1e-12, err_msg=repr(schedule))
            count += 1
    return count


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("general", [False, True])
def test_candidates_compute_the_reference(name: str, general: bool) -> None:
    engine = registry.engine_for()
    problem = engine.problem_of(PRODUCTS[name])
    assert problem.bounds is not None
    found = [schedule for _, schedule in ranked(problem, engine.target, general=general)]
    drawn = random.Random(1).sample(found, min(3, len(found)))
    if general:
        problem = generalised(problem)[0]
        drawn = [without_parts(problem, schedule) for schedule in drawn]
    assert check(name, problem, drawn) == 2 * len(drawn) > 2


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("general", [False, True])
def test_any_schedule_that_fits_computes_the_reference(name: str, general: bool) -> None:
    problem = registry.engine_for().problem_of(PRODUCTS[name])
    if general:
        problem = generalised(problem)[0]
    rng = random.Random(name)
    drawn = [random_schedule(rng, problem, "cpu") for _ in range(400)]
    assert check(name, problem, [s for s in drawn if is_valid(problem, s)][:3]) > 2


FITS = plain(bound("i,i,e,@4 k,e->i k", "lo hi x b at", times_vector))


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("points of a register tile have one range", {"registers": (2, 1, 1)}),
        ("points of a register tile have one range", {"registers": (4, 1, 1), "lane": 0}),
        ("have no tiles", {"tiles": (0, 8, 0)}),
    ],
)
def test_schedules_that_do_not_fit(said: str, change: dict[str, Any]) -> None:
    problem = bound("i,i,e,@4 k,e->i k", "lo hi x b at", times_vector)
    assert problem.labels == ("i", "e", "k")
    validate(problem, FITS)
    width = 4 if "lane" in change else 1
    with pytest.raises(LoweringError, match=said):
        validate(problem, replace(FITS, width=width, **change))


@pytest.mark.parametrize("name", PRODUCTS)
def test_searches_expect_the_reference(name: str) -> None:
    problem = registry.engine_for().problem_of(PRODUCTS[name])
    inputs = inputs_of(PRODUCTS[name], np.random.default_rng(7))
    flat = [Flat(array.ravel(), 0) for array in inputs]
    want = expected(problem, flat, np.random.default_rng(0))
    (result,) = run(PRODUCTS[name], inputs)
    np.testing.assert_allclose(want.values[0], result.ravel()[want.addresses[0]], rtol=1e-12)
