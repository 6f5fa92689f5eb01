from __future__ import annotations

import numpy as np
import pytest

from mdtensor.errors import TranslationError
from mdtensor.translate.scalar import (
    Expr,
    apply,
    cast,
    const,
    evaluate,
    index_of,
    param,
    product,
    select,
    substitute,
    wide,
)

A, B = param(0, "f4"), param(1, "f4")


@pytest.mark.parametrize(
    ("expr", "printed", "value"),
    [
        (A * B + 1, "((p0 * p1) + 1)", 13.0),
        (2 - A / B, "(2 - (p0 / p1))", 1.25),
        (-A, "neg(p0)", -3.0),
        (select(A < B, A, 0.0), "select((p0 < p1), p0, 0.0)", 3.0),
        (apply("min", A, B), "min(p0, p1)", 3.0),
        (apply("sqrt", B), "sqrt(p1)", 2.0),
        (cast(A, "f4"), "p0", 3.0),
        (cast(A, "i4") / 2, "(float64(int32(p0)) / float64(2))", 1.5),
        (A + index_of("i"), "(float64(p0) + float64(i))", 8.0),
        (A.__radd__(1), "(1 + p0)", 4.0),
        (1 * A, "(1 * p0)", 3.0),
        (1 / B, "(1 / p1)", 0.25),
        (apply("not", A >= B), "not((p0 >= p1))", True),
        (apply("eq", A, B), "(p0 == p1)", False),
        (apply("real", cast(A, "c8")), "real(complex64(p0))", 3.0),
    ],
)
def test_expressions_print_and_evaluate(expr: Expr, printed: str, value: float) -> None:
    assert repr(expr) == printed
    result = evaluate(expr, [np.float32(3), np.float32(4)], {"i": np.int64(5)})
    assert result == value
    assert result.dtype == wide(expr.dtype)


def test_integers_stay_in_their_type() -> None:
    a = param(0, "u1")
    assert (a + 1).dtype == np.uint8
    assert evaluate(a + 1, [np.uint8(255)]) == 0


def test_bits() -> None:
    a, b = param(0, "i4"), param(1, "i4")
    pair = [np.int32(12), np.int32(10)]
    assert [evaluate(e, pair) for e in (a & b, a | b, a ^ b)] == [8, 14, 6]


def test_common_types_are_numpys() -> None:
    assert (param(0, "i4") * param(1, "f4")).dtype == np.float64
    assert (param(0, "c8") + 1.5).dtype == np.complex64


def test_casts_of_complex_and_huge_values_are_silent() -> None:
    z = cast(cast(param(0, "c8"), "f4"), "i1")
    assert evaluate(z, [np.complex64(3 + 4j)]) == 3
    assert evaluate(cast(param(0, "c8"), "?"), [np.complex64(4j)])


def test_substitute_replaces_parameters() -> None:
    assert repr(substitute(A * B + 1, [B, const(2, "f4")])) == "((p1 * 2) + 1)"


def test_product_of_booleans_is_and() -> None:
    assert repr(product(["?", "i4"], "?").results[0]) == "(p0 & bool(p1))"


def test_misuse_is_explained() -> None:
    with pytest.raises(TranslationError, match=r"hint: use mdtensor's select"):
        bool(A < B)
    with pytest.raises(TranslationError, match=r"^operation 'add' does not take 1 operands$"):
        apply("add", A)
    with pytest.raises(TranslationError, match=r"^operation 'add' has no operand of known type$"):
        apply("add", 1, 2)
