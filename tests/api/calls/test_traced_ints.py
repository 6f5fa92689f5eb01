"""Numbers that are watched: the program does what the code did, or says that it does not hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from mdtensor.api.calls.traced_ints import IntTrace, NotWatchedError, TracedInt, filled


def test_a_program_does_the_same_arithmetic_on_other_numbers() -> None:
    watch = IntTrace()
    a, b = watch.number(7), watch.number(3)
    program = watch.program((a * b + 1, (a // b, a % b, -a, abs(b - a)), round(a / b), 5))
    assert program(7, 3) == (22, (2, 1, -7, 4), 2, 5)
    assert program(11, 4) == (45, (2, 3, -11, 7), 3, 5)


def test_a_program_holds_where_comparisons_end_as_they_did() -> None:
    watch = IntTrace()
    a, b = watch.number(7), watch.number(3)
    program = watch.program(max(a, b) - min(a, b))
    assert program(9, 2) == 7
    assert program(2, 9) is None


def test_truth_and_membership_are_comparisons() -> None:
    watch = IntTrace()
    a = watch.number(7)
    assert a
    assert a not in (0, 1)
    assert (a, 2) != (1, 2)
    program = watch.program(a)
    assert [program(n) for n in (0, 1, 2)] == [None, None, 2]


def test_a_watched_number_is_a_number_to_code_that_asks() -> None:
    watch = IntTrace()
    a = watch.number(7)
    assert isinstance(a, int)
    assert isinstance(a / 2, float)
    assert {type(math.prod((2, a))), type(sum((2, a)))} == {TracedInt}
    assert type(a * 0) is int  # whatever a is


@pytest.mark.parametrize("needs", [hash, int, float, str, repr, range, bytes, "{}".format])
def test_code_that_needs_the_number_itself_is_not_watched_to_the_end(needs: object) -> None:
    watch = IntTrace()
    a = watch.number(7)
    with pytest.raises(NotWatchedError, match="a watched number is needed itself"):
        needs(a)  # type: ignore[operator]
    with pytest.raises(NotWatchedError):  # whoever caught the error
        watch.program(a)


def test_a_division_by_what_was_no_zero_holds_for_others_that_are_none() -> None:
    watch = IntTrace()
    a, b = watch.number(7), watch.number(3)
    program = watch.program(a // b)
    assert program(8, 2) == 4
    assert program(8, 0) is None
    with pytest.raises(NotWatchedError):
        assert a % 0


def test_an_operation_is_done_once() -> None:
    watch = IntTrace()
    a, b = watch.number(7), watch.number(3)
    assert a * b is a * b
    assert a * b == a * b  # no comparison at all
    assert watch.program(a * b)(0, 0) == 0


@dataclass(frozen=True)
class _Pair:
    name: str
    sizes: tuple[int, ...]


def test_values_are_filled_with_other_numbers() -> None:
    watch = IntTrace()
    a = watch.number(7)
    value = (_Pair("x", (a, a + 1, 2)), _Pair("y", (1,)))
    found = filled(value, watch.program(0)(10, by_name=True))
    assert found == (_Pair("x", (10, 11, 2)), _Pair("y", (1,)))
    assert found[1] is value[1]
