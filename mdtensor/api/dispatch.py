"""The hot path: from the call's strings, shapes, strides and types to a launch.

A table maps the key of a call to a function that allocates the result, launches and returns. Any
call that needs more than that is not in the table.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

Array = Any
Launch = Callable[..., Array]

SIZE = 4096
table: dict[tuple[object, ...], Launch] = {}


class Forgetful(Protocol):
    """What keeps launches of its own."""

    def forget(self) -> None:
        """Drops the launches; better ones may exist."""
        ...


_listeners: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def when_cleared(keeper: Forgetful) -> None:
    """Has an object forget its launches, as long as it lives, whenever the table is cleared."""
    _listeners.add(keeper)


def clear() -> None:
    """Empties the table, and lets plans forget their launches; later calls make new ones."""
    table.clear()
    for keeper in list(_listeners):
        keeper.forget()


def remember(key: tuple[object, ...], launch: Launch) -> None:
    """Puts a launch into the table, which forgets all when it is full."""
    if len(table) >= SIZE:
        table.clear()
    table[key] = launch
