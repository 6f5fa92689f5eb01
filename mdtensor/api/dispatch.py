"""The hot path: from the call's strings, shapes, strides and types to a launch.

A table maps the key of a call to a function that allocates the result, launches and returns. Any
call that needs more than that is not in the table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

Array = Any
Launch = Callable[..., Array]

SIZE = 4096
table: dict[tuple[object, ...], Launch] = {}


_versions = itertools.count(1)
_version = 0


def version() -> int:
    """Changes whenever launches made before may no longer be the best."""
    return _version


def clear() -> None:
    """Empties the table; later calls fill it again."""
    global _version
    _version = next(_versions)
    table.clear()


def remember(key: tuple[object, ...], launch: Launch) -> None:
    """Puts a launch into the table, which forgets all when it is full."""
    if len(table) >= SIZE:
        table.clear()
    table[key] = launch
