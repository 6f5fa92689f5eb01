"""Extremes by one instruction: where an operator is one, and that nothing else changes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.minmax_operators import with_extremes
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Operator, named
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from mdtensor.translate.scalar import apply, param, select
from tests.kernels.kernel_cases import gpu
from tests.lower.running import device


def product(combine: object, dtype: str = "f4") -> Problem:
    specs = [TensorSpec.of((9, 40), dtype), TensorSpec.of((40, 21), dtype)]
    reduction = Reduction("ij,jk->ik", lambda a, b: a + b, combine)
    return problem_from_md_hom(md_hom_from_reduction(reduction, specs))


@pytest.mark.parametrize(
    ("combine", "function"), [("lesser", "fmin"), ("greater", "fmax"), ("min", "min")]
)
def test_operators_that_select_become_functions(combine, function):
    operator = with_extremes(product(combine)).operator
    assert operator is not None
    assert [result.op for result in operator.results] == [function]
    assert operator.identity == product(combine).operator.identity


@pytest.mark.parametrize("dtype", ["i4", "i8", "f8"])
def test_what_has_no_such_instruction_stays(dtype):
    assert with_extremes(product("lesser", dtype)).operator.results[0].op == "select"


def test_other_selections_stay():
    lhs, rhs = param(0, "f4"), param(1, "f4")
    left_first = select(apply("lt", lhs, rhs), lhs, rhs)  # a NaN on the right is taken
    problem = product("lesser")
    for results, identity in (
        ((left_first,), (math.inf,)),
        (named("lesser", ["f4"]).results, (0.0,)),  # what is above it is overlooked
        (named("lesser", ["f4"]).results, None),
    ):
        operator = Operator(problem.operator.dtypes, results, identity, True, "own")
        assert with_extremes(replace(problem, operator=operator)).operator.results == results


def test_nan_is_dropped_wherever_it_lies():
    problem = product("lesser")
    schedule = gpu(
        *(3, (1,)), resident=True, threads=(2, 4, 4), registers=(2, 2, 4), parts=(2, 2, 1)
    )
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((9, 40), (40, 21)))
    a[rng.random(a.shape) < 0.3] = np.nan
    b[rng.random(b.shape) < 0.1] = -np.inf
    a[3], b[:, 5] = np.nan, np.inf
    out = np.empty((9, 21), np.float32)
    device().compile(program_of(problem, schedule, OPENCL))(a, b, out)
    sums = a.astype(float)[:, :, None] + b
    np.testing.assert_allclose(out, np.fmin.reduce(sums, axis=1, initial=np.inf), rtol=1e-6)


def test_the_kernel_has_no_comparison():
    schedule = gpu(3, (1,), resident=True, threads=(4, 1, 8), registers=(2, 4, 2), parts=(2, 1, 2))
    text = program_of(product("lesser"), schedule, CUDA).text
    assert "a0_0 = fmin(a0_0, " in text
    assert "? c0 :" not in text
