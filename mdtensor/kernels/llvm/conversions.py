"""Numbers of one type as numbers of another, in LLVM IR."""

from __future__ import annotations

import numpy as np

from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import mangled, type_of
from mdtensor.lower.ir.register_types import F32, F64, I32, I64
from mdtensor.specs import kind_of


def converted(
    builder: FunctionBuilder, operand: str, given: np.dtype, wanted: np.dtype, lanes: int
) -> str:
    """An operand in another type; floats as integers towards zero, integers modulo the range."""
    source, target = type_of(given, lanes), type_of(wanted, lanes)
    if source == target:
        return operand
    kinds = kind_of(given) == "f", kind_of(wanted) == "f"
    if kinds == (True, True):
        if given.itemsize == 8 and wanted.itemsize == 2:
            operand, given, source = (
                _rounded_to_odd(builder, operand, lanes),
                F32,
                type_of(F32, lanes),
            )
        widens = given.itemsize < wanted.itemsize
        return builder.emit(f"{'fpext' if widens else 'fptrunc'} {source} {operand} to {target}")
    if kinds == (False, True):
        if wanted.itemsize == 2:
            single = converted(builder, operand, given, F32, lanes)
            return converted(builder, single, F32, wanted, lanes)
        convert = "uitofp" if given.kind in "ub" else "sitofp"
        return builder.emit(f"{convert} {source} {operand} to {target}")
    if kinds == (True, False):
        return _whole(builder, operand, given, wanted, lanes)
    if given.itemsize > wanted.itemsize:
        return builder.emit(f"trunc {source} {operand} to {target}")
    extend = "zext" if given.kind in "ub" else "sext"
    return builder.emit(f"{extend} {source} {operand} to {target}")


def _rounded_to_odd(builder: FunctionBuilder, operand: str, lanes: int) -> str:
    """A float64 as one of the two next float32, by which rounding to 16 bits is done once.

    Where it lies between two, that is the one with an odd last bit. Processors have no conversion
    from float64 to 16 bits, and libraries of compilers that do are not everywhere.
    """
    double, single, bits = (type_of(each, lanes) for each in (F64, F32, I32))
    condition = "i1" if lanes == 1 else f"<{lanes} x i1>"
    nearest = builder.emit(f"fptrunc {double} {operand} to {single}")
    back = builder.emit(f"fpext {single} {nearest} to {double}")
    function = f"llvm.fabs.{mangled(F64, lanes)}"
    sizes = [builder.call(function, double, (double, each)) for each in (back, operand)]
    beyond = builder.emit(f"fcmp ogt {double} {', '.join(sizes)}")
    differs = builder.emit(f"fcmp one {double} {back}, {operand}")
    number = builder.emit(f"bitcast {single} {nearest} to {bits}")
    too_much = builder.emit(f"zext {condition} {beyond} to {bits}")
    odd = builder.emit(f"zext {condition} {differs} to {bits}")
    number = builder.emit(f"sub {bits} {number}, {too_much}")
    number = builder.emit(f"or {bits} {number}, {odd}")
    return builder.emit(f"bitcast {bits} {number} to {single}")


def _whole(
    builder: FunctionBuilder, operand: str, given: np.dtype, wanted: np.dtype, lanes: int
) -> str:
    """A float as an integer, as C compilers do it on x86 where a small type cannot hold it."""
    source, target = type_of(given, lanes), type_of(wanted, lanes)
    if wanted == np.uint64:
        whole = builder.emit(f"fptoui {source} {operand} to {target}")
        return builder.emit(f"freeze {target} {whole}")
    wide = I64 if wanted.itemsize == 8 or wanted == np.uint32 else I32
    kind = type_of(wide, lanes)
    whole = builder.emit(f"fptosi {source} {operand} to {kind}")
    return converted(builder, builder.emit(f"freeze {kind} {whole}"), wide, wanted, lanes)
