"""Elementary functions of all lanes of a vector at once, as polynomials in LLVM IR.

Arguments are reduced to a short interval. Of float32 and float64, all err by less than 1.5 units in
the last place (ulp) against the exact value, log by less than 1; where results are below the normal
range, in units of their own spacing. NaN, infinities, zeros and signs are those of C. One lane is
computed as many are, so that equal elements have equal results wherever they lie. Sines and cosines
of large numbers, whose remainder takes many digits of pi, are those of C's library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import constant, mangled, type_of, vector
from mdtensor.kernels.llvm.memory_access import packed
from mdtensor.lower.ir.register_types import F32, F64, I32, I64


@dataclass(frozen=True, slots=True)
class Format:
    """A type of floats: its integers, bits of fraction, exponent bias, and coefficients.

    `magic` rounds what is added to it to integers. `high` and `low` sum to ln 2; multiples of
    `high` are exact. Beyond `least` and `most` exp is 0 and infinite. Coefficients begin with that
    of the highest power: `exp` those of (exp(r) - 1 - r) / r², `log` those of fdlibm's remainder
    in even and odd powers, `tanh` numerator and denominator of (tanh(x) - x) / x³ by Cephes, `sin`
    those of (sin(r) - r) / r³ and `cos` of (cos(r) - 1 + r²/2) / r⁴ by Cephes and fdlibm, `erf`
    those of erf(x)/x - 1 in powers of x² up to 1, and of log(erfc(x)) in powers of x - 1 up to
    `beyond`, from where on erf is 1: both have the least largest error of erf among polynomials.
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
    sin: Sequence[float]
    cos: Sequence[float]
    erf: tuple[Sequence[float], Sequence[float]]
    beyond: float


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
        (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1),
        (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2),
        (
            (
                7.853729886292536e-05,
                -0.0008010149325651509,
                0.005188321710662034,
                -0.026853807806499798,
                0.11283585000117968,
                -0.37612625801631877,
                0.12837916572054378,
            ),
            (
                0.00018630927847462062,
                -0.0018290650936633331,
                0.00989491273498727,
                -0.041503060718055276,
                -0.8431177598851489,
                -2.6389668615571056,
                -1.8496055159859626,
            ),
        ),
        4.0,
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
        (
            1.58969099521155010221e-10,
            -2.50507602534068634195e-08,
            2.75573137070700676789e-06,
            -1.98412698298579493134e-04,
            8.33333333332248946124e-03,
            -1.66666666666666324348e-01,
        ),
        (
            -1.13596475577881948265e-11,
            2.08757232129817482790e-09,
            -2.75573143513906633035e-07,
            2.48015872894767294178e-05,
            -1.38888888888741095749e-03,
            4.16666666666666019037e-02,
        ),
        (
            (
                -7.78056768917617e-10,
                1.3711577058239808e-08,
                -1.6206453376531062e-07,
                1.6447149995349487e-06,
                -1.492471380779363e-05,
                0.0001205529365570266,
                -0.0008548325931952063,
                0.005223977606173215,
                -0.026866170643118047,
                0.11283791670944225,
                -0.3761263890318352,
                0.12837916709551256,
            ),
            (
                1.046505635164903e-12,
                -2.8993075050852236e-11,
                3.70170331580702e-10,
                -2.8764979102337978e-09,
                1.4965408755399156e-08,
                -5.2203080638738394e-08,
                9.791620621933645e-08,
                1.4226475724210772e-07,
                -2.0590170340234703e-06,
                9.608203643364856e-06,
                -2.7158636322640372e-05,
                2.6277638321285832e-05,
                0.00023732256503650453,
                -0.001977902588019995,
                0.010033825377507265,
                -0.041561098042085194,
                -0.8431072563586648,
                -2.6389675142347886,
                -1.8496055099332482,
            ),
        ),
        6.0,
    ),
}
# pi/2 as the sum of three numbers, of which whole multiples of up to 20 bits are exact but for the
# last one's; and the argument from which on the library computes sines.
_HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
_MUCH = 2.0**20
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
        return self.builder.emit(f"select {self.bools} {mask}, {kind} {then}, {kind} {otherwise}")

    @property
    def bools(self) -> str:
        """The type of comparisons."""
        return "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"

    def any(self, mask: str) -> str:
        """Whether a comparison holds in any lane."""
        if self.lanes == 1:
            return mask
        name = f"llvm.vector.reduce.or.v{self.lanes}i1"
        return self.builder.call(name, "i1", (self.bools, mask))

    def converted(self, operation: str, operand: str, dtype: np.dtype) -> str:
        """The floats in another type, by `fpext` or `fptrunc`."""
        kind, other = type_of(self.dtype, self.lanes), type_of(dtype, self.lanes)
        return self.builder.emit(f"{operation} {kind} {operand} to {other}")

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
        result = self.of("fmul", operand, self.power_of_two(half))
        return self.of("fmul", result, self.power_of_two(others))

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

    def power_of_two(self, exponent: str) -> str:
        """Two to the power of integers, within the normal range."""
        biased = self.of_integers("add", exponent, self.format.bias)
        return self.from_bits(self.of_integers("shl", biased, self.format.fraction))


def by_library(
    builder: FunctionBuilder, name: str, dtype: np.dtype, lanes: int, args: Sequence[str]
) -> str:
    """A function of C's mathematical library, one lane after the other."""
    function, element = name + ("f" if dtype == F32 else ""), type_of(dtype)
    if lanes == 1:
        return builder.call(function, element, *((element, arg) for arg in args))
    kind, parts = type_of(dtype, lanes), list[str]()
    for lane in range(lanes):
        taken = [builder.emit(f"extractelement {kind} {arg}, i32 {lane}") for arg in args]
        parts.append(builder.call(function, element, *((element, arg) for arg in taken)))
    return packed(builder, parts, dtype, lanes)


def _parts_of_exponent(on: Lanes, x: str, least: float) -> tuple[str, str, str]:
    """A whole number of ln 2, as it is and plus magic, and what is left of an exponent."""
    facts = on.format
    magic, most, lowest = (on.number(n) for n in (facts.magic, facts.most, least))
    x = on.chosen("ogt", x, most, most, x)
    x = on.chosen("olt", x, lowest, lowest, x)
    shifted = on.fma(x, on.number(1 / math.log(2)), magic)
    count = on.of("fsub", shifted, magic)
    r = on.fma(count, on.number(-facts.high), x)
    return count, shifted, on.fma(count, on.number(-facts.low), r)


def exponential(on: Lanes, x: str) -> str:
    """exp: 2 to the power of an integer, times exp of what is left, at most half of ln 2."""
    facts = on.format
    count, shifted, r = _parts_of_exponent(on, x, facts.least)
    return on.scaled(on.polynomial((*facts.exp, 1.0, 1.0), r), count, shifted)


def exponential_less_one(on: Lanes, x: str) -> str:
    """expm1: twice the sum of 2^(n-1) times that of what is left, and 2^(n-1) - 1/2.

    Where n is 1, these have different signs and are added up before anything is rounded.
    """
    facts = on.format
    # Below, the result is -1.
    count, shifted, r = _parts_of_exponent(on, x, -(facts.fraction + 3) * math.log(2))
    half, one = on.number(0.5), on.number(1.0)
    is_one = on.of("fcmp oeq", count, one)
    kind = type_of(on.dtype, on.lanes)
    moved = on.of("fadd", r, half)
    first = on.builder.emit(f"select {on.bools} {is_one}, {kind} {moved}, {kind} {r}")
    rest = on.fma(on.polynomial(facts.exp, r), on.of("fmul", r, r), first)
    exponent = on.of_integers("sub", on.bits(shifted), _bits_of(facts.magic, on.dtype) + 1)
    power = on.power_of_two(exponent)
    total = on.fma(rest, power, on.of("fsub", power, half))
    total = on.builder.emit(f"select {on.bools} {is_one}, {kind} {rest}, {kind} {total}")
    return on.function("copysign", on.of("fadd", total, total), x)


def logarithm(on: Lanes, x: str, correction: str = "") -> str:
    """log: an exponent times ln 2, plus the logarithm of a number between √½ and √2.

    A small `correction` is added to what is rounded last.
    """
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
    low = on.of("fadd", low, correction) if correction else low
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


def logarithm_of_more(on: Lanes, x: str) -> str:
    """log1p: the logarithm of 1 + x, corrected by what that sum was rounded by."""
    one = on.number(1.0)
    total = on.of("fadd", x, one)
    missing = on.of("fsub", x, on.of("fsub", total, one))
    result = logarithm(on, total, on.of("fdiv", missing, total))
    return on.function("copysign", result, x)


def error_function(on: Lanes, x: str) -> str:
    """erf: a polynomial up to 1, and 1 less exp of another one from there on."""
    near, far = on.format.erf
    one, beyond, size = on.number(1.0), on.number(on.format.beyond), on.function("fabs", x)
    small = on.fma(x, on.polynomial(near, on.of("fmul", x, x)), x)
    bounded = on.chosen("ogt", size, beyond, beyond, size)
    of_rest = on.polynomial(far, on.of("fsub", bounded, one))
    large = on.of("fsub", one, exponential(on, of_rest))
    return on.chosen("olt", size, one, small, on.function("copysign", large, x))


def _quarters(on: Lanes, x: str) -> tuple[str, str, str]:
    """How many quarters of a turn an angle has, as bits, and what is left in two parts."""
    if on.dtype == F32:  # whose angles are reduced as doubles
        wide = replace(on, dtype=F64)
        count, left, _ = _quarters(wide, on.converted("fpext", x, F64))
        kinds = type_of(I64, on.lanes), type_of(I32, on.lanes)
        count = on.builder.emit(f"trunc {kinds[0]} {count} to {kinds[1]}")
        r = wide.converted("fptrunc", left, F32)
        lost = wide.of("fsub", left, on.converted("fpext", r, F64))
        return count, r, wide.converted("fptrunc", lost, F32)
    magic, (high, middle, low) = on.number(on.format.magic), _HALF_PI
    shifted = on.fma(x, on.number(2 / math.pi), magic)
    count = on.of("fsub", shifted, magic)
    first = on.fma(count, on.number(-high), x)
    second = on.of("fmul", count, on.number(middle))
    left = on.of("fsub", first, second)
    taken = on.of("fsub", left, first)
    lost = on.of(
        "fsub", on.of("fsub", first, on.of("fsub", left, taken)), on.of("fadd", second, taken)
    )
    lost = on.fma(count, on.number(-low), lost)
    total = on.of("fadd", left, lost)
    return on.bits(shifted), total, on.of("fadd", on.of("fsub", left, total), lost)


def _sine_and_cosine(on: Lanes, r: str, rest: str) -> tuple[str, str]:
    """Of an angle of at most an eighth of a turn, in two parts."""
    facts, one, half = on.format, on.number(1.0), on.number(0.5)
    squared = on.of("fmul", r, r)
    halved = on.of("fmul", half, squared)
    near_one = on.of("fsub", one, halved)
    lost = on.of("fsub", on.of("fsub", one, near_one), halved)
    of_cos = on.of("fmul", squared, on.polynomial(facts.cos, squared))
    added = on.of("fsub", on.of("fmul", squared, of_cos), on.of("fmul", r, rest))
    cosine = on.of("fadd", near_one, on.of("fadd", lost, added))
    if on.dtype == F32:
        bent = on.of("fmul", on.polynomial(facts.sin, squared), squared)
        return on.of("fadd", r, on.fma(bent, r, rest)), cosine
    *others, third = facts.sin
    cubed = on.of("fmul", squared, r)
    inner = on.of("fmul", half, rest)
    inner = on.of("fsub", inner, on.of("fmul", cubed, on.polynomial(others, squared)))
    inner = on.of("fsub", on.of("fmul", squared, inner), rest)
    return on.of("fsub", r, on.of("fsub", inner, on.of("fmul", cubed, on.number(third)))), cosine


def _of_angle(on: Lanes, x: str, name: str) -> str:
    """The sine or the cosine: of what is left of an angle, by its quarters of a turn."""
    count, r, rest = _quarters(on, x)
    sine, cosine = _sine_and_cosine(on, r, rest)
    if name == "cos":
        count = on.of_integers("add", count, 1)
    builder, kind = on.builder, type_of(on.dtype, on.lanes)
    is_odd = on.of_integers("icmp ne", on.of_integers("and", count, 1), 0)
    # A turn of a quarter more makes a cosine a sine.
    found = builder.emit(f"select {on.bools} {is_odd}, {kind} {cosine}, {kind} {sine}")
    sign = on.of_integers("shl", on.of_integers("lshr", count, 1), 8 * on.dtype.itemsize - 1)
    found = on.from_bits(on.of_integers("xor", on.bits(found), sign))
    if name == "sin":
        found = on.chosen("oeq", x, on.number(0.0), x, found)
    is_large = on.of("fcmp ogt", on.function("fabs", x), on.number(_MUCH))
    place, large, done = builder.stack(kind), builder.name("large"), builder.name("done")
    builder.do(f"store {kind} {found}, ptr {place}")
    builder.branch(on.any(is_large), large, done)
    builder.begin(large)
    exact = by_library(builder, name, on.dtype, on.lanes, [x])
    either = builder.emit(f"select {on.bools} {is_large}, {kind} {exact}, {kind} {found}")
    builder.do(f"store {kind} {either}, ptr {place}")
    builder.jump(done)
    builder.begin(done)
    return builder.emit(f"load {kind}, ptr {place}")


def sine(on: Lanes, x: str) -> str:
    """sin, of large numbers by the library."""
    return _of_angle(on, x, "sin")


def cosine(on: Lanes, x: str) -> str:
    """cos, of large numbers by the library."""
    return _of_angle(on, x, "cos")


ELEMENTARY: Mapping[str, Callable[[Lanes, str], str]] = {
    "exp": exponential,
    "log": logarithm,
    "tanh": hyperbolic_tangent,
    "expm1": exponential_less_one,
    "log1p": logarithm_of_more,
    "erf": error_function,
    "sin": sine,
    "cos": cosine,
}


def _bits_of(value: float, dtype: np.dtype) -> int:
    return int(np.array(value, dtype).view(f"i{dtype.itemsize}"))
