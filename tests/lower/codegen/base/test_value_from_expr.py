"""Values of scalar expressions, and how they are combined."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.lower.codegen.base.value_from_expr import combined
from mdtensor.lower.ir.register_types import F32
from mdtensor.lower.ir.values import Calc, Ref
from mdtensor.translate.combine import named


def vector(label: str, lanes: int = 8, dtype: np.dtype = F32) -> Ref:
    return Ref(label, dtype, lanes)


def products(op: str, lanes: int = 8, dtype: np.dtype = F32) -> Calc:
    """A sum or a difference of two products."""
    a, b, c, d = (vector(label, lanes, dtype) for label in "abcd")
    ab, cd = (Calc("mul", pair, dtype, lanes) for pair in ((a, b), (c, d)))
    return Calc(op, (ab, cd), dtype, lanes)


@pytest.mark.parametrize("op", ["add", "sub"])
def test_two_products_are_added_term_by_term(op: str):
    total, added = vector("x"), products(op)
    (found,) = combined(named("add", [F32]), [total], [added])
    first, second = added.args
    assert found == Calc(op, (Calc("add", (total, first), F32, 8), second), F32, 8)


@pytest.mark.parametrize(
    ("total", "added"),
    [
        (vector("x"), products("mul")),
        (vector("x"), vector("y")),
        (vector("x"), products("sub", lanes=1)),
        (vector("x", dtype=np.dtype("i4")), products("sub", dtype=np.dtype("i4"))),
    ],
    ids=("no sum", "a variable", "the same on all lanes", "integers"),
)
def test_what_else_is_added_is_added_at_once(total: Ref, added: Calc | Ref):
    (found,) = combined(named("add", [total.dtype]), [total], [added])
    assert found == Calc("add", (total, added), total.dtype, 8)


def test_extremes_take_differences_as_they_are():
    (found,) = combined(named("max", [F32]), [vector("x")], [products("sub")])
    assert found == Calc("max", (vector("x"), products("sub")), F32, 8)
