"""bfloat16, a type of 16 bits that CUDA has functions for and OpenCL C has not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.ir.register_types import F16, F32, register_dtype
from mdtensor.specs import is_short_float
from tests.kernels.kernel_cases import einsum, gpu
from tests.kernels.nvrtc_compiler import ARCHITECTURES, compiled
from tests.lower.fuzz import Case

BFLOAT = np.dtype(ml_dtypes.bfloat16)
PLAIN = Case(einsum("ij,j->i", {"i": 60, "j": 24}, BFLOAT.name), gpu(2, (1,), threads=(4, 1)))
BESIDE_HALVES = Case(einsum("ij,j->i", {"i": 60, "j": 24}, "f2"), PLAIN.schedule)


@pytest.mark.parametrize(
    ("dtype", "short"), [(F16, True), (BFLOAT, True), (F32, False), (np.dtype("i2"), False)]
)
def test_short_floats_are_held_as_float32(dtype: np.dtype, short: bool) -> None:
    assert is_short_float(dtype) is short
    assert register_dtype(dtype) == (F32 if short else dtype)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_elements_are_converted_where_they_are_loaded_and_stored(architecture: str) -> None:
    text = program_of(PLAIN.problem(), PLAIN.schedule, CUDA).text
    assert "load_bfloat(" in text
    assert "store_bfloat(" in text
    ptx = compiled(text, architecture)
    assert "cvt.rn.bf16.f32" in ptx
    assert "fma.rn.f32" in ptx


def test_kernels_without_it_have_no_functions_for_it() -> None:
    assert "bfloat" not in program_of(BESIDE_HALVES.problem(), BESIDE_HALVES.schedule, CUDA).text


def test_opencl_has_no_such_type() -> None:
    with pytest.raises(LoweringError, match="opencl has no type bfloat16"):
        program_of(PLAIN.problem(), PLAIN.schedule, OPENCL)
