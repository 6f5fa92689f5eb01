# ruff: noqa: B010, PLW0108
"""What calling a function on symbols would pass over: it is right, or refused with its line."""

from __future__ import annotations

import contextlib
import functools
import math
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdtensor.errors import PassedOverError, ProgramError
from mdtensor.translate.python import doubts
from mdtensor.translate.python.doubts import Doubt, doubt_of
from mdtensor.translate.python.expr_from_function import traced
from mdtensor.translate.scalar import param
from mdtensor.translate.trees import evaluate

A = param(0, "f8")
VALUES = np.array([-2.0, 0.0, 1.0, 3.0, 2.5])
KNOWN = {0.0: 5.0, 1.0: 7.0}
seen: list[Any] = []
total = 0.0


class Sums:
    """Keeps what it is called with."""

    last = 0.0

    def __call__(self, a):
        self.last = a
        return a

    def scaled(self, a):
        return a * 2


SUMS = Sums()


# ---- right


def warnings_off(a):
    with np.errstate(all="ignore"):
        return a * 2


def variables_of_its_own(a):
    def advance():
        nonlocal n
        n += 1

    n = 0
    advance()
    return a * n


def lists_of_its_own(a):
    values = [a, a * 2]
    values[0] += 1
    values.append(a)
    last = values.pop()
    return sum(values) + last


def an_object_of_its_own(a):
    sums = Sums()
    sums.last = a
    return sums.last + 1


def in_a_set(a):
    return 1.0 if a in {0.0, 1.0} else 2.0


def in_a_frozen_set(a):
    return (a in frozenset((0.0, 1.0))) * 1.0


def in_a_dict(a):
    return 1.0 * (a in KNOWN)


def a_dict_of_its_own(a):
    return {k: a * k for k in range(3)}[2]


def deleted(a):
    b, c = a * 2, 3
    del b
    return a + c


def imported(a):
    import operator

    return operator.add(a, 1)


def known_steps(a):
    n = 0
    while n < 3:
        a, n = a * 2, n + 1
    return a + 1


def unpacked_with_a_star(a):
    first, *rest = a, a * 2, a * 3
    return first + rest[1]


def pattern_of_a_tuple(a):
    match (a, 2):
        case (x, y):
            return x + y


def class_of_what_is_known(a, size=2):
    return a * size if isinstance(size, int) else a


def handled(n):
    try:
        return KNOWN[n]
    except KeyError:
        return 0.0


def handled_on_what_is_known(a):
    return a + handled(9.0)


def method_that_only_computes(a):
    return SUMS.scaled(a)


def numpy_functions_named_like_changes(a):
    return np.add(a, 1)


def asserted(a, n=3):
    assert n == 3
    return a * n


RIGHT = [
    warnings_off,
    variables_of_its_own,
    lists_of_its_own,
    an_object_of_its_own,
    in_a_set,
    in_a_frozen_set,
    in_a_dict,
    a_dict_of_its_own,
    deleted,
    imported,
    known_steps,
    unpacked_with_a_star,
    pattern_of_a_tuple,
    class_of_what_is_known,
    handled_on_what_is_known,
    method_that_only_computes,
    numpy_functions_named_like_changes,
    asserted,
]


@pytest.mark.parametrize("function", RIGHT)
def test_what_means_the_same_to_a_kernel(function: Callable) -> None:
    found = evaluate(traced(function, A), [VALUES])
    np.testing.assert_array_equal(found, [function(value) for value in VALUES.tolist()])


# ---- refused


def tried(a):
    try:
        return 1 / a
    except ZeroDivisionError:
        return 0.0


def finally_returned(a):
    try:
        return a
    finally:
        a = 2 * a


def tried_in_a_group(a):
    try:
        return a
    except* ValueError:
        pass
    return 0


def suppressed(a):
    result = 0.0
    with contextlib.suppress(ZeroDivisionError):
        result = 1 / a
    return result


def root(a):
    try:
        return math.sqrt(a)
    except ValueError:
        return -1.0


def tried_by_another(a):
    return root(a) + 1


def tried_inside(a):
    def inverse(b):
        try:
            return 1 / b
        except ZeroDivisionError:
            return 0.0

    return inverse(a)


def nonlocal_set() -> Callable:
    count = 0

    def counted(a):
        nonlocal count
        count += 1
        return a + count

    return counted


def appended(a):
    seen.append(a)
    return a


def stored(a):
    KNOWN["last"] = a
    return a


def stored_in_an_array(a):
    VALUES[0] = 1.0
    return a


def set_by_setattr(a):
    setattr(SUMS, "last", a)
    return a


def class_of_an_element(a):
    return a * 2 if isinstance(a, float) else a * 3


def type_of_an_element(a):
    return a * 2 if type(a) is float else a * 3


def text_of_an_element(a):
    return len(str(a)) * a


def matched(a):
    match a:
        case 0.0:
            return 5.0
        case _:
            return a


def matched_by_class(a):
    match a:
        case float():
            return 5.0
        case _:
            return a


NO_RAISE = "'try' cannot be traced: kernels raise nothing"
NO_VARIABLES = "cannot be traced: kernels change no variables of Python"
AROUND = "a {} from around the function would be changed once, while it is translated"
# The function, the message, the line that it points to.
REFUSED: list[tuple[Callable, str, str]] = [
    (tried, NO_RAISE, "try:"),
    (finally_returned, NO_RAISE, "try:"),
    (tried_in_a_group, NO_RAISE, "try:"),
    (tried_by_another, NO_RAISE, "try:"),
    (tried_inside, NO_RAISE, "try:"),
    (suppressed, "'with' cannot be traced", "with contextlib.suppress(ZeroDivisionError):"),
    (nonlocal_set(), f"'nonlocal' {NO_VARIABLES}", "nonlocal count"),
    (appended, AROUND.format("list"), "seen.append(a)"),
    (stored, AROUND.format("dict"), 'KNOWN["last"] = a'),
    (stored_in_an_array, AROUND.format("ndarray"), "VALUES[0] = 1.0"),
    (SUMS, AROUND.format("Sums"), "self.last = a"),
    (set_by_setattr, AROUND.format("Sums"), 'setattr(SUMS, "last", a)'),
    (
        class_of_an_element,
        "isinstance of p0, which is known only when the kernel runs",
        "return a * 2 if isinstance(a, float) else a * 3",
    ),
    (
        type_of_an_element,
        "type of p0, which is known only when the kernel runs",
        "return a * 2 if type(a) is float else a * 3",
    ),
    (
        text_of_an_element,
        "str of p0, which is known only when the kernel runs",
        "return len(str(a)) * a",
    ),
    (matched, "'match' cannot be traced", "match a:"),
    (matched_by_class, "'match' cannot be traced", "match a:"),
]


@pytest.mark.parametrize(("function", "message", "line"), REFUSED)
def test_what_would_be_passed_over(function: Callable, message: str, line: str) -> None:
    with pytest.raises(PassedOverError) as caught:
        traced(function, A)
    error = caught.value
    assert (error.message, error.text) == (message, line)
    assert error.hint
    assert __file__ in error.notes[0]


def looked_up(a):
    return KNOWN[a]


def looked_up_or_default(a):
    return KNOWN.get(a, -1.0)


def a_set_of_elements(a):
    return len({a, a * 2})


@functools.lru_cache
def doubled(a):
    return a * 2


def largest_by_size(a):
    return max(a, -a - 1, key=abs)


def clipped_into(a):
    return np.clip(a, 0, 2, out=VALUES)


def raises(a):
    raise ValueError("not today")


def item_of(a):
    return a.item() * 2


HASHED = "the value of p0 is known only when the kernel runs"


@pytest.mark.parametrize(
    ("function", "message", "line"),
    [
        (looked_up, HASHED, "return KNOWN[a]"),
        (looked_up_or_default, HASHED, "return KNOWN.get(a, -1.0)"),
        (a_set_of_elements, HASHED, "return len({a, a * 2})"),
        (
            largest_by_size,
            "max with these arguments cannot be traced",
            "return max(a, -a - 1, key=abs)",
        ),
        (
            clipped_into,
            "np.clip with these arguments cannot be traced",
            "return np.clip(a, 0, 2, out=VALUES)",
        ),
        (raises, "the function raises ValueError('not today')", 'raise ValueError("not today")'),
        (
            item_of,
            "an element is a number, which has no 'item' here",
            "return a.item() * 2",
        ),
    ],
)
def test_errors_of_calls_have_a_line(function: Callable, message: str, line: str) -> None:
    with pytest.raises(ProgramError) as caught:
        traced(function, A)
    assert (caught.value.message, caught.value.text) == (message, line)


def test_caches_and_generators() -> None:
    with pytest.raises(ProgramError, match="the value of p0 is known only when the kernel runs"):
        traced(lambda a: doubled(a), A)

    def yields(a):
        yield a

    async def awaits(a):
        return a

    for function, kind in ((yields, "generator"), (awaits, "coroutine")):
        with pytest.raises(ProgramError, match=f"returns a {kind}, not values") as caught:
            traced(function, A)
        assert __file__ in caught.value.notes[0]


def test_without_source_what_would_be_passed_over_is_still_seen() -> None:
    space: dict[str, Any] = {}
    exec("def f(a):\n try: return 1 / a\n except ValueError: return 0", space)
    with pytest.raises(ProgramError) as caught:
        traced(space["f"], A)
    assert str(caught.value) == textwrap.dedent("""\
        f cannot be traced: it has try, with, match or global, which kernels have not
          its source was not found, so that it could only be called""")


def test_plain_functions_are_only_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(a):
        return np.where(a > 0, a, 2.0) + np.exp(a)

    assert doubt_of(plain) is doubt_of(math.sqrt) is doubt_of(np.add) is Doubt.NONE
    assert doubt_of(functools.partial(tried)) is doubt_of(tried) is Doubt.SURE
    assert doubt_of(tried_by_another) is doubt_of(lists_of_its_own) is Doubt.SOME
    assert doubt_of(SUMS.scaled) is Doubt.NONE
    assert doubts.python_function(SUMS) is Sums.__call__


def test_what_cannot_be_interpreted_is_called_where_nothing_is_passed_over() -> None:
    """Lists make a function doubtful; that alone does not forbid what only a call understands."""

    def called(a):
        values, n = [a], 0
        while n < 2:
            values.append(a * n)
            n += 1
        return sum(values)

    np.testing.assert_array_equal(evaluate(traced(called, A), [VALUES]), 2 * VALUES)
