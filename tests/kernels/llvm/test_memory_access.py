"""Loads of the first lanes of a vector, by narrower loads and under a mask."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.language import LLVM_IR_FMA
from mdtensor.kernels.llvm.llvm_types import type_of
from mdtensor.kernels.llvm.memory_access import loaded
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.values import Load
from tests.lower.random_problems import guarded


def first_lanes(dtype: np.dtype, lanes: int, valid: int, *, masks: bool) -> str:
    """A function that copies the first lanes of a vector, and zeros behind them."""
    builder = FunctionBuilder(replace(LLVM_IR_FMA, masks=masks))
    builder.point("source", "%from", dtype)
    load = Load("source", dtype, as_index(0), lanes, valid=valid)
    value = loaded(builder, load)
    lines, declared = "\n".join(builder.lines), "\n".join(builder.declared.values())
    return f"""
define void @copy(ptr %from, ptr %to) {{
{lines}
  store {type_of(dtype, lanes)} {value}, ptr %to, align 1
  ret void
}}
{declared}
"""


@pytest.mark.sampled(24)
@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("lanes", [2, 3, 8, 16])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
def test_only_the_first_lanes_are_read(dtype: str, lanes: int, masks: bool) -> None:
    kind, jit = np.dtype(dtype), JitCompiler()
    for valid in range(1, lanes):
        page = guarded(4096).view(kind)
        page[-valid:] = np.arange(1, valid + 1)
        found = np.full(lanes, 99, kind)
        code = jit.object_code(first_lanes(kind, lanes, valid, masks=masks))
        (address,), _library = jit.addresses(code, ["copy"])
        copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
        copy(page[-valid:].ctypes.data, found.ctypes.data)
        np.testing.assert_array_equal(found, [*range(1, valid + 1), *[0] * (lanes - valid)])


def test_seven_floats_are_read_by_three_loads() -> None:
    text = first_lanes(np.dtype("f4"), 8, 7, masks=False)
    loads = [line.split("load ")[1].split(",")[0] for line in text.splitlines() if "load " in line]
    assert loads == ["<4 x float>", "<2 x float>", "float"]
    assert "llvm.masked.load.v8f32.p0" in first_lanes(np.dtype("f4"), 8, 7, masks=True)
