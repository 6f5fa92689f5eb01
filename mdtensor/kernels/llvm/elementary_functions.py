"""exp, log and tanh of all lanes of a vector at once, as polynomials in LLVM IR.

Arguments are reduced to a short interval. In units in the last place (ulp), against the exact
value: exp of float32 and float64 errs by less than 1.5, log by less than 1, tanh by less than
1.5; where results are below the normal range, in units of their own spacing. NaN, infinities,
zeros and signs are those of C. One lane is computed as many are, so that equal elements have equal
results wherever they lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import constant, mangled, type_of, vector
from mdtensor.lower.ir.register_types import F32, F64, I32, I64


@dataclass(frozen=True, slots=True)
class Format:
    """A type of floats: its integers, bits of fraction, exponent bias, and coefficients.

    `magic` rounds what is added to it to integers. `high` and `low` sum to ln 2; multiples of
    `high` are exact. Beyond `least` and `most` exp is 0 and infinite. Coefficients begin with that
    of the highest power: `exp` those of (exp(r) - 1 - r) / r², `log` those of fdlibm's remainder
    in even and odd powers, `tanh` numerator and denominator of (tanh(x) - x) / x³ by Cephes.
    """

    integers: np.dtype
    fraction: int
    bias: int
    magic: float
    high: float
    low: float
    least: float
    most: float
    exp: Sequence[float]
    log: Sequence[float]
    tanh: tuple[Sequence[float], Sequence[float]]


_FORMATS: Mapping[np.dtype, Format] = {
    F32: Format(
        I32,
        23,
        127,
        1.5 * 2.0**23,
        0.693359375,
        -2.12194440e-4,
        -104.0,
        89.0,
        (
            1.9875691500e-4,
            1.3981999507e-3,
            8.3334519073e-3,
            4.1665795894e-2,
            1.6666665459e-1,
            5.0000001201e-1,
        ),
        (0.24279078841, 0.28498786688, 0.40000972152, 0.66666662693),
        (
            (
                -5.70498872745e-3,
                2.06390887954e-2,
                -5.37397155531e-2,
                1.33314422036e-1,
                -3.33332819422e-1,
            ),
            (),
        ),
    ),
    F64: Format(
        I64,
        52,
        1023,
        1.5 * 2.0**52,
        6.93147180369123816490e-01,
        1.90821492927058770002e-10,
        -746.0,
        710.0,
        tuple(1 / math.factorial(power) for power in range(13, 1, -1)),
        (
            1.479819860511658591e-01,
            1.531383769920937332e-01,
            1.818357216161805012e-01,
            2.222219843214978396e-01,
            2.857142874366239149e-01,
            3.999999999940941908e-01,
            6.666666666666735130e-01,
        ),
        (
            (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3),
            (1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3),
        ),
    ),
}
# From here on, tanh is computed by exp.
_FLAT = 0.625
_CURRENT_ROUNDING = "4"  # the mode that is set, to instructions of 512 bits


@dataclass(frozen=True, slots=True)
class Lanes:
    """Arithmetic on operands of one type of floats and so many lanes.

    It `scales` by powers of two in one instruction, where the processor has AVX-512.
    """

    builder: FunctionBuilder
    dtype: np.dtype
    lanes: int
    scales: bool = False

    @property
    def format(self) -> Format:
        """The facts of the type."""
        return _FORMATS[self.dtype]

    def number(self, value: float) -> str:
        """A constant in all lanes."""
        return self._filled(constant(value, self.dtype), self.dtype)

    def integer(self, value: int) -> str:
        """An integer of the same size in all lanes."""
        return self._filled(str(value), self.format.integers)

    def _filled(self, scalar: str, dtype: np.dtype) -> str:
        return scalar if self.lanes == 1 else vector(type_of(dtype), [scalar] * self.lanes)

    def of(self, operation: str, lhs: str, rhs: str) -> str:
        """An instruction on floats."""
        return self.builder.emit(f"{operation} {type_of(self.dtype, self.lanes)} {lhs}, {rhs}")

    def of_integers(self, operation: str, lhs: str, rhs: int | str) -> str:
        """An instruction on integers."""
        other = self.integer(rhs) if isinstance(rhs, int) else rhs
        kind = type_of(self.format.integers, self.lanes)
        return self.builder.emit(f"{operation} {kind} {lhs}, {other}")

    def fma(self, lhs: str, rhs: str, plus: str) -> str:
        """A product and a sum, rounded once where the processor can."""
        return self.function("fmuladd", lhs, rhs, plus)

    def function(self, name: str, *operands: str) -> str:
        """An intrinsic function of LLVM."""
        kind = type_of(self.dtype, self.lanes)
        typed = [(kind, operand) for operand in operands]
        return self.builder.call(f"llvm.{name}.{mangled(self.dtype, self.lanes)}", kind, *typed)

    def bits(self, operand: str) -> str:
        """The bits of floats as integers."""
        floats, integers = self._kinds()
        return self.builder.emit(f"bitcast {floats} {operand} to {integers}")

    def from_bits(self, operand: str) -> str:
        """The floats that have these bits."""
        floats, integers = self._kinds()
        return self.builder.emit(f"bitcast {integers} {operand} to {floats}")

    def _kinds(self) -> tuple[str, str]:
        return type_of(self.dtype, self.lanes), type_of(self.format.integers, self.lanes)

    def chosen(self, comparison: str, lhs: str, rhs: str, then: str, otherwise: str) -> str:
        """In each lane one of two values, by an ordered comparison, which no NaN fulfils."""
        kind = type_of(self.dtype, self.lanes)
        mask = self.of(f"fcmp {comparison}", lhs, rhs)
        bits = "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"
        return self.builder.emit(f"select {bits} {mask}, {kind} {then}, {kind} {otherwise}")

    def polynomial(self, coefficients: Sequence[float], at: str) -> str:
        """A polynomial by Horner's rule; the first coefficient is that of the highest power."""
        total = self.number(coefficients[0])
        for each in coefficients[1:]:
            total = self.fma(total, at, self.number(each))
        return total

    def scaled(self, operand: str, count: str, shifted: str) -> str:
        """Floats times two to the power of a whole number, `count`; `shifted` is it plus magic."""
        bits = 8 * self.dtype.itemsize * self.lanes
        if self.scales and (self.lanes == 1 or bits in (128, 256, 512)):
            return self._by_instruction(operand, count)
        # By two factors, since one may lie outside of the normal range.
        magic = _bits_of(self.format.magic, self.dtype)
        exponent = self.of_integers("sub", self.bits(shifted), magic)
        half = self.of_integers("ashr", exponent, 1)
        others = self.of_integers("sub", exponent, half)
        result = self.of("fmul", operand, self._power_of_two(half))
        return self.of("fmul", result, self._power_of_two(others))

    def _by_instruction(self, operand: str, count: str) -> str:
        """Scales by the instruction of AVX-512, a scalar as the first lane of a vector."""
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

    def _power_of_two(self, exponent: str) -> str:
        """Two to the power of integers, within the normal range."""
        biased = self.of_integers("add", exponent, self.format.bias)
        return self.from_bits(self.of_integers("shl", biased, self.format.fraction))


def exponential(on: Lanes, x: str) -> str:
    """exp: 2 to the power of an integer, times exp of what is left, at most half of ln 2."""
    facts = on.format
    least, most, magic = (on.number(n) for n in (facts.least, facts.most, facts.magic))
    x = on.chosen("ogt", x, most, most, x)
    x = on.chosen("olt", x, least, least, x)
    shifted = on.fma(x, on.number(1 / math.log(2)), magic)
    count = on.of("fsub", shifted, magic)
    r = on.fma(count, on.number(-facts.high), x)
    r = on.fma(count, on.number(-facts.low), r)
    return on.scaled(on.polynomial((*facts.exp, 1.0, 1.0), r), count, shifted)


def logarithm(on: Lanes, x: str) -> str:
    """log: an exponent times ln 2, plus the logarithm of a number between √½ and √2."""
    facts = on.format
    up, least = facts.fraction + 2, 2.0 ** (1 - facts.bias)
    normal = on.number(least)
    scaled = on.of("fmul", x, on.number(2.0**up))
    m = on.chosen("olt", x, normal, scaled, x)
    missing = on.chosen("olt", x, normal, on.number(-float(up)), on.number(0.0))
    root = _bits_of(math.sqrt(0.5), on.dtype)
    bits = on.of_integers("add", on.bits(m), _bits_of(1.0, on.dtype) - root)
    exponent = on.of_integers("sub", on.of_integers("lshr", bits, facts.fraction), facts.bias)
    inside = on.of_integers("and", bits, (1 << facts.fraction) - 1)
    m = on.from_bits(on.of_integers("add", inside, root))
    magic = on.number(facts.magic)
    moved = on.of_integers("add", exponent, _bits_of(facts.magic, on.dtype))
    count = on.of("fadd", on.of("fsub", on.from_bits(moved), magic), missing)
    f = on.of("fsub", m, on.number(1.0))
    s = on.of("fdiv", f, on.of("fadd", f, on.number(2.0)))
    squared = on.of("fmul", s, s)
    series = on.of("fmul", on.polynomial(facts.log, squared), squared)
    half = on.of("fmul", on.of("fmul", f, on.number(0.5)), f)
    small = on.of("fmul", s, on.of("fadd", half, series))
    low = on.fma(count, on.number(facts.low), small)
    rest = on.of("fsub", on.of("fsub", half, low), f)
    result = on.of("fsub", on.of("fmul", count, on.number(facts.high)), rest)
    zero, infinite = on.number(0.0), on.number(math.inf)
    result = on.chosen("oeq", x, infinite, x, result)
    beyond = on.chosen("oeq", x, zero, on.number(-math.inf), on.number(math.nan))
    return on.chosen("ogt", x, zero, result, beyond)


def hyperbolic_tangent(on: Lanes, x: str) -> str:
    """tanh: by exp of twice the argument, and near 0 by a quotient of polynomials."""
    over, under = on.format.tanh
    squared = on.of("fmul", x, x)
    rest = on.polynomial(over, squared)
    if under:
        rest = on.of("fdiv", rest, on.polynomial(under, squared))
    near = on.fma(on.of("fmul", rest, squared), x, x)
    size = on.function("fabs", x)
    grown = exponential(on, on.of("fadd", size, size))
    one = on.number(1.0)
    far = on.of("fdiv", on.number(2.0), on.of("fadd", grown, one))
    far = on.of("fsub", one, far)
    return on.function("copysign", on.chosen("olt", size, on.number(_FLAT), near, far), x)


ELEMENTARY: Mapping[str, Callable[[Lanes, str], str]] = {
    "exp": exponential,
    "log": logarithm,
    "tanh": hyperbolic_tangent,
}


def _bits_of(value: float, dtype: np.dtype) -> int:
    return int(np.array(value, dtype).view(f"i{dtype.itemsize}"))
