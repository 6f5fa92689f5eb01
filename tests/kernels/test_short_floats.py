"""bfloat16, a type of 16 bits that is widened where it is loaded, rounded where it is stored."""

from __future__ import annotations

import platform
from pathlib import Path

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

import mdtensor
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.languages import Language
from mdtensor.kernels.llvm.conversions import converted
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.language import LLVM_IR
from mdtensor.kernels.llvm.llvm_types import type_of
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.ir.register_types import F16, F32, F64, register_dtype
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.specs import is_short_float
from tests.kernels.kernel_cases import cpu, einsum, gpu, matmul
from tests.kernels.nvrtc_compiler import ARCHITECTURES, compiled
from tests.lower.fuzz import Case

X86 = ["x86-64", "x86-64-v3", "x86-64-v4", "sapphirerapids"]
PROCESSORS = X86 if platform.machine() in ("x86_64", "AMD64") else [""]
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
    assert "of_bfloat(" in text
    assert "store_bfloat(" in text
    ptx = compiled(text, architecture)
    assert "cvt.rn.bf16.f32" in ptx
    assert "fma.rn.f32" in ptx


def test_kernels_without_it_have_no_functions_for_it() -> None:
    assert "bfloat" not in program_of(BESIDE_HALVES.problem(), BESIDE_HALVES.schedule, CUDA).text


@pytest.mark.parametrize(("language", "own"), [(OPENCL, "bfloat16"), (LLVM_IR, "bfloat ")])
def test_elements_are_halves_of_words_on_processors(language: Language, own: str) -> None:
    problem = problem_from_md_hom(matmul(6, 24, 64, BFLOAT.name).md_hom())
    text = program_of(problem, cpu(3, (1,), lane=2, width=16, registers=(1, 1, 16)), language).text
    assert own not in text, "no type and no function of a compiler's own"
    shift = "<< 16" if language is OPENCL else "shl <16 x i32>"
    assert shift in text


@pytest.mark.parametrize("processor", PROCESSORS)
def test_conversions_call_no_library(processor: str) -> None:
    """A JIT compiler finds no functions of compilers' libraries everywhere."""
    for given, wanted in ((F32, BFLOAT), (F64, BFLOAT), (BFLOAT, F32), (BFLOAT, F64)):
        for lanes in (1, 8, 16):
            assert "call" not in assembly(given, wanted, lanes, processor)


def assembly(given: np.dtype, wanted: np.dtype, lanes: int, processor: str) -> str:
    builder = FunctionBuilder()
    value = builder.emit(f"load {type_of(given, lanes)}, ptr %from, align {given.itemsize}")
    result = converted(builder, value, given, wanted, lanes)
    builder.do(f"store {type_of(wanted, lanes)} {result}, ptr %to, align {wanted.itemsize}")
    declared = "\n".join(builder.declared.values())
    body = "\n".join(builder.lines)
    text = f"define void @convert(ptr %from, ptr %to) {{\n{body}\n  ret void\n}}\n{declared}\n"
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=processor, opt=3)
    return machine.emit_assembly(llvm.parse_assembly(text))


PACKAGE = Path(mdtensor.__file__).parent
OF_PRODUCTS = {"matrix_product.py", "panel_product.py", "tensor_maps.py", "pair_products.py"}
# Names of other libraries' types, and of ours in the words of errors and of NumPy.
OF_OTHER_LIBRARIES = {"torch_tensors.py", "jax_operators.py", "cuda_comparison.py"}


def test_it_is_declared_in_five_files() -> None:
    said = {path.name for path in PACKAGE.rglob("*.py") if '"bfloat16"' in path.read_text("utf-8")}
    declared = {"specs.py", "llvm_types.py", "conversions.py", "opencl.py", "cuda.py"}
    assert said - OF_PRODUCTS - OF_OTHER_LIBRARIES == declared
