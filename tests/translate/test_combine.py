from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mdtensor.errors import DTypeError, TranslationError
from mdtensor.translate.combine import Operator, named, operator_from_function
from mdtensor.translate.scalar import param, select
from tests.cases import COMPLEXES, DTYPES, FLOATS, INTS, values

FUNCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "logaddexp": np.logaddexp,
}
PAIRS = [
    (name, dtype)
    for name in FUNCTIONS
    for dtype in DTYPES
    if dtype not in COMPLEXES or name in ("add", "mul")
    if dtype in (*INTS, "bool") or name not in ("and", "or", "xor")
    if dtype in FLOATS or name != "logaddexp"
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_named_operators_are_numpys(name: str, dtype: str) -> None:
    op = named(name, [dtype])
    lhs, rhs = (values(np.random.default_rng(seed), (9,), dtype) for seed in (1, 2))
    (result,) = op([lhs], [rhs])
    np.testing.assert_allclose(
        result, FUNCTIONS[name](lhs, rhs), rtol=2e-3 if "16" in dtype else 1e-6
    )


@pytest.mark.sampled(24)
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


def arg_cases() -> list[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    ties = rng.integers(0, 3, 40).astype("f4")
    nan = ties.copy()
    nan[[7, 9, 30]] = np.nan
    rows = [ties, nan, np.full(5, -np.inf, "f4"), np.full(5, np.inf), ties.astype("u1")]
    rows += [rng.integers(-3, 3, 30).astype("i8"), ties > 1, np.array([np.nan]), np.zeros(3)]
    return [(name, row) for name in ("argmin", "argmax") for row in rows]


@pytest.mark.parametrize(("name", "row"), arg_cases())
def test_arguments_are_numpys_in_any_order(name: str, row: np.ndarray) -> None:
    """The first NaN wins, then the smallest index."""
    op = named(name, [row.dtype, "i8"])
    expected = getattr(np, name)(row)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(row))
        assert op.identity is not None
        best = (np.asarray(op.identity[0], row.dtype), np.int64(op.identity[1]))
        for n in order:
            best = op(best, (row[n], n)) if seed % 2 else op((row[n], n), best)
        assert best[1] == expected
        np.testing.assert_equal(best[0], row[expected])


def test_arguments_have_several_indices() -> None:
    op = named("argmax", ["f4", "i8", "i8"])
    best = op((np.float32(2), 1, 5), (np.float32(2), 1, 3))
    assert best == (2, 1, 3)
    assert op(best, (np.float32(2), 0, 9)) == (2, 0, 9)
    assert op(best, (np.float32(1), 0, 0)) == best


def test_logaddexp_is_stable() -> None:
    op = named("logaddexp", ["f8"])
    inf = np.inf
    lhs = np.array([-inf, -inf, inf, inf, 1e300, 710.0, -1000.0, np.nan])
    rhs = np.array([-inf, 2.0, inf, -inf, 1.0, 710.0, -1000.0, 1.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(op([lhs], [rhs])[0], np.logaddexp(lhs, rhs), rtol=1e-15)


def test_operators_from_functions() -> None:
    def later(lhs, rhs):
        if rhs[1] > lhs[1]:
            return rhs
        return lhs

    op = operator_from_function(later, ["f4", "i8"], (0.0, np.int64(-1)), True)
    assert (op.name, op.identity, op.commutative) == ("later", (0.0, -1), True)
    assert op((np.float32(5), 1), (np.float32(6), 2)) == (6, 2)
    one = operator_from_function(lambda a, b: max(a, b, 0), ["i4"], 0)
    assert (repr(one), repr(one.results)) == ("op", "(max(max(p0, p1), 0),)")
    a, b = param(0, "i4"), param(1, "i4")
    chosen = operator_from_function(lambda a, b: a if a > 2 * b else b, ["i4"])
    assert chosen.results == (select(a > 2 * b, a, b),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: operator_from_function(lambda a, b: (a, b), ["i4"], name="pair"),
            (
                "operator 'pair' returns 2 values for tuples of 1\n"
                "  hint: lhs, rhs and the result have one element for every result of f"
            ),
        ),
        (
            lambda: operator_from_function(lambda a, b: (a + b) / 2, ["i4"], name="mean"),
            (
                "element 0 of operator 'mean' is float64 where tuples have int32\n"
                "  hint: return what has the operands' types, or convert them by f"
            ),
        ),
        (
            lambda: operator_from_function(lambda a, b: a, ["i4"], (0, 0)),
            "the identity of operator 'op' has 2 values for tuples of 1",
        ),
        (
            lambda: named("logaddexp", ["i4"]),
            (
                "operator 'logaddexp' takes floats, not int32\n"
                "  hint: dtype='f8' converts the elements"
            ),
        ),
        (
            lambda: named("argmax", ["f4"]),
            (
                "operator 'argmax' takes a value and an index, not (float32)\n"
                "  hint: return (value, index) from f, for example lambda a, *, j: (a, j)"
            ),
        ),
        (
            lambda: named("argmin", ["f4", "f4"]),
            (
                "operator 'argmin' takes a value and an index, not (float32, float32)\n"
                "  hint: return (value, index) from f, for example lambda a, *, j: (a, j)"
            ),
        ),
    ],
)
def test_what_is_no_operator(make, message) -> None:
    with pytest.raises(TranslationError) as caught:
        make()
    assert str(caught.value) == message


def test_types_that_only_arrays_have_are_refused() -> None:
    with pytest.raises(DTypeError, match="no operator combines elements of float8_e4m3fn"):
        named("add", [np.dtype(ml_dtypes.float8_e4m3fn)])
