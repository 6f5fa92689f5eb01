"""CUDA C++: the text of kernels of the GPU family."""

from __future__ import annotations

import re

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.specs import TensorSpec
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from tests.kernels.kernel_cases import CASES, GPU_CASES, source


@pytest.mark.parametrize("name", GPU_CASES)
def test_text(name, golden):
    golden(f"kernels/cuda/{name}.cu", source(name, CUDA).text)


@pytest.mark.parametrize("name", GPU_CASES)
def test_launch_is_that_of_opencl(name):
    cuda, opencl = source(name, CUDA), source(name, OPENCL)
    assert cuda.entries == opencl.entries
    assert cuda.arguments == opencl.arguments
    assert cuda.sizes == opencl.sizes


def test_sizes_are_parameters_of_their_own():
    cuda = source("gpu_matmul_general", CUDA)
    assert cuda.sizes_by_value
    parameters = re.findall(r"const long long (\w+)[,)]", cuda.text)
    assert tuple(parameters) == cuda.sizes


def test_vectors_have_no_spelling():
    assert CASES["matmul_remainder"].schedule.width == 4
    with pytest.raises(LoweringError, match="cuda has no vectors of 4 lanes"):
        source("matmul_remainder", CUDA)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4"])
def test_small_signed_numbers_are_computed_from_numbers_of_unknown_origin(dtype):
    md_hom = md_hom_from_reduction(
        Reduction("i->", lambda a: -a, combine="max"), [TensorSpec.of((64,), dtype)]
    )
    problem = problem_from_md_hom(md_hom)
    text = program_of(problem, plain(problem, "gpu"), CUDA).text
    declared = "__device__ __forceinline__ signed char byte_of(int wide)"
    assert [declared in text, "byte_of((unsigned char)(" in text] == [dtype == "i1"] * 2
    declared = "__device__ __forceinline__ short short_of(int wide)"
    assert [declared in text, "short_of((unsigned int)(" in text] == [dtype == "i2"] * 2


@pytest.mark.parametrize("dtype", ["i2", "i4"])
def test_choices_among_numbers_of_16_bits_tell_nothing_of_them(dtype):
    """So that no compiler makes a magnitude of one, however it is said."""
    md_hom = md_hom_from_reduction(
        Reduction("i->", lambda a: a * -1 if a < 0 else a, combine="max"),
        [TensorSpec.of((64,), dtype)],
    )
    problem = problem_from_md_hom(md_hom)
    text = program_of(problem, plain(problem, "gpu"), CUDA).text
    assert ("? short_of(" in text) == (dtype == "i2")
