"""Programs for arrays that begin at multiples of 16 bytes, and for those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.kernel_source import ALIGNMENT
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from tests.kernels.kernel_cases import CASES
from tests.lower import fuzz
from tests.lower.codegen.register_blocking.test_register_blocking import CASES as RESIDENT


@pytest.mark.parametrize("dialect", [OPENCL, CUDA], ids=lambda dialect: dialect.name)
def test_wide_accesses_of_buffers_are_for_aligned_ones(dialect):
    case = RESIDENT["whole blocks"]
    program = program_of(case.problem(), case.schedule, dialect, "a head")
    wide = dialect.wide_load.format(type="float4", lanes=4, address="I0")[:-1]
    assert program.unaligned is not None
    assert program.unaligned.unaligned is None
    assert wide in program.text
    assert wide not in program.unaligned.text
    assert program.text.startswith("// a head")
    assert program.unaligned.text.startswith("// a head")


@pytest.mark.parametrize("name", ["matmul_staged", "gpu_matmul_local"])
def test_without_them_there_is_one_program(name):
    case = CASES[name]
    assert program_of(case.problem(), case.schedule, OPENCL).unaligned is None


def test_a_general_program_is_for_all_arrays():
    case = RESIDENT["general"]
    assert program_of(case.problem(), case.schedule, OPENCL).unaligned is None


def begin_at(array: np.ndarray, place: int) -> np.ndarray:
    """A copy of an array that begins so many bytes after a multiple of 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + place
    moved = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("moved", [None, 0, 1, 2])
def test_arrays_may_begin_anywhere(moved, streaming):
    case = RESIDENT["what remains of every dim"]
    schedule = replace(case.schedule, streaming=streaming)
    program = fuzz.device().compile(program_of(case.problem(), schedule, OPENCL))
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.random(o.shape, np.float32) for o in case.einsum.operands)
    arrays = [begin_at(a, ALIGNMENT) for a in (lhs, rhs, np.zeros(case.einsum.out.shape, "f4"))]
    if moved is not None:
        arrays[moved] = begin_at(arrays[moved], 4)
    for run in (program, program.launcher()):
        arrays[2][...] = np.nan
        run(*arrays)
        np.testing.assert_allclose(arrays[2], lhs @ rhs, rtol=1e-5)


@pytest.mark.parametrize("name", ["41/cpu/1070/md_hom", "41/cpu/1864/md_hom"])
def test_operators_that_forget_all_but_the_last_element_make_fragile_programs(name):
    """Optimised, Intel's results were those of one iteration more (ADR 4)."""
    case = fuzz.random_case(name)
    (problem,) = case.problems()
    assert program_of(problem, case.schedule, OPENCL).fragile
    assert fuzz.check(case)
