"""Calls that were seen before: a built-in function checks their arguments and launches a kernel.

It does what Python would do for a call whose arguments have the layouts of an earlier one: it makes
the result and launches. A call that fits no entry gives an object that says so, and Python goes on.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from mdtensor.backends.llvm.native_launch import LaunchRecord, NativeLaunch
from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec

MOST = 16  # entries of a function
_FOREVER = 1 << 62  # launches
_NEW_ARRAY, _RETURN_ARRAY = 94, 76  # places of PyArray_NewFromDescr and PyArray_Return
_SAME, _STRING, _ARRAY = range(3)  # kinds of arguments
_COUNTED, _KEEPER, _DIMS = 3, 11, 12  # words of an entry


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """A call: its arguments, the names of the last ones, and the launch that it comes to.

    Arrays are operands in their order, but for number `out`, which is the result; without one the
    result is a new array of a `result`, or its element where that has no axes. It is launched so
    many times more as are `left`, by default for ever.
    """

    arguments: Sequence[Any]
    names: tuple[str, ...]
    launch: Any
    result: TensorSpec
    out: int = -1
    left: int = _FOREVER


class GuardedCalls:
    """The built-in function `call`, and what it knows; `missed` is what it gives for other calls.

    Where the list `watchers` has an element, it knows no call. One thread at a time may change
    what it knows; any may call.
    """

    def __init__(self, native: NativeLaunch, watchers: list[Any], missed: object) -> None:
        new_array, return_array = _functions_of_numpy()
        size_of_list = id(watchers) + object.__basicsize__
        words = [size_of_list, id(missed), id(np.ndarray), id(str), new_array, return_array, MOST]
        table = np.array([*words, *[0] * MOST], np.int64).view(LaunchRecord)
        table.keeps = (watchers, missed, native)
        self._table, self._first = table, len(words)
        self._entries: list[LaunchRecord] = []  # those of the table, at least
        self._next = 0
        self.call = native.guarded(table)

    def add(self, call: GuardedCall) -> np.ndarray:
        """Adds an entry, in the place of the oldest one; its word `COUNTED` counts its calls."""
        entry = _entry_of(call)
        place = self._next
        self._next = (place + 1) % MOST
        # Whatever interrupts this, the table has no place of an entry that nobody holds.
        self._entries.append(entry)
        self._table[self._first + place] = entry.ctypes.data
        places = {*self._table[self._first :].tolist()}
        self._entries = [each for each in self._entries if each.ctypes.data in places]
        return entry

    def clear(self) -> None:
        """Forgets all calls."""
        self._table[self._first :] = 0
        self._entries = []


def counted_by(entry: np.ndarray) -> int:
    """How many calls an entry has launched."""
    return int(entry[_COUNTED])


def is_possible() -> bool:
    """Whether Python lets one thread run at a time, as the built-in function takes for granted."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def _entry_of(call: GuardedCall) -> LaunchRecord:
    positional = len(call.arguments) - len(call.names)
    result, keeps = call.result, list[Any]()
    axes, dtype = len(result.shape), 0
    if call.out < 0:
        dtype = id(result.dtype)
        keeps.append(result.dtype)
    operands = sum(type(each) is np.ndarray for each in call.arguments) - (call.out >= 0)
    items: list[int] = []
    for number, argument in enumerate(call.arguments):
        if number >= positional:
            name = sys.intern(call.names[number - positional])
            keeps.append(name)
            items.append(id(name))
        if type(argument) is np.ndarray:
            keeps.append(argument.dtype)
            items += [_ARRAY, id(keeps[-1]), argument.ndim, *_bounds(argument)]
            items += [*argument.shape, *argument.strides]
        else:
            keeps.append(argument)
            items += [_STRING if type(argument) is str else _SAME, id(argument)]
    words = [positional, len(call.names), call.left, 0, id(call.launch.__self__), dtype]
    words += [int(not axes), axes, call.out, operands, _DIMS + axes, 0, *result.shape, *items]
    entry = np.array(words, np.int64).view(LaunchRecord)
    entry.keeps = (*keeps, call.launch)
    entry[_KEEPER] = id(entry)
    return entry


def _bounds(array: np.ndarray) -> tuple[int, int]:
    """Where an array's memory begins and ends, in bytes from its first element on."""
    reach = [stride * (n - 1) for n, stride in zip(array.shape, array.strides, strict=True)]
    return sum(min(0, r) for r in reach), sum(max(0, r) for r in reach) + array.itemsize


@cache
def _functions_of_numpy() -> tuple[int, int]:
    """The addresses of NumPy's functions that make an array, and a number of one without axes."""
    from numpy._core import _multiarray_umath  # pyright: ignore

    get: Any = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = get(_multiarray_umath._ARRAY_API, None)  # pyright: ignore
    functions = (ctypes.c_void_p * (_NEW_ARRAY + 1)).from_address(table)
    return functions[_NEW_ARRAY] or 0, functions[_RETURN_ARRAY] or 0
