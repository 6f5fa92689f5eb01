"""Vectors of more lanes than OpenCL C has names for, by the widths of what is computed with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.simd_lanes import LANES, LONG, most_lanes
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

EXTENTS = (1, 31, 32, 33, 64, 77, 131)
NARROW = ("i1", "u1", "i2", "u2", "?")


def product(dtype: str, n: int = 77) -> Problem:
    return problem_from_md_hom(
        md_hom_from_einsum("ij,jk->ik", [mdt.spec((5, 7), dtype), mdt.spec((7, n), dtype)])
    )


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_numbers_have_long_vectors(dtype: str) -> None:
    assert most_lanes(product(dtype)) == LONG


@pytest.mark.parametrize("dtype", ["i4", "f2", "f4", "f8"])
def test_others_have_not(dtype: str) -> None:
    assert most_lanes(product(dtype)) == LANES


def wide(problem: Problem, lane: int) -> Schedule:
    registers = tuple(LONG if d == lane else 1 for d in problem.dims)
    return replace(plain(problem), lane=lane, width=LONG, registers=registers)


def test_a_width_beyond_the_functions_is_refused() -> None:
    problem = product("f4")
    with pytest.raises(LoweringError, match="no vectors of 32 lanes"):
        validate(problem, wide(problem, 2))


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "straight": lambda a: a,
    "backwards": lambda a: a[:, ::-1],
    "every second": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "transposed": np.asfortranarray,
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("tail", ["split", "pad", "overlap"])
@pytest.mark.parametrize("n", EXTENTS)
@pytest.mark.parametrize("text", ["ij,ij->ij", "ij,ij->i"])
def test_long_vectors_compute_as_numpy_does(view: str, tail: str, n: int, text: str) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-128, 128, (5, n)).astype("i1") for _ in range(2))
    a = VIEWS[view](a)
    plan = mdt.compile(text, a, b)
    problem = plan.choices()[0].problem
    lane = problem.dims[-1]
    schedule = replace(wide(problem, lane), tail=tail)
    try:
        validate(problem, schedule)
    except LoweringError:
        pytest.fail(f"{schedule} is no schedule of {problem}")
    engine = registry.engine_for()
    program = engine.specialised(problem, schedule, "test", 0.0).program
    out = engine.device.empty(plan.result.shape, plan.result.dtype)
    program(a, b, out)
    np.testing.assert_array_equal(out, np.einsum(text, a, b))


def test_choices_and_extrema_of_long_vectors() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 250, (9, 333)).astype("u1") for _ in range(2))

    def f(x: object, y: object) -> object:
        return np.where(np.less(x, y), np.maximum(x, 7), np.minimum(y, 200))

    found = mdt.reduce("ij,ij->i", a, b, f=f, combine="max")
    expected = np.where(a < b, np.maximum(a, 7), np.minimum(b, 200)).max(axis=1)
    np.testing.assert_array_equal(found, expected)
