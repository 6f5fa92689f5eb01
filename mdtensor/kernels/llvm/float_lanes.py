"""Arithmetic on float vectors in LLVM IR, lane by lane or on their bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.kernels.llvm.elementary_coefficients import FORMATS, Format
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import constant, mangled, type_of, vector
from mdtensor.kernels.llvm.memory_access import packed
from mdtensor.lower.ir.register_types import F32

_CURRENT_ROUNDING = "4"  # the mode that is set, to instructions of 512 bits


@dataclass(frozen=True, slots=True)
class Lanes:
    """Builder of arithmetic on operands of one float type and lane count.

    It `scales` by powers of two in one instruction, where the processor has AVX-512.
    """

    builder: FunctionBuilder
    dtype: np.dtype
    lanes: int
    scales: bool = False

    @property
    def format(self) -> Format:
        """The constants and coefficients of the float type."""
        return FORMATS[self.dtype]

    def number(self, value: float) -> str:
        """A float constant, splat to all lanes."""
        return self._filled(constant(value, self.dtype), self.dtype)

    def integer(self, value: int) -> str:
        """An integer constant as wide as the floats, splat to all lanes."""
        return self._filled(str(value), self.format.integers)

    def _filled(self, scalar: str, dtype: np.dtype) -> str:
        return scalar if self.lanes == 1 else vector(type_of(dtype), [scalar] * self.lanes)

    def of(self, operation: str, lhs: str, rhs: str) -> str:
        """Emit an instruction on float operands."""
        return self.builder.emit(f"{operation} {type_of(self.dtype, self.lanes)} {lhs}, {rhs}")

    def of_integers(self, operation: str, lhs: str, rhs: int | str) -> str:
        """Emit an instruction on integer operands, as wide as the floats."""
        other = self.integer(rhs) if isinstance(rhs, int) else rhs
        kind = type_of(self.format.integers, self.lanes)
        return self.builder.emit(f"{operation} {kind} {lhs}, {other}")

    def fma(self, lhs: str, rhs: str, plus: str) -> str:
        """A multiply-add, fused where the processor has FMA."""
        return self.function("fmuladd", lhs, rhs, plus)

    def function(self, name: str, *operands: str) -> str:
        """Call an LLVM intrinsic."""
        kind = type_of(self.dtype, self.lanes)
        typed = [(kind, operand) for operand in operands]
        return self.builder.call(f"llvm.{name}.{mangled(self.dtype, self.lanes)}", kind, *typed)

    def bits(self, operand: str) -> str:
        """Floats bitcast to integers."""
        floats, integers = self._kinds()
        return self.builder.emit(f"bitcast {floats} {operand} to {integers}")

    def from_bits(self, operand: str) -> str:
        """Integers bitcast to floats."""
        floats, integers = self._kinds()
        return self.builder.emit(f"bitcast {integers} {operand} to {floats}")

    def _kinds(self) -> tuple[str, str]:
        return type_of(self.dtype, self.lanes), type_of(self.format.integers, self.lanes)

    def chosen(self, comparison: str, lhs: str, rhs: str, then: str, otherwise: str) -> str:
        """A `select` by a float comparison, lane by lane."""
        kind = type_of(self.dtype, self.lanes)
        mask = self.of(f"fcmp {comparison}", lhs, rhs)
        return self.builder.emit(f"select {self.bools} {mask}, {kind} {then}, {kind} {otherwise}")

    @property
    def bools(self) -> str:
        """The IR type of comparison results."""
        return "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"

    def any(self, mask: str) -> str:
        """Emit whether a comparison holds in any lane, as an i1."""
        if self.lanes == 1:
            return mask
        name = f"llvm.vector.reduce.or.v{self.lanes}i1"
        return self.builder.call(name, "i1", (self.bools, mask))

    def converted(self, operation: str, operand: str, dtype: np.dtype) -> str:
        """Floats converted to another float type, by `fpext` or `fptrunc`."""
        kind, other = type_of(self.dtype, self.lanes), type_of(dtype, self.lanes)
        return self.builder.emit(f"{operation} {kind} {operand} to {other}")

    def polynomial(self, coefficients: Sequence[float], at: str) -> str:
        """A polynomial by Horner's rule; coefficients from the highest power down."""
        total = self.number(coefficients[0])
        for each in coefficients[1:]:
            total = self.fma(total, at, self.number(each))
        return total

    def scaled(self, operand: str, count: str, shifted: str) -> str:
        """Floats times 2^`count`, which is integral; `shifted` is `count` plus `magic`."""
        bits = 8 * self.dtype.itemsize * self.lanes
        if self.scales and (self.lanes == 1 or bits in (128, 256, 512)):
            return self._by_instruction(operand, count)
        # By two factors, since one may lie outside of the normal range.
        magic = bits_of(self.format.magic, self.dtype)
        exponent = self.of_integers("sub", self.bits(shifted), magic)
        half = self.of_integers("ashr", exponent, 1)
        others = self.of_integers("sub", exponent, half)
        result = self.of("fmul", operand, self.power_of_two(half))
        return self.of("fmul", result, self.power_of_two(others))

    def _by_instruction(self, operand: str, count: str) -> str:
        """Scaling by AVX-512's `scalef`; a scalar is the first lane of a vector."""
        builder = self.builder
        lanes = 16 // self.dtype.itemsize if self.lanes == 1 else self.lanes
        kind, element = type_of(self.dtype, lanes), type_of(self.dtype)
        if self.lanes == 1:
            operand, count = (
                builder.emit(f"insertelement {kind} poison, {element} {x}, i32 0")
                for x in (operand, count)
            )
        bits, mask = 8 * self.dtype.itemsize * lanes, f"i{max(8, lanes)}"
        typed = [(kind, operand), (kind, count), (kind, operand), (mask, "-1")]
        if bits == 512:
            typed.append(("i32", _CURRENT_ROUNDING))
        name = f"scalef.p{'s' if self.dtype == F32 else 'd'}.{bits}"
        result = builder.call(f"llvm.x86.avx512.mask.{name}", kind, *typed)
        if self.lanes > 1:
            return result
        return builder.emit(f"extractelement {kind} {result}, i32 0")

    def power_of_two(self, exponent: str) -> str:
        """2^n for integers n within the normal exponent range."""
        biased = self.of_integers("add", exponent, self.format.bias)
        return self.from_bits(self.of_integers("shl", biased, self.format.fraction))


def by_library(
    builder: FunctionBuilder, name: str, dtype: np.dtype, lanes: int, args: Sequence[str]
) -> str:
    """Call a function of C's math library for every lane."""
    function, element = name + ("f" if dtype == F32 else ""), type_of(dtype)
    if lanes == 1:
        return builder.call(function, element, *((element, arg) for arg in args))
    kind, parts = type_of(dtype, lanes), list[str]()
    for lane in range(lanes):
        taken = [builder.emit(f"extractelement {kind} {arg}, i32 {lane}") for arg in args]
        parts.append(builder.call(function, element, *((element, arg) for arg in taken)))
    return packed(builder, parts, dtype, lanes)


def bits_of(value: float, dtype: np.dtype) -> int:
    """The bit pattern of a float as an integer."""
    return int(np.array(value, dtype).view(f"i{dtype.itemsize}"))
