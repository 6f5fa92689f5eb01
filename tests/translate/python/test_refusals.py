# ruff: noqa: PLE0643, RET503
"""Programs that cannot be translated: the line, the place in it, and a way out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from contextlib import suppress

import pytest

from mdtensor.errors import MdtensorError, ProgramError
from mdtensor.translate.python.expr_from_function import traced
from mdtensor.translate.scalar import param

A = param(0, "f8")
SCALE = 2.5


def endless(a):
    while a > 1:
        a = a / 2
    return a


def tried(a):
    try:
        return 1 if a > 0 else 2
    finally:
        pass


def recursive(a):
    return a if a < 1 else recursive(a / 2)


def half(a):
    if a > 0:
        x = 1
    return x


def some_paths(a):
    if a > 0:
        return a


def different_tuples(a):
    return (a, a) if a > 0 else (a, a, a)


def none_or_number(a):
    x = None
    if a > 0:
        x = a
    return x + 1


def long_loop(a):
    for _ in range(10**9):
        a = a if a > 1 else a + 1
    return a


def symbolic_range(a):
    for _ in range(a):
        a += 1
    return a


def conditional_break(a):
    for _ in range(3):
        if a > 1:
            break
        a += 1
    return a


def appended(a):
    values = [a]
    if a > 0:
        values.append(1)
    return values[-1]


def stored(a):
    values = [a, a]
    if a > 0:
        values[0] = 1
    return values[0]


def changes_globals(a):
    global SCALE
    SCALE = a if a > 0 else 1
    return a


def filtered(a):
    return sum(x for x in (a, 1) if x > 0)


def unknown_name(a):
    return a if a > 0 else undefined  # noqa: F821


def bits(a):
    if a > 0:
        return a & 3
    return a


def bad_index(a):
    return (a, 1)[2] if a > 0 else a


def wrong_call(a):
    return half(a, depth=2) if a > 0 else a


def raises(a):
    if a < 0:
        raise ValueError
    return a


def with_statement(a):
    with suppress(ValueError):
        return a if a > 0 else 1


def number_is_no_sequence(a):
    x, y = a if a > 0 else 2
    return x + y


def asserted(a):
    assert a > 0, "positive"
    return a


def in_a_callee(a):
    return endless(a) + 1 if a > 0 else a


def formatted(a):
    return f"{a}" if a > 0 else ""


def not_ascii(a):
    return "äöü" and bits("ßßß" and a) if a > 0 else (a, "ÄÖÜ" and a & 1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            endless,
            """\
            'while' has no known number of steps
              while a > 1:
              ^
              FILE, in endless
              hint: write 'for … in range(…)' with a constant""",
        ),
        (
            tried,
            """\
            'try' cannot be traced: kernels raise nothing
              try:
              ^
              FILE, in tried
              hint: test with if instead""",
        ),
        (
            recursive,
            """\
            recursive calls itself
              return a if a < 1 else recursive(a / 2)
                                     ^
              FILE, in recursive
              hint: write the recursion as a loop""",
        ),
        (
            half,
            """\
            'x' is set in one branch only of the if in line N
              return x
                     ^
              FILE, in half
              hint: set it before the if""",
        ),
        (
            some_paths,
            """\
            some_paths returns a value on some paths only
              def some_paths(a):
              ^
              FILE, in some_paths
              hint: end it with a return""",
        ),
        (
            different_tuples,
            """\
            the value is a tuple of 2 or of 3 values
              return (a, a) if a > 0 else (a, a, a)
                     ^
              FILE, in different_tuples""",
        ),
        (
            none_or_number,
            """\
            'x' is a number or None after the if in line N
              return x + 1
                     ^
              FILE, in none_or_number
              hint: set it before the if""",
        ),
        (
            long_loop,
            """\
            a loop of more than 4096 steps would be unrolled
              for _ in range(10**9):
                       ^
              FILE, in long_loop
              hint: make it a dim of the computation""",
        ),
        (
            symbolic_range,
            """\
            the value of p0 is known only when the kernel runs
              for _ in range(a):
                       ^
              FILE, in symbolic_range
              hint: indices and bounds of loops must be constants here""",
        ),
        (
            conditional_break,
            """\
            'break' under a condition that is known only when the kernel runs
              break
              ^
              FILE, in conditional_break
              hint: let a variable say whether the rest still counts""",
        ),
        (
            appended,
            """\
            a list is changed under a condition that may not hold
              values.append(1)
              ^
              FILE, in appended
              hint: use tuples, and choose values by 'a if condition else b'""",
        ),
        (
            stored,
            """\
            an element is set under a condition that is known only when the kernel runs
              values[0] = 1
              ^
              FILE, in stored
              hint: set it in any case, to a value chosen by 'a if condition else b'""",
        ),
        (
            changes_globals,
            """\
            'global' cannot be traced: kernels change no variables of Python
              global SCALE
              ^
              FILE, in changes_globals
              hint: return it""",
        ),
        (
            filtered,
            """\
            the condition of a filter is known only when the kernel runs
              return sum(x for x in (a, 1) if x > 0)
                                              ^
              FILE, in filtered""",
        ),
        (
            unknown_name,
            """\
            name 'undefined' is not defined
              return a if a > 0 else undefined  # noqa: F821
                                     ^
              FILE, in unknown_name""",
        ),
        (
            bits,
            """\
            operation 'and' takes integers and booleans, not float64
              return a & 3
                     ^
              FILE, in bits
              hint: convert the operands, or compare them first""",
        ),
        (
            bad_index,
            """\
            IndexError: tuple index out of range
              return (a, 1)[2] if a > 0 else a
                     ^
              FILE, in bad_index""",
        ),
        (
            wrong_call,
            """\
            half has no parameter 'depth'
              return half(a, depth=2) if a > 0 else a
                     ^
              FILE, in wrong_call""",
        ),
        (
            raises,
            """\
            'raise' cannot be traced: kernels raise nothing
              raise ValueError
              ^
              FILE, in raises
              hint: return a value such as nan""",
        ),
        (
            with_statement,
            """\
            'with' cannot be traced
              with suppress(ValueError):
              ^
              FILE, in with_statement
              hint: leave it out of the traced function""",
        ),
        (
            number_is_no_sequence,
            """\
            select((p0 > 0), p0, 2) is one number and cannot be iterated
              x, y = a if a > 0 else 2
              ^
              FILE, in number_is_no_sequence""",
        ),
        (
            asserted,
            """\
            the condition of an assertion is known only when the kernel runs
              assert a > 0, "positive"
                     ^
              FILE, in asserted""",
        ),
        (
            in_a_callee,
            """\
            'while' has no known number of steps
              while a > 1:
              ^
              FILE, in endless
              hint: write 'for … in range(…)' with a constant""",
        ),
        (
            formatted,
            """\
            the value of p0 is known only when the kernel runs
              return f"{a}" if a > 0 else ""
                        ^
              FILE, in formatted
              hint: kernels print nothing""",
        ),
    ],
)
def test_what_is_refused(function: Callable, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        traced(function, A)
    assert masked(caught.value) == textwrap.dedent(message)


def masked(error: MdtensorError) -> str:
    """The text of an error, without the numbers of lines, which it must have."""
    lines = str(error).splitlines()
    for n, line in enumerate(lines):
        if __file__ in line:
            place, _, name = line.strip().partition(", in ")
            assert place.removeprefix(f"{__file__}:").isdigit()
            lines[n] = f"  FILE, in {name}"
        elif "the if in line" in line:
            head, _, number = line.rpartition(" ")
            assert number.isdigit()
            lines[n] = f"{head} N"
    return "\n".join(lines)


def test_carets_count_characters() -> None:
    with pytest.raises(ProgramError) as caught:
        traced(not_ascii, param(0, "i4") / 1)
    assert masked(caught.value).splitlines()[1:3] == ["  return a & 3", "         ^"]
    with pytest.raises(ProgramError) as caught:
        traced(lambda a: ("äöü", a & 1) if a > 0 else a, A)
    (column,), text = caught.value.carets, caught.value.text
    assert text is not None
    assert text[column:].startswith("a & 1")
