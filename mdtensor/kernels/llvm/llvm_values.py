"""The emitter of LoopNests' values as LLVM IR operands."""

from __future__ import annotations

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.kernels.fused_products import fused_terms
from mdtensor.kernels.llvm.conversions import converted
from mdtensor.kernels.llvm.elementary_functions import ELEMENTARY
from mdtensor.kernels.llvm.float_lanes import Lanes, by_library
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import constant, mangled, type_of, vector
from mdtensor.kernels.llvm.memory_access import gathered, loaded, packed, shuffled
from mdtensor.kernels.primitives import is_condition
from mdtensor.lower.ir.register_types import F32, F64, I64
from mdtensor.lower.ir.values import (
    Calc,
    FromIndex,
    Gather,
    Iota,
    Literal,
    Load,
    Pack,
    Ref,
    Shift,
    Shuffle,
    Slice,
    Value,
)
from mdtensor.translate.operations import COMPARISONS

_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fmod": "frem"}
_INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_SIGNED = {"quot": "sdiv", "rem": "srem", "shr": "ashr", "shl": "shl", "div": "sdiv"}
_UNSIGNED = {"quot": "udiv", "rem": "urem", "shr": "lshr", "shl": "shl", "div": "udiv"}
_ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_INTRINSICS = {
    "sqrt": "sqrt",
    "fabs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
    "copysign": "copysign",
    "fmin": "minnum",
    "fmax": "maxnum",
}


# Numbers of lanes for which AVX512-BF16 has an instruction.
_PAIRED_LANES = (4, 8, 16)
_U32 = np.dtype(np.uint32)


class Values:
    """The emitter of value expressions."""

    def __init__(self, builder: FunctionBuilder) -> None:
        self.builder = builder
        self.language = builder.language

    def value(self, value: Value, lanes: int, dtype: np.dtype | None = None) -> str:
        """Emit a value, converted to `dtype` if given, and splat to `lanes`."""
        given = value.dtype
        operand = self._operand(value)
        if dtype is not None:
            operand = converted(self.builder, operand, given, dtype, value.lanes)
            given = dtype
        return operand if value.lanes == lanes else self._splat(operand, given, lanes)

    def truth(self, value: Value, lanes: int = 1) -> str:
        """Emit a condition as an i1, or a vector of i1."""
        builder = self.builder
        if not (isinstance(value, Calc) and is_condition(value)):
            operand, kind = self.value(value, lanes), type_of(value.dtype, lanes)
            zero = constant(0, value.dtype) if lanes == 1 else "zeroinitializer"
            compare = "fcmp une" if value.dtype.kind == "f" else "icmp ne"
            return builder.emit(f"{compare} {kind} {operand}, {zero}")
        if value.op in COMPARISONS:
            return self._compared(value, lanes)
        bits = _bits(lanes)
        if value.op == "not":
            ones = "true" if lanes == 1 else vector("i1", ["true"] * lanes)
            return builder.emit(f"xor {bits} {self.truth(value.args[0], lanes)}, {ones}")
        lhs, rhs = (self.truth(arg, lanes) for arg in value.args)
        return builder.emit(f"{value.op} {bits} {lhs}, {rhs}")

    def _compared(self, calc: Calc, lanes: int) -> str:
        lhs, rhs = calc.args
        operands = f"{self.value(lhs, lanes)}, {self.value(rhs, lanes, lhs.dtype)}"
        kind = type_of(lhs.dtype, lanes)
        if lhs.dtype.kind == "f":
            return self.builder.emit(f"fcmp {_ORDERED[calc.op]} {kind} {operands}")
        sign = "" if calc.op in ("eq", "ne") else "u" if lhs.dtype.kind in "ub" else "s"
        return self.builder.emit(f"icmp {sign}{calc.op} {kind} {operands}")

    def _splat(self, operand: str, dtype: np.dtype, lanes: int) -> str:
        kind, element = type_of(dtype, lanes), type_of(dtype)
        if not operand.startswith("%"):
            return vector(element, [operand] * lanes)
        first = self.builder.emit(f"insertelement {kind} poison, {element} {operand}, i32 0")
        return shuffled(self.builder, first, "poison", kind, [0] * lanes)

    def _operand(self, value: Value) -> str:
        builder = self.builder
        match value:
            case Ref(name, _, _):
                return builder.get(name)
            case Literal(number, dtype, lanes):
                scalar = constant(number, dtype)
                return scalar if lanes == 1 else self._splat(scalar, dtype, lanes)
            case Load():
                return loaded(builder, value)
            case Gather():
                return gathered(builder, value)
            case Slice(inner, start, lanes):
                return self._slice(inner, start, lanes)
            case Iota(dtype, lanes):
                return vector(type_of(dtype), [constant(n, dtype) for n in range(lanes)])
            case Shift():
                return self._shift(value)
            case Shuffle(first, second, picks):
                kind = type_of(first.dtype, first.lanes)
                operands = self._operand(first), self._operand(second)
                return shuffled(builder, *operands, kind, picks)
            case FromIndex(index, dtype, lanes):
                scalar = converted(builder, builder.index(index), I64, dtype, 1)
                return scalar if lanes == 1 else self._splat(scalar, dtype, lanes)
            case Pack(values):
                parts = [self._operand(each) for each in values]
                return packed(builder, parts, value.dtype, len(parts))
            case Calc():
                return self._calc(value)

    def _slice(self, inner: Value, start: int, lanes: int) -> str:
        kind = type_of(inner.dtype, inner.lanes)
        operand = self._operand(inner)
        if lanes == 1:
            return self.builder.emit(f"extractelement {kind} {operand}, i32 {start}")
        return shuffled(self.builder, operand, "poison", kind, range(start, start + lanes))

    def _shift(self, shift: Shift) -> str:
        lanes, by, fill = shift.lanes, shift.by, shift.fill
        kind = type_of(shift.dtype, lanes)
        operand = self._operand(shift.value)
        if fill.lanes in (1, lanes):
            first = self.value(fill, lanes)
        else:
            parts = [self._slice(fill, n, 1) for n in range(min(by, fill.lanes))]
            first = packed(self.builder, parts, shift.dtype, lanes)
        picks = [n if n < by else lanes + n - by for n in range(lanes)]
        return shuffled(self.builder, first, operand, kind, picks)

    # ---- operations

    def _calc(self, calc: Calc) -> str:
        op, lanes, builder = calc.op, calc.lanes, self.builder
        kind = type_of(calc.dtype, lanes)
        if op == "select":
            return self._select(calc, kind)
        if is_condition(calc):
            return builder.emit(f"zext {_bits(lanes)} {self.truth(calc, lanes)} to {kind}")
        if op == "cast":
            (source,) = calc.args
            return self.value(source, lanes, calc.dtype)
        if op == "tf32":
            return self.value(calc.args[0], lanes)
        if op == "pack":
            return self._packed(calc, kind)
        if (pairs := _added_pairs(calc)) is not None:
            return self._dot2(*pairs, lanes)
        if self.language.fused and (terms := fused_terms(calc)):
            arguments = [(kind, self.value(term, lanes, calc.dtype)) for term in terms]
            return builder.call(f"llvm.fma.{mangled(calc.dtype, lanes)}", kind, *arguments)
        args = [self.value(arg, lanes, calc.dtype) for arg in calc.args]
        if calc.dtype.kind == "f":
            return self._of_floats(calc, kind, args)
        return self._of_integers(calc, kind, args)

    def _packed(self, calc: Calc, kind: str) -> str:
        """Emit words of 32 bits from two vectors of 16-bit ones, the first one the lower half."""
        builder, lanes = self.builder, calc.lanes
        low, high = (self.value(half, lanes, calc.dtype) for half in calc.args)
        by = "16" if lanes == 1 else self._splat("16", calc.dtype, lanes)
        return builder.emit(f"or {kind} {low}, {builder.emit(f'shl {kind} {high}, {by}')}")

    def _dot2(self, before: Value, first: Value, second: Value, lanes: int) -> str:
        """Emit float32 plus the dot product of pairs of bfloat16, by AVX512-BF16 for vectors."""
        builder, kind = self.builder, type_of(F32, lanes)
        total = self.value(before, lanes)
        words = [self.value(word, lanes) for word in (first, second)]
        if lanes in _PAIRED_LANES:
            halves = f"<{2 * lanes} x bfloat>"
            of = type_of(_U32, lanes)
            pairs = [(halves, builder.emit(f"bitcast {of} {word} to {halves}")) for word in words]
            function = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
            return builder.call(function, kind, (kind, total), *pairs)
        for half in (self._upper_half, self._lower_half):
            factors = [(kind, half(word, lanes)) for word in words]
            name = f"llvm.fma.{mangled(F32, lanes)}"
            total = builder.call(name, kind, *factors, (kind, total))
        return total

    def _upper_half(self, word: str, lanes: int) -> str:
        """The float32 whose upper half is that of a word."""
        return self._half(word, f"and {type_of(_U32, lanes)}", 0xFFFF0000, lanes)

    def _lower_half(self, word: str, lanes: int) -> str:
        """The float32 whose upper half is the lower one of a word."""
        return self._half(word, f"shl {type_of(_U32, lanes)}", 16, lanes)

    def _half(self, word: str, operation: str, number: int, lanes: int) -> str:
        builder = self.builder
        by = str(number) if lanes == 1 else self._splat(str(number), _U32, lanes)
        bits = builder.emit(f"{operation} {word}, {by}")
        return builder.emit(f"bitcast {type_of(_U32, lanes)} {bits} to {type_of(F32, lanes)}")

    def _select(self, calc: Calc, kind: str) -> str:
        condition, then, otherwise = calc.args
        mask = self.truth(condition, calc.lanes if condition.lanes > 1 else 1)
        bits = _bits(condition.lanes)
        choices = [f"{kind} {self.value(c, calc.lanes, calc.dtype)}" for c in (then, otherwise)]
        return self.builder.emit(f"select {bits} {mask}, {', '.join(choices)}")

    def _of_floats(self, calc: Calc, kind: str, args: list[str]) -> str:
        op, builder = calc.op, self.builder
        if op == "neg":
            return builder.emit(f"fneg {kind} {args[0]}")
        if op in _FLOAT:
            return builder.emit(f"{_FLOAT[op]} {kind} {args[0]}, {args[1]}")
        typed = [(kind, arg) for arg in args]
        if op in _INTRINSICS:
            return builder.call(
                f"llvm.{_INTRINSICS[op]}.{mangled(calc.dtype, calc.lanes)}", kind, *typed
            )
        if op in ELEMENTARY and calc.dtype in (F32, F64):
            on = Lanes(builder, calc.dtype, calc.lanes, self.language.scales)
            return ELEMENTARY[op](on, *args)
        if calc.dtype not in (F32, F64):
            raise LoweringError(f"llvm has no {op} of {calc.dtype.name}")
        return by_library(builder, op, calc.dtype, calc.lanes, args)

    def _of_integers(self, calc: Calc, kind: str, args: list[str]) -> str:
        op, builder, dtype = calc.op, self.builder, calc.dtype
        unsigned = dtype.kind in "ub"
        named = _INTEGER | (_UNSIGNED if unsigned else _SIGNED)
        if op in named:
            return builder.emit(f"{named[op]} {kind} {args[0]}, {args[1]}")
        zero = "0" if calc.lanes == 1 else "zeroinitializer"
        if op == "neg":
            return builder.emit(f"sub {kind} {zero}, {args[0]}")
        if op in ("not", "invert"):
            mask = "1" if op == "not" else "-1"
            ones = mask if calc.lanes == 1 else self._splat(mask, dtype, calc.lanes)
            return builder.emit(f"xor {kind} {args[0]}, {ones}")
        if op in ("min", "max"):
            function = f"llvm.{'u' if unsigned else 's'}{op}.{mangled(dtype, calc.lanes)}"
            return builder.call(function, kind, *((kind, arg) for arg in args))
        raise LoweringError(f"llvm has no {op} of {dtype.name}")


def _added_pairs(calc: Calc) -> tuple[Value, Value, Value] | None:
    """The addend and the words of a sum with a `dot2`, or of one alone; None for other values."""
    if calc.op == "dot2":
        first, second = calc.args
        return Literal(0.0, F32), first, second
    if calc.op != "add" or calc.dtype != F32:
        return None
    for own, other in (calc.args, calc.args[::-1]):
        if isinstance(own, Calc) and own.op == "dot2" and own.lanes == calc.lanes:
            first, second = own.args
            return other, first, second
    return None


def _bits(lanes: int) -> str:
    return "i1" if lanes == 1 else f"<{lanes} x i1>"
