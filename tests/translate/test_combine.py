from __future__ import annotations

import numpy as np
import pytest

from mdtensor.errors import TranslationError
from mdtensor.translate.combine import Operator, named
from mdtensor.translate.scalar import param
from tests.cases import COMPLEXES, DTYPES, INTS, values

FUNCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
PAIRS = [
    (name, dtype)
    for name in FUNCTIONS
    for dtype in DTYPES
    if (name not in ("min", "max") or dtype not in COMPLEXES)
    and (name in ("add", "mul", "min", "max") or dtype in (*INTS, "bool"))
]


@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_named_operators_are_numpys(name: str, dtype: str) -> None:
    op = named(name, [dtype])
    lhs, rhs = (values(np.random.default_rng(seed), (9,), dtype) for seed in (1, 2))
    (result,) = op([lhs], [rhs])
    np.testing.assert_allclose(
        result, FUNCTIONS[name](lhs, rhs), rtol=2e-3 if "16" in dtype else 1e-6
    )


@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_the_identity_changes_nothing(name: str, dtype: str) -> None:
    op = named(name, [dtype])
    assert op.identity is not None
    x = values(np.random.default_rng(0), (9,), dtype)
    neutral = np.full(9, op.identity[0], dtype)
    for result in (op([x], [neutral]), op([neutral], [x])):
        np.testing.assert_array_equal(result[0].astype(dtype), x)


def test_a_tuple_is_combined_element_by_element() -> None:
    total, truth = named("add", ["i4", "?"])([np.int32(2), np.True_], [np.int32(3), np.False_])
    assert (total, truth) == (5, True)


def test_wrong_operators() -> None:
    f4 = np.dtype(np.float32)
    with pytest.raises(
        TranslationError, match=r"^unknown operator 'plus'\n  hint: one of add, mul"
    ):
        named("plus", ["f4"])
    with pytest.raises(TranslationError, match=r"^complex numbers have no order"):
        named("max", ["c8"])
    with pytest.raises(TranslationError, match=r"^operator 'op' returns 2 values for tuples of 1$"):
        Operator((f4,), (param(0, f4), param(1, f4)), None)
    with pytest.raises(TranslationError, match=r"^the identity of operator 'op' has 2 values"):
        Operator((f4,), (param(0, f4),), (0, 0))
