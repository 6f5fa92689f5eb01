"""float16 as float32 and back by integers, as processors without instructions for it do it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import binding

from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.llvm.object_compiler import ObjectCompiler
from mdtensor.backends.llvm.processors import PROCESSORS
from mdtensor.kernels.llvm.conversions import converted
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.language import LLVM_IR
from mdtensor.kernels.llvm.llvm_types import type_of


def module_of(given: np.dtype, wanted: np.dtype, lanes: int) -> str:
    """A function `apply` that converts one vector."""
    builder = FunctionBuilder(LLVM_IR)
    source, target = type_of(given, lanes), type_of(wanted, lanes)
    operand = converted(builder, "%x", given, wanted, lanes)
    lines, declared = "\n".join(builder.lines), "\n".join(builder.declared.values())
    return f"""
define void @apply(ptr %from, ptr %to) {{
  %x = load {source}, ptr %from, align 1
{lines}
  store {target} {operand}, ptr %to, align 1
  ret void
}}
{declared}
"""


def in_other_type(values: np.ndarray, wanted: np.dtype, lanes: int) -> np.ndarray:
    """Converts all elements, so many at a time."""
    jit = JitCompiler()
    code = jit.object_code(module_of(values.dtype, wanted, lanes))
    (address,), _library = jit.addresses(code, ["apply"])
    apply = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    result = np.empty(values.shape, wanted)
    for n in range(0, len(values), lanes):
        apply(values[n:].ctypes.data, result[n:].ctypes.data)
    return result


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("types", ["f2 f4", "f2 f8", "f4 f2", "f8 f2"])
def test_no_library_of_a_compiler_is_called(types: str, lanes: int) -> None:
    """The process of a JIT has none; LLVM calls them where there are no instructions."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    old = PROCESSORS["nehalem"]
    given, wanted = map(np.dtype, types.split())
    text = module_of(given, wanted, lanes)
    for hasty in (False, True):
        compiler = ObjectCompiler(binding, old.triple, old.name, features="")
        assert "call" not in compiler.assembly(text, hasty=hasty)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("wanted", ["f4", "f8"])
def test_all_halves_are_the_floats_that_they_are(wanted: str, lanes: int) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found = in_other_type(halves, np.dtype(wanted), lanes)
    np.testing.assert_array_equal(found, halves.astype(wanted))
    numbers = ~np.isnan(halves)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(halves[numbers]))


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("given", ["f4", "f8"])
def test_floats_are_rounded_to_the_nearest_half(given: str, lanes: int) -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    between = (halves[1:] + halves[:-1]) / 2
    near = [np.nextafter(between.astype(given), np.array(to, given)) for to in (-np.inf, np.inf)]
    beyond = [65519.9, 65520, 65536, 1e38, np.inf, np.nan, 0.0, 1e-30]
    sizes = np.concatenate([halves, between, *near, beyond])
    sizes = sizes[: len(sizes) // 8 * 8]
    values = np.concatenate([sizes, -sizes]).astype(given)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    found = in_other_type(values, np.dtype(np.float16), lanes)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
