"""Functions of elements whose numbers differed from Python's, or that were refused by no error."""

from __future__ import annotations

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


def test_codes_of_characters_are_long() -> None:
    found = mdt.reduce("i->i", NAMES, f=lambda a: a[0] * 3)
    np.testing.assert_array_equal(found, [name[0] * 3 for name in NAMES.tolist()])


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
