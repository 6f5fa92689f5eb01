"""Functions of elements whose numbers differed from Python's, or that were refused by no error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import ProgramError

CODES = np.array([3, 100, 200, 255], "u1")
NAMES = np.array([b"abc", b"z", b"\xff\xfe"], "S3")


def divided(a):
    return divmod(1000, np.int64(a))[0] + 10 * divmod(1000, np.int64(a))[1]


def made_long(a):
    return np.int64(int(a) * 300)


def long_and_compared(a):
    return np.int64(int(a) < 300) + np.int64(int(a) - 250 > 0)


def chosen_by_numpy(a):
    return np.int64(np.where(True, 2, 3) if a > 100 else 1)


@pytest.mark.parametrize("function", [divided, made_long, long_and_compared, chosen_by_numpy])
def test_numbers_are_those_of_python(function: Callable[..., Any]) -> None:
    found = mdt.reduce("i->i", CODES, f=function)
    np.testing.assert_array_equal(found, [function(code) for code in CODES])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8"])
@pytest.mark.parametrize("function", [round, lambda a: round(a, 1), np.round])
def test_rounded_integers_stay_what_they_are(dtype: str, function: Callable[..., Any]) -> None:
    limits = np.iinfo(dtype)
    whole = np.array([limits.max, limits.max - 1, limits.min], dtype)
    found = mdt.reduce("i->i", whole, f=lambda a: 0 + function(a))
    assert found.dtype.kind == whole.dtype.kind or function is round
    assert found.tolist() == [int(function(number)) for number in whole]


@pytest.mark.parametrize("function", [math.floor, math.ceil, math.trunc])
def test_long_unsigned_integers_do_not_wrap_around(function: Callable[..., Any]) -> None:
    longest = 2**64 - 1
    found = mdt.reduce("i->i", np.array([longest], "u8"), f=lambda a: 0 + function(a))
    assert found.tolist() == [longest]


def test_integers_rounded_to_tens() -> None:
    numbers = np.array([-15, 26, 104], "i1")
    found = mdt.reduce("i->i", numbers, f=lambda a: np.round(a, -1))
    assert (found.dtype, found.tolist()) == (np.int8, np.round(numbers, -1).tolist())


def test_codes_of_characters_are_long() -> None:
    found = mdt.reduce("i->i", NAMES, f=lambda a: a[0] * 3)
    np.testing.assert_array_equal(found, [name[0] * 3 for name in NAMES.tolist()])


def test_local_functions_see_records_of_loops() -> None:
    def doubled(record):
        def size():
            return 2 * record.size

        return size()

    @mdt.mdh
    def sizes(y, x):
        for i in range(len(x)):
            y[i] = doubled(x[i])

    records = np.array([(1, 2), (3, 4)], [("code", "i8"), ("size", "i8")])
    found = np.zeros(2, "i8")
    sizes(found, records)
    assert found.tolist() == [2 * int(size) for size in records["size"]]


@pytest.mark.parametrize("word", ["break", "continue"])
def test_loops_that_are_left_are_refused(word: str) -> None:
    def first(y, x):
        for i in range(len(x)):
            for k in (0, 1, 2):
                if k == 1:
                    break
                y[i] = x[i] + k

    def others(y, x):
        for i in range(len(x)):
            for k in (0, 1, 2):
                if k == 1:
                    continue
                y[i] = x[i] + k

    nest = mdt.mdh(first if word == "break" else others)
    with pytest.raises(ProgramError) as caught:
        nest(np.zeros(3), np.ones(3))
    assert caught.value.message == f"'{word}' changes how often a loop runs"
    assert caught.value.hint == "put what depends on the condition into if and else"
