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
# CuPy's class of arrays and the number of the current CUDA device, once a call had such arrays.
cupy_array: type | None = None


def current_device() -> int:
    """The number of the current CUDA device; replaced when CuPy is there."""
    return 0


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


def knows_cupy(cupy: Any) -> None:
    """Lets calls on CuPy arrays be in the table; their keys end with the current device."""
    global cupy_array, current_device
    cupy_array, current_device = cupy.ndarray, cupy.cuda.runtime.getDevice


def on_device(text: object, a: Array, b: Array) -> Launch | None:
    """The launch of a call on two CuPy arrays."""
    device = current_device()
    return table.get((text, a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, device))


def remember(key: tuple[object, ...], launch: Launch) -> None:
    """Puts a launch into the table, which forgets all when it is full."""
    if len(table) >= SIZE:
        table.clear()
    table[key] = launch
