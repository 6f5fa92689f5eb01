"""Kernels that LLVM compiled, against NumPy in float64 and against the oracle."""

import pytest

from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.errors import CompileError
from mdtensor.kernels.llvm.language import LLVM_IR
from tests.lower.fuzz import MD_HOM, TRANSPOSED, names_of
from tests.lower.fuzz_llvm import outcome


@pytest.mark.parametrize("name", names_of(3, ("cpu",), 12))
def test_random_einsums_are_right(name):
    outcome(name)


@pytest.mark.parametrize("name", names_of(3, ("cpu",), 12, kind=MD_HOM))
def test_random_reductions_scans_and_stencils_are_right(name):
    outcome(name)


@pytest.mark.parametrize("name", names_of(3, ("cpu",), 6, kind=TRANSPOSED))
def test_results_far_apart_along_lanes_are_right(name):
    outcome(name)


@pytest.mark.parametrize("name", names_of(4, ("cpu",), 6))
def test_products_that_are_not_fused_are_right(name):
    outcome(name, LLVM_IR)


@pytest.mark.parametrize("name", ["0/cpu/45", "1/cpu/164/md_hom"])
def test_float64_is_stored_as_float16(name):
    assert outcome(name) == "ok"


def test_what_llvm_refuses_is_told():
    with pytest.raises(CompileError, match="LLVM refused a kernel: "):
        JitCompiler().object_code("define void @f() { ret i32 }")
