"""Calls that a function makes one after the other, as one computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.calls import program_calls
from mdtensor.api.frameworks.torch_graphs.joined_calls import joined
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec

SPECS = (TensorSpec.of((3, 4), "f8"), TensorSpec.of((4, 5), "f8"))


def two(a: Any, b: Any) -> tuple[Any, ...]:
    product = mdt.einsum("ij,jk->ik", a, b)
    return mdt.reduce("ik->i", product, combine="max"), product


def test_later_calls_read_what_earlier_ones_gave() -> None:
    found = joined(two, SPECS)
    assert [spec.shape for spec in found.results] == [(3,), (3, 5)]
    assert len(found.steps) == 2
    a, b = np.random.default_rng(1).standard_normal((2, 4, 5))
    results = program_calls.call("joined", (a[:3, :4].copy(), b), lambda specs: joined(two, specs))
    product = a[:3, :4] @ b
    np.testing.assert_allclose(results[1], product, rtol=1e-13)
    np.testing.assert_allclose(results[0], product.max(1), rtol=1e-13)


def test_what_is_more_than_calls_is_refused() -> None:
    def changes(a: Any, b: Any) -> tuple[Any, ...]:
        return (mdt.einsum("ij->i", a + 1),)

    def returns_an_operand(a: Any, b: Any) -> tuple[Any, ...]:
        return mdt.einsum("ij,jk->ik", a, b), a

    with pytest.raises(TranslationError, match="neither an operand nor what a call computed"):
        joined(changes, SPECS)
    with pytest.raises(TranslationError, match="a result is an operand"):
        joined(returns_an_operand, SPECS)
    with pytest.raises(TranslationError, match="given twice"):
        joined(lambda a, b: (two(a, b)[1],) * 2, SPECS)
