"""Simplified expressions: what they become, and that they have the same values."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mdtensor.lower.problem.simplify_expr import simplified, span_of
from mdtensor.translate.scalar import BOOL, Expr, apply, cast, const, equal, param, select
from mdtensor.translate.trees import evaluate
from tests.lower.random_scalars import Term, random_term

I4, I8, F8 = np.dtype("i4"), np.dtype("i8"), np.dtype("f8")
P, Q = param(0, I4), param(1, I4)
SAME = equal(P, Q)
LESS = apply("lt", P, Q)
ONE_IF_SAME = select(SAME, const(1, I8), const(0, I8))
ONE_IF_LESS = select(LESS, const(1, I8), const(0, I8))
CASES: dict[str, tuple[Expr, str]] = {
    "which choice it is": (equal(select(SAME, const(3, I4), const(4, I4)), const(3, I4)), "{same}"),
    "the other side": (
        equal(const(4, I4), select(SAME, const(3, I4), const(4, I4))),
        "not({same})",
    ),
    "out of a sum's span": (
        equal(select(SAME, const(9, I8), ONE_IF_SAME + ONE_IF_LESS), const(9, I8)),
        "{same}",
    ),
    "within a sum's span": (
        equal(ONE_IF_SAME + ONE_IF_LESS, const(2, I8)),
        "((select({same}, 1, 0) + select({less}, 1, 0)) == 2)",
    ),
    "constants": (equal(const(1, I4), const(2, I4)) | SAME, "{same}"),
    "a choice of conditions": (select(SAME, const(True, BOOL), LESS), "({same} | {less})"),
    "twice negated": (apply("not", apply("not", SAME)), "{same}"),
    "a condition twice": (SAME & SAME, "{same}"),
    "a sum in fewer bits": (
        cast(ONE_IF_SAME + ONE_IF_LESS, I4),
        "(select({same}, 1, 0) + select({less}, 1, 0))",
    ),
    "there and back": (cast(cast(P, I8), I4), "p0"),
    "choices around zero": (
        select(SAME, const(5, I4), const(-2, I4)) + select(LESS, const(1, I4), const(2, I4)),
        "(select({same}, 7, 0) + select({less}, -1, 0))",
    ),
    "equal choices": (select(SAME, P, P), "p0"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_simpler(name: str) -> None:
    expr, expected = CASES[name]
    assert repr(simplified(expr)) == expected.format(same="(p0 == p1)", less="(p0 < p1)")


@pytest.mark.parametrize("value", [-1, 0, 1, 2])
def test_spans_hold_all_values(value: int) -> None:
    total = ONE_IF_SAME + ONE_IF_LESS
    assert span_of(total) == (0, 2)
    assert span_of(total - total) == (-2, 2)
    assert evaluate(total, [np.array(0), np.array(value)]) in (0, 1, 2)


def test_what_does_not_fit_its_type_has_no_span() -> None:
    large = select(SAME, const(2**31 - 1, I4), const(0, I4))
    assert span_of(large) == (0, 2**31 - 1)
    assert span_of(Expr("add", (large, large), I4)) is None


def test_floats_are_compared_in_their_own_type() -> None:
    tenth = const(0.1, "f4")
    assert simplified(equal(tenth, const(float(np.float32(0.1)), "f4"))).value is True


def test_random_expressions_keep_their_values() -> None:
    changed = 0
    for seed in range(400):
        rng = random.Random(seed)
        leaves = [Term(param(n, dtype), 0, 3) for n, dtype in enumerate(("i4", "i8", "i2", "?"))]
        expr = random_term(rng, leaves, 6).expr
        draw = np.random.default_rng(seed)
        values = [draw.integers(0, 4, 50).astype(t) for t in ("i4", "i8", "i2")]
        values.append(draw.integers(0, 2, 50).astype(bool))
        simple = simplified(expr)
        changed += simple != expr
        assert simple.dtype == expr.dtype
        np.testing.assert_array_equal(evaluate(simple, values), evaluate(expr, values), str(seed))
    assert changed > 40
