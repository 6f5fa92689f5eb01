"""Traced integers: arithmetic on extents and strides, recorded and replayed on other numbers.

A translation that is handed watched extents and strides computes with them as with any numbers.
What it computes is written down, and how every comparison ended: the program does the same
arithmetic on other numbers, and gives None where a comparison ends otherwise, since the translation
would have gone another way. Where code needs the number itself (a hash, an index, a text), it is
not watched to the end, and there is no program.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from mdtensor.translate.combine import Operator
from mdtensor.translate.scalar import Expr
from mdtensor.translate.scalar_function import ScalarFunction

Number = int | float
# What a program gives for the numbers that were watched: None where it does not hold for them.
Numbers = Callable[..., Any]


_MOST_LINES = 2000  # of a program: a translation takes less time than more of them

# What is hashed when it is made, so that no watched number is in it.
_WITHOUT_NUMBERS = Expr, ScalarFunction, Operator


class NotWatchedError(Exception):
    """Code needs the concrete value of a traced number, which cannot be replayed."""


class IntTrace:
    """A trace that records the operations and comparisons on its numbers."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._lines: list[str] = []
        self._known: dict[str, Any] = {}
        self._is_lost = False

    def number(self, value: int) -> Any:
        """A new traced number, the program's next parameter."""
        name = f"n{len(self._names)}"
        self._names.append(name)
        return TracedInt(value, name, self)

    def made(self, text: str, value: Number) -> Any:
        """The traced result of an operation, memoised."""
        known = self._known.get(text)
        if known is None:
            name = f"v{len(self._known)}"
            self._record(f"{name} = {text}")
            known = self._known[text] = TracedInt(value, name, self)
        return known

    def ended(self, text: str, value: bool) -> bool:
        """Records the outcome of a comparison, which becomes a guard of the program."""
        if text not in self._known:
            self._known[text] = value
            self._record(f"if {'not ' if value else ''}({text}): return None")
        return value

    def _record(self, line: str) -> None:
        if len(self._lines) >= _MOST_LINES:
            raise self.lose()
        self._lines.append(line)

    def lose(self) -> NotWatchedError:
        """Invalidates the trace; returns the error for code that needs a concrete value."""
        self._is_lost = True
        return NotWatchedError("a watched number is needed itself")

    def program(self, results: object) -> Numbers:
        """The recorded program: a function from numbers to the results, tuples of numbers.

        By `by_name=True` it gives all of its variables. Raises NotWatchedError where a number was
        needed itself, whoever caught the error.
        """
        if self._is_lost:
            raise self.lose()
        head = f"def program({', '.join([*self._names, 'by_name=False'])}):"
        end = f"return locals() if by_name else {_text(results)}"
        names: dict[str, Any] = {}
        exec("\n    ".join([head, *self._lines, end]), names)  # all that this class wrote
        return names["program"]


class TracedInt:
    """A traced number: its value, and its name in the recorded program."""

    __slots__ = ("name", "value", "watch")

    def __init__(self, value: Number, name: str, watch: IntTrace) -> None:
        self.value = value
        self.name = name
        self.watch = watch

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        # Code that asks for an int gets one.
        return type(self.value)

    def __neg__(self) -> Any:
        return self.watch.made(f"-{self.name}", -self.value)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.watch.made(f"abs({self.name})", abs(self.value))

    def __round__(self) -> Any:
        return self.watch.made(f"round({self.name})", round(self.value))

    def __bool__(self) -> bool:
        return self.watch.ended(f"{self.name} != 0", self.value != 0)

    def _lost(self, *_: object) -> Any:
        raise self.watch.lose()

    # Whatever takes the number itself: a set, an index, a text, a copy.
    __hash__ = __index__ = __int__ = __float__ = __complex__ = _lost
    __repr__ = __str__ = __format__ = __reduce_ex__ = _lost


def _is_number(value: Any) -> bool:
    return type(value) in (TracedInt, int, bool) or (type(value) is float and math.isfinite(value))


def _value(number: Any) -> Number:
    return number.value if type(number) is TracedInt else number


def _name(number: Any) -> str:
    return number.name if type(number) is TracedInt else f"({number!r})"


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any], *, swapped: bool) -> Any:
    def method(self: TracedInt, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        left, right = (other, self) if swapped else (self, other)
        if symbol in ("//", "%", "/") and right == 0:
            raise self.watch.lose()
        if type(other) is int and type(self.value) is int:
            if (symbol, other) in (("+", 0), ("*", 1)):
                return self
            if (symbol, other) == ("*", 0):
                return 0
        value = function(_value(left), _value(right))
        return self.watch.made(f"{_name(left)} {symbol} {_name(right)}", value)

    return method


def _comparison(symbol: str, function: Callable[[Any, Any], bool]) -> Any:
    def method(self: TracedInt, other: Any) -> Any:
        if type(other) is float and not math.isfinite(other):
            return function(self.value, other)  # the same for all numbers
        if not _is_number(other):
            return NotImplemented
        value = function(self.value, _value(other))
        if self is other:
            return value
        return self.watch.ended(f"{self.name} {symbol} {_name(other)}", value)

    return method


_OPERATIONS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "truediv": "/"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
for _called, _symbol in _OPERATIONS.items():
    _function: Any = getattr(operator, _called)
    setattr(TracedInt, f"__{_called}__", _arithmetic(_symbol, _function, swapped=False))
    setattr(TracedInt, f"__r{_called}__", _arithmetic(_symbol, _function, swapped=True))
for _called, _symbol in _COMPARISONS.items():
    setattr(TracedInt, f"__{_called}__", _comparison(_symbol, getattr(operator, _called)))


def _text(results: Any) -> str:
    """Nested tuples of numbers as source text."""
    if type(results) is not tuple:
        return _name(results)
    parts = cast("tuple[Any, ...]", results)
    return f"({''.join(f'{_text(part)}, ' for part in parts)})"


def filled(value: Any, numbers: Mapping[str, int]) -> Any:
    """A value with its traced numbers replaced, in tuples and frozen dataclasses."""
    fill = filler(value)
    return value if fill is None else fill(numbers)


def filler(value: Any) -> Callable[[Mapping[str, int]], Any] | None:
    """A function that substitutes a value's traced numbers; None where it has none.

    It looks for them once, and so takes less time than the search.
    """
    if type(value) is TracedInt:
        return operator.itemgetter(value.name)
    if type(value) is tuple:
        whole = cast("tuple[Any, ...]", value)
        return _filler_of(whole, lambda *parts: parts)
    if not is_dataclass(value) or isinstance(value, (type, *_WITHOUT_NUMBERS)):
        return None
    kind = type(value)
    named = [each for each in fields(value) if each.init]
    parts = tuple([getattr(value, each.name) for each in named])
    if not any(each.kw_only for each in named):
        return _filler_of(parts, kind)
    names = [each.name for each in named]
    return _filler_of(parts, lambda *parts: kind(**dict(zip(names, parts, strict=True))))


def _filler_of(
    parts: tuple[Any, ...], make: Callable[..., Any]
) -> Callable[[Mapping[str, int]], Any] | None:
    """The filler of a composite value, some of whose parts have traced numbers."""
    changes = [(n, made) for n, part in enumerate(parts) if (made := filler(part)) is not None]
    if not changes:
        return None

    def fill(numbers: Mapping[str, int]) -> Any:
        made = list(parts)
        for place, change in changes:
            made[place] = change(numbers)
        return make(*made)

    return fill
