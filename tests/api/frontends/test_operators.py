"""Operators as users say them, on a device: by name, as functions of NumPy, as their own."""

from __future__ import annotations

import builtins
import math
import operator

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frontends.operators import operator_of
from mdtensor.errors import TranslationError
from mdtensor.translate.combine import named
from mdtensor.translate.operators.combine_operators import operator_name

RNG = np.random.default_rng(0)
X = RNG.integers(-9, 9, (5, 53)).astype("f4")
WITH_NAN = X.copy()
WITH_NAN[1, [7, 9]] = WITH_NAN[3, 52] = np.nan


@mdt.operator(identity=(-math.inf, -1))
def last_largest(lhs, rhs):
    if rhs[0] >= lhs[0]:
        return rhs
    return lhs


@mdt.operator(identity=0, commutative=True)
def larger_magnitude(lhs, rhs):
    return rhs if abs(rhs) > abs(lhs) or (abs(rhs) == abs(lhs) and rhs > lhs) else lhs


@mdt.operator
def then(lhs, rhs):
    """Affine maps, the left one first: no identity is declared, and order matters."""
    return lhs[0] * rhs[0], lhs[1] * rhs[0] + rhs[1]


def test_an_operator_is_a_function_and_a_value() -> None:
    assert last_largest((1.0, 0), (1.0, 5)) == (1.0, 5)
    assert larger_magnitude(-3, 2) == -3
    assert last_largest.identity == (-math.inf, -1)
    assert (then.identity, then.commutative, then.__name__) == (None, False, "then")
    assert len({last_largest, larger_magnitude, last_largest}) == 2
    assert mdt.operator(then.function) == then


def test_own_operators_on_tuples() -> None:
    value, place = mdt.reduce("ij->i", X, f=lambda x, *, j: (x, j), combine=last_largest)
    np.testing.assert_array_equal(value, X.max(1))
    np.testing.assert_array_equal(place, 52 - X[:, ::-1].argmax(1))


def test_own_operators_on_scalars() -> None:
    expected = [builtins.max(row, key=lambda v: (builtins.abs(v), v)) for row in X]
    np.testing.assert_array_equal(mdt.reduce("ij->i", X, combine=larger_magnitude), expected)


def test_order_is_kept_where_nothing_is_said() -> None:
    a, b = RNG.integers(-5, 5, (2, 40))
    result = mdt.reduce("i,i->", a, b, f=lambda a, b: (a, b), combine=then)
    total = (np.int64(1), np.int64(0))
    with np.errstate(over="ignore"):
        for pair in zip(a, b, strict=True):
            total = (total[0] * pair[0], total[1] * pair[0] + pair[1])
    assert tuple(result) == total


@pytest.mark.parametrize("values", [X, WITH_NAN], ids=["numbers", "nan"])
@pytest.mark.parametrize("name", ["min", "max", "fmin", "fmax", "argmin", "argmax"])
def test_nan_and_ties_are_numpys(name: str, values: np.ndarray) -> None:
    function = {"min": np.minimum, "max": np.maximum, "fmin": np.fmin, "fmax": np.fmax}.get(name)
    expected = function.reduce(values, 1) if function else getattr(np, name)(values, 1)
    np.testing.assert_array_equal(mdt.reduce("ij->i", values, combine=name), expected)


def test_logaddexp_of_infinities() -> None:
    rows = np.array([[-np.inf] * 7, [-np.inf] * 6 + [3], [1e4] * 7, np.arange(7)], "f4")
    result = mdt.reduce("ij->i", rows, combine="logaddexp")
    np.testing.assert_allclose(result, np.logaddexp.reduce(rows.astype("f8"), 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (np.add, "add"),
        (np.multiply, "mul"),
        (np.maximum, "max"),
        (np.fmin, "fmin"),
        (np.bitwise_xor, "xor"),
        (np.logaddexp, "logaddexp"),
        (np.argmax, "argmax"),
        (builtins.min, "min"),
        (operator.add, None),
        (last_largest, None),
        (3, None),
        ([], None),
    ],
)
def test_functions_that_have_a_name(function: object, name: str | None) -> None:
    assert operator_name(function) == name


def test_operators_of_functions() -> None:
    f4, i8, truth = (np.dtype(t) for t in ("f4", "i8", "?"))
    assert operator_of(np.maximum, [f4]) == named("max", [f4])
    assert operator_of(np.logical_and, [truth]) == named("and", [truth])
    assert operator_of(named("max", [f4]), [f4]) == named("max", [f4])
    assert operator_of(operator.add, [i8]).results == named("add", [i8]).results
    assert operator_of(last_largest, [f4, i8]) == operator_of(last_largest, [f4, i8])
    np.testing.assert_array_equal(mdt.reduce("ij->i", X, combine=np.maximum), X.max(1))


def test_markers() -> None:
    assert [repr(c) for c in (mdt.cc, mdt.pw("add"), mdt.ps(last_largest))] == [
        "cc",
        "pw('add')",
        "ps(last_largest)",
    ]
    total = mdt.reduce("ij->i", X, combine={"i": mdt.ps("add"), "j": mdt.pw("add")})
    np.testing.assert_allclose(total, X.sum(1).cumsum(), rtol=1e-6)


def test_what_is_no_operator() -> None:
    with pytest.raises(TranslationError) as caught:
        operator_of("mean", [np.dtype("f4")])
    assert str(caught.value) == (
        "unknown operator 'mean'\n  hint: a mean is a sum with epilogue=lambda total: total / count"
    )
    with pytest.raises(TranslationError) as caught:
        operator_of(last_largest, [np.dtype("f4")])
    assert str(caught.value) == (
        "the identity of operator 'last_largest' has 2 values for tuples of 1"
    )
