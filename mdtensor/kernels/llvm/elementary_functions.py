"""Vectorised elementary functions, as polynomials in LLVM IR.

Arguments are reduced to a short interval. Of float32 and float64, all err by less than 1.5 units in
the last place (ulp) against the exact value, log by less than 1; where results are below the normal
range, in units of their own spacing. NaN, infinities, zeros and signs are those of C. One lane is
computed as many are, so that equal elements have equal results wherever they lie. Sines and cosines
of large numbers, whose remainder takes many digits of pi, are those of C's library, and powers of
float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from mdtensor.kernels.llvm.elementary_coefficients import HALF_PI, LOWER_BITS, MUCH, OF_BASES
from mdtensor.kernels.llvm.float_lanes import Lanes, bits_of, by_library
from mdtensor.kernels.llvm.llvm_types import type_of
from mdtensor.lower.ir.register_types import F32, F64, I32, I64

# From here on, tanh is computed by exp.
_FLAT = 0.625


def _parts_of_exponent(on: Lanes, x: str, least: float) -> tuple[str, str, str]:
    """Range reduction of exp: n = round(x / ln 2), also plus `magic`, and the remainder."""
    facts = on.format
    magic, most, lowest = (on.number(n) for n in (facts.magic, facts.most, least))
    x = on.chosen("ogt", x, most, most, x)
    x = on.chosen("olt", x, lowest, lowest, x)
    shifted = on.fma(x, on.number(1 / math.log(2)), magic)
    count = on.of("fsub", shifted, magic)
    r = on.fma(count, on.number(-facts.high), x)
    return count, shifted, on.fma(count, on.number(-facts.low), r)


def exponential(on: Lanes, x: str) -> str:
    """exp: 2^n times exp of the reduced argument, which is at most ln 2 / 2 in size."""
    facts = on.format
    count, shifted, r = _parts_of_exponent(on, x, facts.least)
    return on.scaled(on.polynomial((*facts.exp, 1.0, 1.0), r), count, shifted)


def exponential_less_one(on: Lanes, x: str) -> str:
    """expm1: 2 (2^(n-1) expm1(r) + (2^(n-1) - 1/2)), for the reduced argument r.

    For n = 1, r and 1/2 may have opposite signs, and are added before anything is rounded.
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
    exponent = on.of_integers("sub", on.bits(shifted), bits_of(facts.magic, on.dtype) + 1)
    power = on.power_of_two(exponent)
    total = on.fma(rest, power, on.of("fsub", power, half))
    total = on.builder.emit(f"select {on.bools} {is_one}, {kind} {rest}, {kind} {total}")
    return on.function("copysign", on.of("fadd", total, total), x)


def _parts_of_number(on: Lanes, x: str) -> tuple[str, str, str, str]:
    """Range reduction of log: the exponent, the fraction from √½ to √2 less 1, and two terms.

    The fraction's logarithm is the fraction less 1, less the first term, plus the second one.
    """
    facts = on.format
    up, least = facts.fraction + 2, 2.0 ** (1 - facts.bias)
    normal = on.number(least)
    scaled = on.of("fmul", x, on.number(2.0**up))
    m = on.chosen("olt", x, normal, scaled, x)
    missing = on.chosen("olt", x, normal, on.number(-float(up)), on.number(0.0))
    root = bits_of(math.sqrt(0.5), on.dtype)
    bits = on.of_integers("add", on.bits(m), bits_of(1.0, on.dtype) - root)
    exponent = on.of_integers("sub", on.of_integers("lshr", bits, facts.fraction), facts.bias)
    inside = on.of_integers("and", bits, (1 << facts.fraction) - 1)
    m = on.from_bits(on.of_integers("add", inside, root))
    magic = on.number(facts.magic)
    moved = on.of_integers("add", exponent, bits_of(facts.magic, on.dtype))
    count = on.of("fadd", on.of("fsub", on.from_bits(moved), magic), missing)
    f = on.of("fsub", m, on.number(1.0))
    s = on.of("fdiv", f, on.of("fadd", f, on.number(2.0)))
    squared = on.of("fmul", s, s)
    series = on.of("fmul", on.polynomial(facts.log, squared), squared)
    half = on.of("fmul", on.of("fmul", f, on.number(0.5)), f)
    return count, f, half, on.of("fmul", s, on.of("fadd", half, series))


def _where_defined(on: Lanes, x: str, result: str) -> str:
    """A logarithm with its special cases: -inf at 0, NaN below, infinity at infinity."""
    zero, infinite = on.number(0.0), on.number(math.inf)
    result = on.chosen("oeq", x, infinite, x, result)
    beyond = on.chosen("oeq", x, zero, on.number(-math.inf), on.number(math.nan))
    return on.chosen("ogt", x, zero, result, beyond)


def logarithm(on: Lanes, x: str, correction: str = "") -> str:
    """log: an exponent times ln 2, plus the logarithm of a number between √½ and √2.

    A small `correction` is added to what is rounded last.
    """
    facts = on.format
    count, f, half, small = _parts_of_number(on, x)
    low = on.fma(count, on.number(facts.low), small)
    low = on.of("fadd", low, correction) if correction else low
    rest = on.of("fsub", on.of("fsub", half, low), f)
    return _where_defined(on, x, on.of("fsub", on.of("fmul", count, on.number(facts.high)), rest))


def _logarithm_to(base: int) -> Callable[[Lanes, str], str]:
    """A logarithm to a base: the fraction's part over the base's log, plus the exponent's.

    Products of the upper bits of the fraction are exact, as in fdlibm.
    """

    def logarithm_to(on: Lanes, x: str) -> str:
        high, low, *of_exponent = OF_BASES[base][on.dtype]
        count, f, half, small = _parts_of_number(on, x)
        upper = on.from_bits(on.of_integers("and", on.bits(f), -1 << LOWER_BITS[on.dtype]))
        rest = on.of("fadd", on.of("fsub", f, upper), on.of("fsub", small, half))
        tail = on.fma(upper, on.number(low), on.of("fmul", rest, on.number(high + low)))
        tail = on.fma(count, on.number(of_exponent[1]), tail)
        total = on.of("fadd", on.of("fmul", upper, on.number(high)), tail)
        return _where_defined(on, x, on.fma(count, on.number(of_exponent[0]), total))

    return logarithm_to


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
    """log1p: the logarithm of 1 + x, corrected by that sum's rounding error."""
    one = on.number(1.0)
    total = on.of("fadd", x, one)
    missing = on.of("fsub", x, on.of("fsub", total, one))
    result = logarithm(on, total, on.of("fdiv", missing, total))
    return on.function("copysign", result, x)


def error_function(on: Lanes, x: str) -> str:
    """erf: a polynomial for |x| < 1, and 1 - exp of another polynomial beyond."""
    near, far = on.format.erf
    one, beyond, size = on.number(1.0), on.number(on.format.beyond), on.function("fabs", x)
    small = on.fma(x, on.polynomial(near, on.of("fmul", x, x)), x)
    bounded = on.chosen("ogt", size, beyond, beyond, size)
    of_rest = on.polynomial(far, on.of("fsub", bounded, one))
    large = on.of("fsub", one, exponential(on, of_rest))
    return on.chosen("olt", size, one, small, on.function("copysign", large, x))


def _quarters(on: Lanes, x: str) -> tuple[str, str, str]:
    """Range reduction by pi/2: the quadrant's bits, and the remainder as a sum of two floats."""
    if on.dtype == F32:  # whose angles are reduced as doubles
        wide = replace(on, dtype=F64)
        count, left, _ = _quarters(wide, on.converted("fpext", x, F64))
        kinds = type_of(I64, on.lanes), type_of(I32, on.lanes)
        count = on.builder.emit(f"trunc {kinds[0]} {count} to {kinds[1]}")
        r = wide.converted("fptrunc", left, F32)
        lost = wide.of("fsub", left, on.converted("fpext", r, F64))
        return count, r, wide.converted("fptrunc", lost, F32)
    magic, (high, middle, low) = on.number(on.format.magic), HALF_PI
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
    """Sine and cosine of a reduced angle, at most pi/4 in size, given as a sum of two floats."""
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
    """The sine or cosine of an angle, by its quadrant and the reduced angle."""
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
    is_large = on.of("fcmp ogt", on.function("fabs", x), on.number(MUCH))
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
    """sin; the library's for large numbers."""
    return _of_angle(on, x, "sin")


def cosine(on: Lanes, x: str) -> str:
    """cos; the library's for large numbers."""
    return _of_angle(on, x, "cos")


def power(on: Lanes, x: str, y: str) -> str:
    """pow: for float32 exp(y log(x)) in float64; for float64 the library's.

    Negative bases have integral powers only, of which odd ones keep the sign.
    """
    if on.dtype == F64:
        return by_library(on.builder, "pow", F64, on.lanes, [x, y])
    wide, builder, kind = replace(on, dtype=F64), on.builder, type_of(on.dtype, on.lanes)
    zero, one, half, infinite = (on.number(n) for n in (0.0, 1.0, 0.5, math.inf))
    size = on.function("fabs", x)
    grown = logarithm(wide, on.converted("fpext", size, F64))
    grown = wide.of("fmul", grown, on.converted("fpext", y, F64))
    result = wide.converted("fptrunc", exponential(wide, grown), F32)

    def both(first: str, second: str) -> str:
        return builder.emit(f"and {on.bools} {first}, {second}")

    def where(mask: str, then: str, otherwise: str) -> str:
        return builder.emit(f"select {on.bools} {mask}, {kind} {then}, {kind} {otherwise}")

    halved = on.of("fmul", y, half)
    is_odd = both(
        on.of("fcmp oeq", on.function("trunc", y), y),
        on.of("fcmp one", on.function("trunc", halved), halved),
    )
    result = where(is_odd, on.function("copysign", result, x), result)
    is_broken = on.of("fcmp one", on.function("trunc", y), y)
    is_negative = both(on.of("fcmp olt", x, zero), on.of("fcmp olt", size, infinite))
    result = where(both(is_negative, is_broken), on.number(math.nan), result)
    is_endless = on.of("fcmp oeq", on.function("fabs", y), infinite)
    result = where(both(on.of("fcmp oeq", size, one), is_endless), one, result)
    result = on.chosen("oeq", y, zero, one, result)
    return on.chosen("oeq", x, one, one, result)


ELEMENTARY: Mapping[str, Callable[..., str]] = {
    "exp": exponential,
    "log": logarithm,
    "log2": _logarithm_to(2),
    "log10": _logarithm_to(10),
    "tanh": hyperbolic_tangent,
    "expm1": exponential_less_one,
    "log1p": logarithm_of_more,
    "erf": error_function,
    "sin": sine,
    "cos": cosine,
    "pow": power,
}
