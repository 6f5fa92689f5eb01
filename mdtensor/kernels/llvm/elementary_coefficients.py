"""Polynomial coefficients of elementary functions, and their ranges, by float type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.register_types import F32, F64, I32, I64


@dataclass(frozen=True, slots=True)
class Format:
    """A float type: its integer type, fraction bits, exponent bias, and coefficients.

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


FORMATS: Mapping[np.dtype, Format] = {
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
HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
MUCH = 2.0**20
# By base and type: 1 over the base's logarithm, and the logarithm of 2 to it, in two parts each.
# Whole multiples of the first parts are exact, as are those of numbers without their lower bits.
LOWER_BITS: Mapping[np.dtype, int] = {F32: 12, F64: 32}
OF_BASES: Mapping[int, Mapping[np.dtype, tuple[float, float, float, float]]] = {
    2: {
        F32: (1.4428710938e00, -1.7605285393e-04, 1.0, 0.0),
        F64: (1.44269504072144627571e00, 1.67517131648865118353e-10, 1.0, 0.0),
    },
    10: {
        F32: (4.3432617188e-01, -3.1689971365e-05, 3.0102920532e-01, 7.9034151668e-07),
        F64: (
            4.34294481878168880939e-01,
            2.50829467116452752298e-11,
            3.01029995663611771306e-01,
            3.69423907715893078616e-13,
        ),
    },
}
