"""Validation of call options: keywords, flags and integers."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from mdtensor.errors import DTypeError, MdtensorError, ShapeError, shown

MOST_AXES = 64  # of an array of NumPy
_MOST = 2**63


def is_one_of(given: object, words: Iterable[str]) -> bool:
    """Whether a value is a string among `words`; False for unhashable and incomparable values."""
    return isinstance(given, str) and given in words


def one_of(
    name: str, given: Any, words: Iterable[str], error: type[MdtensorError] = ShapeError
) -> str:
    """Check an option against its allowed strings.

    Raises the error for any other word or value.

    >>> one_of("order", "C", ("C", "F"))
    'C'
    """
    if not is_one_of(given, words):
        raise error(f"{name} is {shown(given)}", hint=f"one of {', '.join(map(repr, words))}")
    return given


def flag(name: str, given: Any) -> bool:
    """A boolean option; DTypeError for a value without a truth value.

    >>> flag("check", 1)
    True
    """
    try:
        return bool(given)
    except (TypeError, ValueError):  # an array of several elements
        raise DTypeError(f"{name} is {shown(given)}", hint="True or False") from None


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a tuple or a list."""
    return isinstance(value, tuple | list)


def is_iterable(given: Any) -> bool:
    """Whether a value is iterable; a memoryview with several axes is not.

    >>> is_iterable([1, 2]), is_iterable(3)
    (True, False)
    """
    try:
        iter(given)
    except (TypeError, NotImplementedError):
        return False
    return True


def beginning(given: Iterable[Any], most: int) -> list[Any]:
    """The first `most` + 1 elements at most, also of an endless iterable."""
    found: list[Any] = []
    for value in given:
        found.append(value)
        if len(found) > most:
            break
    return found


def real(name: str, given: Any) -> float:
    """An option as a float; DTypeError for anything else, strings too.

    >>> real("eps", 1e-5)
    1e-05
    """
    try:
        return math.ldexp(given, 0)  # float takes texts and bytes, too
    except (OverflowError, TypeError, ValueError):
        raise DTypeError(f"{name} is {shown(given)}, which is no number") from None


def whole(name: str, given: Any) -> int:
    """An option as an int; DTypeError for other types, ShapeError beyond 64 bits.

    >>> whole("size", 3)
    3
    """
    try:
        number = operator.index(given)
    except TypeError:
        raise DTypeError(f"{name} is {shown(given)}, not a whole number") from None
    if not -_MOST <= number < _MOST:
        raise ShapeError(f"{name} is {shown(number)}, which is larger than any array")
    return number


def whole_numbers(
    name: str, given: Any, count: int, *, least: int = 1, of: str = "axes"
) -> tuple[int, ...]:
    """An option as `count` integers; a single one is repeated.

    Raises DTypeError for what is none, ShapeError for others than so many, and for smaller ones.

    >>> whole_numbers("stride", 2, 3), whole_numbers("stride", [1, 2], 2)
    ((2, 2, 2), (1, 2))
    """
    is_one = isinstance(given, str) or not is_iterable(given)
    values: list[Any] = [given] * count if is_one else beginning(given, MOST_AXES)
    if len(values) != count:
        raise ShapeError(f"{name} has {len(values)} values for {count} {of}")
    numbers = tuple([whole(name, value) for value in values])
    if any(number < least for number in numbers):
        raise ShapeError(f"{name} is {min(numbers)}, which is less than {least}")
    return numbers
