"""Conversions between number types in LLVM IR."""

from __future__ import annotations

import numpy as np

from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import constant, mangled, type_of, vector
from mdtensor.lower.ir.register_types import F16, F32, F64, I16, I32, I64
from mdtensor.specs import kind_of

_HIGHEST = 0xFF << 23  # the exponent of infinities and NaN of float32


def converted(
    builder: FunctionBuilder, operand: str, given: np.dtype, wanted: np.dtype, lanes: int
) -> str:
    """An operand converted to another type; floats truncate to integers, integers wrap around."""
    source, target = type_of(given, lanes), type_of(wanted, lanes)
    kinds = kind_of(given) == "f", kind_of(wanted) == "f"
    if given == wanted or (source == target and kinds == (False, False)):
        return operand
    if given.name == "bfloat16":
        return converted(builder, _widened(builder, operand, lanes), F32, wanted, lanes)
    if given.name == "float16" and not builder.language.halves:
        return converted(builder, _half_as_single(builder, operand, lanes), F32, wanted, lanes)
    if kinds[1] and wanted.itemsize == 2 and given != F32:
        if given == F64:
            single = _rounded_to_odd(builder, operand, lanes)
        else:
            single = converted(builder, operand, given, F32, lanes)
        return converted(builder, single, F32, wanted, lanes)
    if wanted.name == "bfloat16":
        return _narrowed(builder, operand, lanes)
    if wanted.name == "float16" and not builder.language.halves:
        return _single_as_half(builder, operand, lanes)
    if kinds == (True, True):
        widens = given.itemsize < wanted.itemsize
        return builder.emit(f"{'fpext' if widens else 'fptrunc'} {source} {operand} to {target}")
    if kinds == (False, True):
        convert = "uitofp" if given.kind in "ub" else "sitofp"
        return builder.emit(f"{convert} {source} {operand} to {target}")
    if kinds == (True, False):
        return _whole(builder, operand, given, wanted, lanes)
    if given.itemsize > wanted.itemsize:
        return builder.emit(f"trunc {source} {operand} to {target}")
    extend = "zext" if given.kind in "ub" else "sext"
    return builder.emit(f"{extend} {source} {operand} to {target}")


def _widened(builder: FunctionBuilder, operand: str, lanes: int) -> str:
    """A bfloat16 widened to float32, of which it is the upper half."""
    short, word = type_of(I16, lanes), type_of(I32, lanes)
    bits = builder.emit(f"zext {short} {operand} to {word}")
    bits = builder.emit(f"shl {word} {bits}, {_all(16, lanes)}")
    return builder.emit(f"bitcast {word} {bits} to {type_of(F32, lanes)}")


def _narrowed(builder: FunctionBuilder, operand: str, lanes: int) -> str:
    """A float32 rounded to bfloat16, to nearest even; a NaN becomes a quiet NaN."""
    single, word, short = (type_of(each, lanes) for each in (F32, I32, I16))
    bits = builder.emit(f"bitcast {single} {operand} to {word}")
    upper = builder.emit(f"lshr {word} {bits}, {_all(16, lanes)}")
    odd = builder.emit(f"and {word} {upper}, {_all(1, lanes)}")
    up = builder.emit(f"add {word} {odd}, {_all(0x7FFF, lanes)}")
    nearest = builder.emit(f"add {word} {bits}, {up}")
    nearest = builder.emit(f"lshr {word} {nearest}, {_all(16, lanes)}")
    quiet = builder.emit(f"or {word} {upper}, {_all(0x40, lanes)}")
    is_nan = builder.emit(f"fcmp uno {single} {operand}, {operand}")
    bits = _either(builder, is_nan, quiet, nearest, lanes)
    return builder.emit(f"trunc {word} {bits} to {short}")


def _half_as_single(builder: FunctionBuilder, operand: str, lanes: int) -> str:
    """A float16 widened to float32 by integer operations, without LLVM's library call.

    Exponent and fraction in the places of a float32's are a number that is 2 ** 112 times too
    small; infinities and NaN have the highest exponent of either type.
    """
    short, word, single = (type_of(each, lanes) for each in (I16, I32, F32))
    number = builder.emit(f"bitcast {type_of(F16, lanes)} {operand} to {short}")
    number = builder.emit(f"zext {short} {number} to {word}")
    sign = builder.emit(f"and {word} {number}, {_all(0x8000, lanes)}")
    sign = builder.emit(f"shl {word} {sign}, {_all(16, lanes)}")
    size = builder.emit(f"and {word} {number}, {_all(0x7FFF, lanes)}")
    size = builder.emit(f"shl {word} {size}, {_all(13, lanes)}")
    small = builder.emit(f"bitcast {word} {size} to {single}")
    scaled = builder.emit(f"fmul {single} {small}, {_all(2.0**112, lanes)}")
    finite = builder.emit(f"bitcast {single} {scaled} to {word}")
    special = builder.emit(f"or {word} {size}, {_all(_HIGHEST, lanes)}")
    is_special = builder.emit(f"icmp uge {word} {size}, {_all(31 << 23, lanes)}")
    size = _either(builder, is_special, special, finite, lanes)
    number = builder.emit(f"or {word} {size}, {sign}")
    return builder.emit(f"bitcast {word} {number} to {single}")


def _single_as_half(builder: FunctionBuilder, operand: str, lanes: int) -> str:
    """A float32 rounded to float16, to nearest even, by integer operations; NaN stays NaN."""
    short, word, single = (type_of(each, lanes) for each in (I16, I32, F32))
    number = builder.emit(f"bitcast {single} {operand} to {word}")
    sign = builder.emit(f"lshr {word} {number}, {_all(16, lanes)}")
    sign = builder.emit(f"and {word} {sign}, {_all(0x8000, lanes)}")
    size = builder.emit(f"and {word} {number}, {_all(0x7FFFFFFF, lanes)}")
    # Normal numbers: another bias, and half of the last place that stays, or a little less.
    odd = builder.emit(f"lshr {word} {size}, {_all(13, lanes)}")
    odd = builder.emit(f"and {word} {odd}, {_all(1, lanes)}")
    nearest = builder.emit(f"add {word} {size}, {_all(0xFFF - (112 << 23), lanes)}")
    nearest = builder.emit(f"add {word} {nearest}, {odd}")
    nearest = builder.emit(f"lshr {word} {nearest}, {_all(13, lanes)}")
    # Subnormal ones: beside a half, the last place of a float32 is theirs.
    tiny = builder.emit(f"bitcast {word} {size} to {single}")
    tiny = builder.emit(f"fadd {single} {tiny}, {_all(0.5, lanes)}")
    tiny = builder.emit(f"bitcast {single} {tiny} to {word}")
    tiny = builder.emit(f"sub {word} {tiny}, {_all(126 << 23, lanes)}")
    is_tiny = builder.emit(f"icmp ult {word} {size}, {_all(113 << 23, lanes)}")
    result = _either(builder, is_tiny, tiny, nearest, lanes)
    is_large = builder.emit(f"icmp uge {word} {size}, {_all(143 << 23, lanes)}")
    result = _either(builder, is_large, _all(0x7C00, lanes), result, lanes)
    is_nan = builder.emit(f"icmp ugt {word} {size}, {_all(_HIGHEST, lanes)}")
    result = _either(builder, is_nan, _all(0x7E00, lanes), result, lanes)
    result = builder.emit(f"or {word} {result}, {sign}")
    result = builder.emit(f"trunc {word} {result} to {short}")
    return builder.emit(f"bitcast {short} {result} to {type_of(F16, lanes)}")


def _either(builder: FunctionBuilder, mask: str, then: str, otherwise: str, lanes: int) -> str:
    """A `select` between two 32-bit integers in each lane."""
    word, condition = type_of(I32, lanes), "i1" if lanes == 1 else f"<{lanes} x i1>"
    return builder.emit(f"select {condition} {mask}, {word} {then}, {word} {otherwise}")


def _all(number: int | float, lanes: int) -> str:
    """A 32-bit integer or float32 constant, splat to all lanes."""
    dtype = F32 if isinstance(number, float) else I32
    scalar = constant(number, dtype)
    return scalar if lanes == 1 else vector(type_of(dtype), [scalar] * lanes)


def _rounded_to_odd(builder: FunctionBuilder, operand: str, lanes: int) -> str:
    """A float64 rounded to odd as float32, so that rounding on to 16 bits happens once.

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
    """A float converted to an integer; out-of-range values wrap as x86 C compilers make them."""
    source, target = type_of(given, lanes), type_of(wanted, lanes)
    if wanted == np.uint64:
        whole = builder.emit(f"fptoui {source} {operand} to {target}")
        return builder.emit(f"freeze {target} {whole}")
    wide = I64 if wanted.itemsize == 8 or wanted == np.uint32 else I32
    kind = type_of(wide, lanes)
    whole = builder.emit(f"fptosi {source} {operand} to {kind}")
    return converted(builder, builder.emit(f"freeze {kind} {whole}"), wide, wanted, lanes)
