"""Comparisons and powers of integers, and the order of complex numbers, are NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import TranslationError

COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
EDGES = {
    dtype: np.array([np.iinfo(dtype).min, 0, 1, 77, np.iinfo(dtype).max], dtype)
    for dtype in ("int8", "uint8", "int64", "uint64")
}


def check(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """The same values, bit for bit, of the same type, by kernels."""
    with np.errstate(all="ignore"):
        expected = function(*arrays)
    found = np.asarray(function(*map(mdt.lazy, arrays)))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
def test_integers_are_compared_with_any_number(compare: Callable[..., Any], dtype: str) -> None:
    limits = np.iinfo(dtype)
    for number in (limits.max, limits.max + 1, limits.min, limits.min - 1, 10**40, -(10**40)):
        check(lambda x, n=number: compare(x, n), EDGES[dtype])
        check(lambda x, n=number: compare(n, x), EDGES[dtype])


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
def test_signed_and_unsigned_integers_are_not_rounded(compare: Callable[..., Any]) -> None:
    """Their common type is float64, which has no 2**63 - 1."""
    unsigned = np.array([0, 2**63, 2**63 - 1, 2**64 - 1, 5], "u8")[:, None]
    signed = np.array([-1, 2**63 - 1, -(2**63), 5])
    check(compare, unsigned, signed)
    check(compare, signed.astype("i1"), unsigned)


EXPONENTS = (0, 1, 7, 64, 65, 100, True, False, np.int8(3), np.uint8(70), np.True_)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", [*EDGES, "bool"])
@pytest.mark.parametrize("exponent", EXPONENTS, ids=repr)
def test_powers_by_numbers(exponent: Any, dtype: str) -> None:
    base = EDGES[dtype] if dtype in EDGES else np.array([True, False])
    check(lambda x: np.power(x, exponent), base)


@pytest.mark.parametrize("dtype", EDGES)
def test_powers_by_arrays_of_a_type_without_negative_numbers(dtype: str) -> None:
    base = np.array([3, 2, 0, 5, 1], dtype)
    for kind in ("bool", "uint8", "uint32"):
        check(operator.pow, base, np.array([1, 0, 1, 255, 9]).astype(kind))
    check(operator.pow, -base, np.array([200, 1, 0, 3, 2], "u1"))
    check(lambda exponents: 3**exponents, np.array([0, 1, 5, 200], "u4"))
    for wrapped in (np.array([-1, -2, 3], "i1"), np.array([2.0**33, 3, 1])):
        check(lambda x, e: x ** e.astype("u8"), np.array([3, 5, 7], "u8"), wrapped)


def test_indices_are_never_negative() -> None:
    base = np.array([3, -2, 5, 7], "i4")
    np.testing.assert_array_equal(
        mdt.reduce("i->i", base, f=lambda x, *, i: x**i), base.astype("i8") ** np.arange(4)
    )


@pytest.mark.parametrize(
    ("power", "message"),
    [
        (lambda x: x**-1, "integers to negative integer powers are not allowed, as in NumPy"),
        (lambda x: x ** np.int64(-1), "integers to negative integer powers are not allowed"),
        (lambda x: x**x, "integers have no negative powers, which an exponent of int32 may ask"),
        (lambda x: 2**x, "integers have no negative powers, which an exponent of int32 may ask"),
    ],
)
def test_negative_powers_of_integers_are_refused(power: Callable[..., Any], message: str) -> None:
    with pytest.raises(TranslationError, match=f"^{message}"):
        power(mdt.lazy(np.arange(3, dtype="i4")))


def test_numbers_beyond_the_type_clip_nothing() -> None:
    for bounds in ((0, 300), (-300, 5), (-300, 300), (None, 300)):
        check(lambda x, b=bounds: np.clip(x, *b), EDGES["int8"])


PARTS = (0.0, -0.0, 1.5, -1.0, np.nan, np.inf)
COMPLEX = np.array([complex(a, b) for a in PARTS for b in PARTS])


@pytest.mark.parametrize(
    "ufunc",
    [
        *(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal),
        *(np.maximum, np.minimum, np.fmax, np.fmin),
    ],
    ids=lambda f: f.__name__,
)
def test_complex_numbers_are_in_the_order_of_numpy(ufunc: np.ufunc) -> None:
    check(ufunc, COMPLEX[:, None].astype("c8"), COMPLEX.astype("c8"))


@pytest.mark.parametrize(
    "ufunc", [np.isnan, np.isinf, np.isfinite, np.rint, np.logical_not], ids=lambda f: f.__name__
)
def test_functions_of_complex_numbers(ufunc: np.ufunc) -> None:
    check(ufunc, COMPLEX)


@pytest.mark.parametrize(
    "build",
    [np.sin, np.sqrt, lambda z: z**2.5, lambda z: z.max(), lambda z: np.clip(z, 0, 1).min()],
)
def test_what_complex_numbers_lack_is_refused_when_it_is_said(build: Callable[..., Any]) -> None:
    with pytest.raises(TranslationError, match=r"^(operation|complex numbers) .*\n  hint: "):
        build(mdt.lazy(COMPLEX))
