"""Numbers that constants make: how many steps of which size they are, if that is known."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.lower.problem.fixed_point import LEAST, MOST, Steps, counted, steps_of
from mdtensor.translate.scalar import Expr, apply, cast, const, equal, index_of, param, select
from mdtensor.translate.trees import evaluate

F4, F8, I4, I8 = (np.dtype(name) for name in ("f4", "f8", "i4", "i8"))
SAME = [equal(param(2 * n, I4), param(2 * n + 1, I4)) for n in range(3)]


def weight(n: int, agree: float, differ: float, dtype: np.dtype = F8) -> Expr:
    return select(SAME[n], const(agree, dtype), const(differ, dtype))


KNOWN: dict[str, tuple[Expr, tuple[float, float, float]]] = {
    "a sum of weights": (weight(0, 9.5, -3.25) + weight(1, 6.125, -2), (0.125, -5.25, 15.625)),
    "a difference": (weight(0, 4, 0) - weight(1, 2, 1), (1, -2, 3)),
    "single precision": (weight(0, 0.5, -0.25, F4) + weight(1, 3, 2, F4), (0.25, 1.75, 3.5)),
    "an integer in float64": (cast(index_of("i"), F8) + weight(0, 0.5, 0), (0.5, 0, 9.5)),
    "a product of integers": (index_of("i") * const(3, I8), (1, 0, 27)),
    "conditions that are counted": (cast(SAME[0], I8) + cast(SAME[1], I8), (1, 0, 2)),
    "what float32 makes of a tenth": (const(0.1, F4), (2.0**-27, 0.10000000149011612, 0.1)),
}
UNKNOWN: dict[str, Expr] = {
    "rounded": weight(0, 2.0**60, 1) + weight(1, 0.5, 0.25),
    "rounded on the way": (weight(0, 2.0**54, 2.0**54) + weight(1, 0.5, 0.5)) - const(2.0**54, F8),
    "a parameter": weight(0, 1, 2) + param(7, F8),
    "infinite": weight(0, np.inf, 0),
    "infinite on the way": weight(0, 2.0**1023, 0) + const(2.0**1023, F8),
    "not a number": weight(0, np.nan, 0),
    "minus zero": weight(0, -0.0, 1),
    "a product of floats": weight(0, 1, 2) * weight(1, 1, 2),
    "cut off": cast(weight(0, 1.5, 2), I4),
    "unsigned": const(3, np.dtype("u4")),
    "half": weight(0, 1, 2, np.dtype("f2")),
}


@pytest.mark.parametrize("name", KNOWN)
def test_steps_and_how_many(name: str) -> None:
    expr, (size, low, high) = KNOWN[name]
    steps = steps_of(expr, {"i": 10})
    assert steps is not None
    assert (float(steps.size), float(steps.low)) == (size, low)
    assert float(steps.high) == pytest.approx(high)
    counts = counted(expr, steps.size)
    assert counts.dtype == I4
    draw = np.random.default_rng(0)
    values = [draw.integers(0, 2, 64) for _ in range(6)]
    index = {"i": np.arange(64) % 10}
    whole = evaluate(counts, values, index).astype(F8) * float(steps.size)
    exact = evaluate(expr, values, index)
    if expr.op == "const" and expr.dtype == F4:
        exact = np.float32(0.1).astype(F8)
    np.testing.assert_array_equal(whole, exact)


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_they_are_not_known(name: str) -> None:
    assert steps_of(UNKNOWN[name], {}) is None


def test_the_ends_of_int32_are_left_to_what_is_neutral() -> None:
    eighths = Steps(Fraction(1, 8), Fraction(-3), Fraction(5))
    assert eighths.fit()
    assert [eighths.number(v) for v in (-np.inf, np.inf, 0.25, -1e300)] == [LEAST, MOST, 2, LEAST]
    assert eighths.number(0.1) is eighths.number(np.nan) is eighths.number(-0.0) is None
    assert not Steps(Fraction(1), Fraction(0), Fraction(MOST)).fit()
    assert not Steps(Fraction(1), Fraction(LEAST), Fraction(0)).fit()


def test_operations_of_other_kinds_are_not_known() -> None:
    assert steps_of(apply("sin", weight(0, 1, 2)), {}) is None
