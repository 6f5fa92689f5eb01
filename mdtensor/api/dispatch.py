"""What is kept of calls for those that follow, and when it is dropped.

Front ends keep launches in tables, plans keep their own. All are dropped when better kernels may
exist.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

Array = Any

# CuPy's class of arrays and the number of the current CUDA device, once a call had such arrays.
cupy_array: type | None = None


def current_device() -> int:
    """The number of the current CUDA device; replaced when CuPy is there."""
    return 0


# The launches of the calls of each front end, by the key of a call.
tables: list[dict[tuple[object, ...], Callable[..., Array]]] = []
_clearings: list[int] = [0]


class Forgetful(Protocol):
    """What keeps launches of its own."""

    def forget(self) -> None:
        """Drops the launches; better ones may exist."""
        ...


_listeners: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def when_cleared(keeper: Forgetful) -> None:
    """Has an object forget its launches, as long as it lives, whenever the tables are cleared."""
    _listeners.add(keeper)


def clear() -> None:
    """Empties the tables, and lets plans forget their launches; later calls make new ones."""
    _clearings[0] += 1
    for table in tables:
        table.clear()
    for keeper in list(_listeners):
        keeper.forget()


def generation() -> int:
    """How often the tables were cleared; what was chosen in an earlier generation is not kept."""
    return _clearings[0]


def knows_cupy(cupy: Any) -> None:
    """Lets calls on CuPy arrays be in the tables; their keys end with the current device."""
    global cupy_array, current_device
    cupy_array, current_device = cupy.ndarray, cupy.cuda.runtime.getDevice
