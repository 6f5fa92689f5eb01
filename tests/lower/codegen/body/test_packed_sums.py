"""Sums under the same conditions, packed into one: which they are, and that values stay."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from mdtensor.lower.codegen.body.packed_sums import with_packed_sums
from mdtensor.translate.scalar import Expr, apply, const, equal, param, select
from mdtensor.translate.trees import evaluate, nodes

CONDITIONS = [equal(param(n, "i4"), const(1, "i4")) for n in range(3)]


def total(constants: Sequence[int], dtype: str = "i4", skipped: int = 0) -> Expr:
    terms = [
        select(condition, const(value, dtype), const(0, dtype))
        for condition, value in zip(CONDITIONS[skipped:], constants, strict=True)
    ]
    result = terms[0]
    for term in terms[1:]:
        result = apply("add", result, term)
    return result


def is_packed(exprs: Sequence[Expr]) -> bool:
    return any(node.op == "rshift" for each in with_packed_sums(exprs) for node in nodes(each))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 1, 1), (102, -71, 46)),
        ((102, -71, 46), (1, 1, 1)),
        ((0, 0, 0), (-(2**15), 0, 0)),
        ((2**16 - 1, 0, 0), (2**15 - 1, 0, 0)),
        ((30_000, 30_000, 5_535), (-30_000, -2_768, 32_767)),
    ],
)
def test_values_stay(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    exprs = [apply("add", total(one), const(-170, "i4")), total(other)]
    packed = with_packed_sums(exprs)
    assert is_packed(exprs)
    for bits in itertools.product((0, 1), repeat=3):
        operands = [np.int32(bit) for bit in bits]
        for before, after in zip(exprs, packed, strict=True):
            assert evaluate(before, operands) == evaluate(after, operands)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 1, -1), (102, -71, 46)),  # neither is never negative
        ((2**15, 2**15, 0), (-(2**16), 0, 1)),  # beyond halves
        ((1, 1, 1), (2**16, 0, 0)),
    ],
)
def test_what_has_no_half_to_fit_in_stays(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    exprs = (total(one), total(other))
    assert with_packed_sums(exprs) == exprs


def test_other_conditions_or_types_are_not_packed() -> None:
    assert not is_packed([total((1, 1, 1)), total((1, 2), skipped=1)])
    assert not is_packed([total((1, 1, 1)), total((1, 2, 3), "i8")])
    assert not is_packed([total((1, 1, 1), "i2"), total((1, 2, 3), "i2")])
    assert is_packed([total((1, 1, 1), "i8"), total((1, 2, 3), "i8")])
