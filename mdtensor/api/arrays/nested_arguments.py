"""Arguments of calls, with the items of nested tuples and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

_DEEPEST = 2  # levels of tuples and lists that are looked into; they may hold themselves


def mapped(function: Callable[[Any], Any], argument: Any, depth: int = _DEEPEST) -> Any:
    """Map a function over an argument, and over the items of tuples and lists.

    >>> mapped(abs, (-1, [-2, 3]))
    (1, [2, 3])
    """
    if depth and type(argument) in (tuple, list):
        several = cast("Sequence[Any]", argument)
        return type(argument)([mapped(function, each, depth - 1) for each in several])
    return function(argument)


def mapped_call(
    function: Callable[[Any], Any], args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Map a function over all arguments of a call, positional and named, as `mapped` does."""
    named = {name: mapped(function, option) for name, option in options.items()}
    return [mapped(function, argument) for argument in args], named
