"""What Python asks of whole values in loops and stencils: the whole text of each refusal."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import ProgramError

M, X = np.ones((3, 6)), np.arange(6.0)
FILE = "<values>"
MDH: Any = mdt.mdh
ROW = "a row of A: float64[3, 6]"
LOOP = "loop over its elements"
GO_OVER = "go over indices: for i in range(len(x)): … x[i]"
VALUES = "compare values by == or !="
POINT = "u[0] is the point itself"


def made(text: str) -> dict[str, Any]:
    """What a text defines, whose lines are found."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    space: dict[str, Any] = {}
    exec(compile(text, FILE, "exec"), space)
    return space


def in_loops(value: str) -> Callable[[], object]:
    function = made(f"def f(y, A):\n    for i in range(3):\n        y[i] = {value}\n")["f"]
    return lambda: MDH(function)(np.zeros(3), M)


def in_stencils(value: str) -> Callable[[], object]:
    function = made(f"f = lambda u: {value}\n")["f"]
    return lambda: mdt.stencil(function)(X)


def text_of(call: Callable[[], object], kind: str = "ProgramError") -> list[str]:
    """The lines that a person reads, without the place."""
    with pytest.raises(ProgramError) as caught:
        call()
    assert type(caught.value).__name__ == kind
    lines = str(caught.value).splitlines()
    assert lines.pop(3).startswith(f"  {FILE}:")
    return lines


@pytest.mark.parametrize(
    ("value", "marked", "message", "hint", "kind"),
    [
        ("1 if A else 0", "A", "A: float64[3, 6] is used as a whole: a condition", LOOP, ""),
        ("1 if not A[i] else 0", "not", f"{ROW} is used as a whole: a condition", LOOP, ""),
        ("1 if A[i] and i else 0", "A[i]", f"{ROW} is used as a whole: a condition", LOOP, ""),
        ("1 if i or A[i] or 1 else 0", "A[i]", f"{ROW} is used as a whole: a condition", LOOP, ""),
        ("1 if [A[i]] == [A[i]] else 0", "[A", f"{ROW} is used as a whole: a comparison", LOOP, ""),
        (
            "1 if {0: A[i]} == {0: A[i]} else 0",
            "{0",
            f"{ROW} is used as a whole: a comparison",
            LOOP,
            "",
        ),
        ("1 if A[i] >= A[i] else 0", "A[i]", f"{ROW} is used as a whole: operation 'ge'", LOOP, ""),
        ("1 if 1.0 in A[i] else 0", "1.0", f"{ROW} is gone over as a whole", GO_OVER, ""),
        ("sum(v for v in A[i])", "A[i]", f"{ROW} is gone over as a whole", GO_OVER, ""),
        ("int(A[i])", "int", f"{ROW} is used as a whole: int()", LOOP, ""),
        ("float(A[i])", "float", f"{ROW} is used as a whole: float()", LOOP, ""),
        ("len(f'{A[i]}')", None, f"{ROW} is used as a whole: str()", LOOP, "PassedOverError"),
        (
            "hash(A[i])",
            "hash",
            f"hash of {ROW}, which is known only when the kernel runs",
            VALUES,
            "PassedOverError",
        ),
        (
            "len(repr(A[i, 0]))",
            "repr",
            "repr of p0, which is known only when the kernel runs",
            "kernels print nothing",
            "PassedOverError",
        ),
        (
            "1 if A[i] is A[0] else 0",
            "A[i]",
            f"whether {ROW} is the same object is known to Python only",
            VALUES,
            "PassedOverError",
        ),
        (
            "complex(A[i, 0]).real",
            "complex",
            "the value of p0 is known only when the kernel runs",
            "convert it by astype",
            "",
        ),
    ],
)
def test_loops(value: str, marked: str | None, message: str, hint: str, kind: str) -> None:
    told = text_of(in_loops(value), kind or "ProgramError")
    line = f"y[i] = {value}"
    assert [told[0], told[1].strip(), told[3].strip()] == [message, line, f"hint: {hint}"]
    if marked is not None:  # within an f-string, versions of Python differ
        assert told[2] == " " * (2 + line.index(marked, len("y[i] = "))) + "^"


WHOLE = "a stencil uses an array instead of an element of it: "
FIELD = "an array of the stencil: float64[6]"


@pytest.mark.parametrize(
    ("value", "message", "hint", "kind"),
    [
        ("len(u)", f"{WHOLE}len()", POINT, ""),
        ("int(u)", f"{WHOLE}int()", POINT, ""),
        ("1 if u else 0", f"{WHOLE}a condition", POINT, ""),
        ("u < u", f"{WHOLE}operation 'lt'", POINT, ""),
        ("u + 1", f"{WHOLE}operation 'add'", POINT, ""),
        (
            "hash(u)",
            f"hash of {FIELD}, which is known only when the kernel runs",
            VALUES,
            "PassedOverError",
        ),
        (
            "1 if u is u else 0",
            f"whether {FIELD} is the same object is known to Python only",
            VALUES,
            "PassedOverError",
        ),
    ],
)
def test_stencils(value: str, message: str, hint: str, kind: str) -> None:
    told = text_of(in_stencils(value), kind or "ProgramError")
    assert told[:2] == [message, f"  f = lambda u: {value}"]
    assert told[3] == f"  hint: {hint}"


def test_what_elements_have_is_computed() -> None:
    text = """\
        def f(y, A):
            for i in range(3):
                y[i] = int(A[i, 0] * 2.5) + float(len(A[i])) + (4 if A[i, 1] in (0, 1) else 8)
        """
    y = np.zeros(3)
    MDH(made(textwrap.dedent(text))["f"])(y, M)
    np.testing.assert_array_equal(y, [12, 12, 12])
