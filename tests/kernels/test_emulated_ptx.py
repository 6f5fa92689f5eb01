"""Products of matrices as CUDA, emulated: every kind of fragment, and that faults are seen."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.search.candidates import ranked
from tests.kernels.emulated_ptx import EmulatedGpu
from tests.kernels.kernel_cases import Case, matmul
from tests.lower import fuzz
from tests.lower.codegen.register_blocking.test_tensor_core_tile import CASES, TF32
from tests.lower.running import MismatchError
from tests.targets import H200

HALVES = (
    "several warps",
    "an odd number of columns' groups",
    "rows that are not aligned",
    "a batch",
)
TURNED = ("columns that lie along the reduction", "rows that lie across the reduction")
SINGLES = ("tiles", "columns that lie along the reduction", "both across the reduction")


@pytest.mark.parametrize("name", HALVES + TURNED)
def test_half_floats(name):
    assert fuzz.check(CASES[name], lambda: EmulatedGpu("sm_80"), CUDA)


@pytest.mark.parametrize("name", SINGLES)
def test_tf32(name):
    assert fuzz.check(TF32[name], lambda: EmulatedGpu("sm_80"), CUDA)


def changed(case: Case, before: str, after: str) -> None:
    """Checks a case whose text is another."""
    source = program_of(case.problem(), case.schedule, CUDA)
    assert before in source.text
    text = source.text.replace(before, after)
    program = EmulatedGpu("sm_80").compile(replace(source, text=text, unaligned=None))
    fuzz.check_program(program, case.einsum, case.seed, tf32=True)


FAULTS = {
    "a copy that nobody waits for": ("cp.async.wait_group 1;", "cp.async.wait_group 2;"),
    "columns of a fragment the wrong way round": ('"r"(x), "r"(y)', '"r"(y), "r"(x)'),
    "rows of a fragment the wrong way round": (
        '"r"(rows[1]), "r"(rows[2])',
        '"r"(rows[2]), "r"(rows[1])',
    ),
    "a matrix that is not turned": ("load_matrices<true>(columns", "load_matrices<false>(columns"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_seen(fault):
    case = CASES["tiles"]
    changed(case, "float a0_0", "float a0_0")  # as it is
    with pytest.raises(MismatchError):
        changed(case, *FAULTS[fault])


def test_what_lies_outside_of_arrays_is_seen():
    with pytest.raises(AssertionError, match="16 bytes outside of global memory"):
        changed(CASES["tiles"], "I0 + 96*t_i", "I0 + 97*t_i + 1024")


def test_bfloats():
    case = Case(
        matmul(32, 96, 24, np.dtype(ml_dtypes.bfloat16).name, "f4"), CASES["tiles"].schedule
    )
    source = program_of(case.problem(), case.schedule, CUDA)
    assert "multiply_add_bfloats(a" in source.text
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.random(o.shape).astype(ml_dtypes.bfloat16) for o in case.einsum.operands)
    out = np.empty(case.einsum.out.shape, "f4")
    EmulatedGpu("sm_80").compile(source)(lhs, rhs, out)
    np.testing.assert_allclose(out, lhs.astype("f8") @ rhs.astype("f8"), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)])
def test_short_floats_that_are_neighbours_move_together(dtype):
    plan = mdt.compile(mdt.stencil(lambda a, b: a[0] * 2 + b[0]), *[mdt.spec((512,), dtype)] * 2)
    problem = problem_from_md_hom(plan.md_homs[0])
    ((_, schedule),) = ranked(problem, H200, most=1)[:1]
    source = program_of(problem, schedule, CUDA)
    assert "s4(" in source.text.partition('extern "C"')[2]
    rng, out = np.random.default_rng(0), np.empty(512, dtype)
    lhs, rhs = (rng.normal(0, 100, 512).astype(dtype) for _ in range(2))
    EmulatedGpu("sm_80").compile(source)(lhs, rhs, out)
    np.testing.assert_array_equal(out, (lhs.astype("f4") * 2 + rhs.astype("f4")).astype(dtype))
