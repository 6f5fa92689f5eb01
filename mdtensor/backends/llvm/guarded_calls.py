"""A cache of calls: a built-in function checks arguments against entries and launches directly.

It does what Python would do for a call whose arguments have the layouts of an earlier one: it makes
the result and launches. A call that fits no entry gives an object that says so, and Python goes on.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from mdtensor.backends.host.array_exchange import ArrayExchange
from mdtensor.backends.llvm import presence
from mdtensor.backends.llvm.guard_words import MOST_RESULTS, EntryWords, Item, Table
from mdtensor.backends.llvm.native_launch import (
    NativeLaunch,
    NativeRecord,
    graph_table,
    has_lock,
    runs_at_once,
)
from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec

MOST = 256  # entries of a function
_FOREVER = 1 << 62  # launches
_type_of: Any = type
_NEW_ARRAY, _RETURN_ARRAY = 94, 76  # places of PyArray_NewFromDescr and PyArray_Return


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """A call to cache: its arguments, their trailing names, and its launch.

    Argument `out` is the result, the other arrays are what the operands lie in: each begins in the
    array with a number among them at a byte, or is one of them, in order. Without an `out` the
    result is a new array of the one spec in `results`, or its element where that has no axes; or
    what `make` makes, such an array or one of another library, a tuple of them for several. The
    launch is a built-in function of `NativeLaunch`, or one that takes a stream and a tuple of
    addresses, and gives whether it launched. It is called so many times more as are `left`, by
    default for ever.

    `exchanges` has what describes the arguments that are other libraries' arrays, by their classes.
    """

    arguments: Sequence[Any]
    names: tuple[str, ...]
    launch: Any
    results: tuple[TensorSpec, ...]
    out: int = -1
    left: int = _FOREVER
    make: Callable[[], Any] | None = None
    exchanges: Mapping[type, ArrayExchange] = {}
    operands: Sequence[tuple[int, int]] | None = None


class GuardedCalls:
    """The trampoline `call` with its table of entries; it returns `missed` for other calls.

    Where the list `watchers` has an element, it knows no call. One thread at a time may change
    what it knows; any may call.
    """

    def __init__(self, native: NativeLaunch, watchers: list[Any], missed: object) -> None:
        words = [0] * (Table.ENTRIES + MOST)
        words[Table.WATCHERS] = id(watchers) + object.__basicsize__  # the length of the list
        words[Table.MISSED] = id(missed)
        words[Table.ARRAY_TYPE], words[Table.STRING_TYPE] = id(np.ndarray), id(str)
        words[Table.NEW_ARRAY], words[Table.RETURN_ARRAY] = _functions_of_numpy()
        table = np.array(words, np.int64).view(NativeRecord)
        table.keeps = (watchers, missed, native)
        self._table = table
        self._entries: dict[
            int, NativeRecord
        ] = {}  # those of the table at least, by their addresses
        self._held = (self._entries,)
        table[Table.HOLDER] = id(self._entries)
        self._next = 0
        self.call = native.guarded(table)

    def add(self, call: GuardedCall) -> np.ndarray:
        """Add an entry, evicting the oldest one; `counted_by` counts its calls."""
        entry = _entry_of(call)
        place = self._next
        self._next = (place + 1) % MOST
        # Whatever interrupts this, the table has no place of an entry that nobody holds.
        address, oldest = entry.ctypes.data, int(self._table[Table.ENTRIES + place])
        self._hold(self._entries | {address: entry})
        self._table[Table.ENTRIES + place] = address
        self._table[Table.COUNT] = max(self._table[Table.COUNT], place + 1)
        if oldest:
            self._hold({each: its for each, its in self._entries.items() if each != oldest})
        return entry

    def _hold(self, entries: dict[int, NativeRecord]) -> None:
        """Keep entries alive, also for calls under way."""
        at_least = [each for each in self._held if id(each) == self._table[Table.HOLDER]]
        self._held = (*at_least, entries)
        self._table[Table.HOLDER] = id(entries)
        self._entries, self._held = entries, (entries,)

    def keep(self, entries: Sequence[NativeRecord]) -> None:
        """Remove all entries but these, which are in the order in which they were added."""
        kept = {entry.ctypes.data: entry for entry in entries}
        self._table[Table.COUNT] = self._table[Table.LAST] = 0
        self._table[Table.ENTRIES :] = [*kept, *[0] * (MOST - len(kept))]
        self._table[Table.COUNT] = len(kept)
        self._next = len(kept) % MOST
        self._hold(kept)


def counted_by(entry: np.ndarray) -> int:
    """The number of calls that an entry has served."""
    return int(entry[EntryWords.COUNTED])


def is_possible(results: int) -> bool:
    """Whether the trampoline is supported, for calls with `results` results.

    It takes for granted that Python lets one thread run at a time.
    """
    return bool(presence.devices()) and has_lock() and results <= MOST_RESULTS


def _entry_of(call: GuardedCall) -> NativeRecord:
    result, keeps, count = call.results[0], list[Any](), len(call.results)
    axes = len(result.shape)
    is_native = runs_at_once(call.launch)
    exchange = next(
        (call.exchanges[type(each)] for each in call.arguments if type(each) in call.exchanges),
        None,
    )
    words = [0] * (EntryWords.SHAPE + axes)
    words[EntryWords.POSITIONAL] = len(call.arguments) - len(call.names)
    words[EntryWords.NAMED], words[EntryWords.LEFT] = len(call.names), call.left
    record = call.launch.__self__.ctypes.data if is_native else id(call.launch)
    words[EntryWords.LAUNCH] = record
    words[EntryWords.IS_PYTHON] = int(not is_native)
    words[EntryWords.GRAPHS] = graph_table(call.launch)
    words[EntryWords.OUT], words[EntryWords.AXES], words[EntryWords.RESULTS] = call.out, axes, count
    words[EntryWords.IS_ARRAY] = int(exchange is None)
    if call.out < 0:
        keeps.append(call.make or result.dtype)
        words[EntryWords.MAKER], words[EntryWords.IS_CALLED] = (
            id(keeps[-1]),
            int(call.make is not None),
        )
        words[EntryWords.IS_SCALAR] = int(not axes and count == 1 and exchange is None)
    else:
        words[EntryWords.IS_ARRAY] = int(type(call.arguments[call.out]) is np.ndarray)
    if exchange is not None:
        words[EntryWords.EXCHANGE] = exchange.words.ctypes.data
    words[EntryWords.SHAPE :] = result.shape
    words[EntryWords.ITEMS] = len(words)
    kinds = {np.ndarray, *call.exchanges}
    arrays = [n for n, each in enumerate(call.arguments) if type(each) in kinds and n != call.out]
    slots = {number: slot for slot, number in enumerate(arrays)} | {call.out: len(arrays)}
    words[EntryWords.ARRAYS] = words[EntryWords.OPERANDS] = len(arrays)
    if call.operands is not None:
        words[EntryWords.OPERANDS], words[EntryWords.CHOSEN] = len(call.operands), len(words)
        words += [word for pair in call.operands for word in pair]
        words[EntryWords.ITEMS] = len(words)
    given = words[EntryWords.OPERANDS] + count
    if is_native and (due := call.launch.__self__[0]) != given:
        raise ValueError(f"a launch of {due} arrays, operands and results, was given {given}")
    for number, argument in enumerate(call.arguments):
        if number >= words[EntryWords.POSITIONAL]:
            name = sys.intern(call.names[number - words[EntryWords.POSITIONAL]])
            keeps.append(name)
            words.append(id(name))
        kind = _type_of(argument)
        its = call.exchanges.get(kind)
        if its is not None:
            layout = its.layout(argument)
            words[EntryWords.DEVICE] = layout.device
            words += [Item.EXCHANGED, id(kind)]
            size = layout.itemsize
            words += _lies(slots[number], layout.shape, layout.strides, size, size)
            words += [its.words.ctypes.data, layout.device, layout.kind]
            keeps += [kind, its]
        elif kind is np.ndarray:
            keeps.append(argument.dtype)
            words += [Item.ARRAY, id(keeps[-1])]
            words += _lies(slots[number], argument.shape, argument.strides, argument.itemsize)
        else:
            keeps.append(argument)
            words += [Item.STRING if kind is str else Item.SAME, id(argument)]
    entry = np.array(words, np.int64).view(NativeRecord)
    entry.keeps = (*keeps, call.launch)
    return entry


def _lies(
    slot: int, shape: Sequence[int], strides: Sequence[int], itemsize: int, step: int = 1
) -> list[int]:
    """The words of an array's layout: axes, memory bounds, slot, extents and strides.

    Memory is in bytes from the first element on; strides are in so many bytes as is a `step`.
    """
    reach = [stride * step * (n - 1) for n, stride in zip(shape, strides, strict=True)]
    begin, end = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach) + itemsize
    return [len(shape), begin, end, slot, *shape, *strides]


@cache
def _functions_of_numpy() -> tuple[int, int]:
    """The addresses of PyArray_NewFromDescr and PyArray_Return in NumPy's C API."""
    from numpy._core import _multiarray_umath  # pyright: ignore

    get: Any = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = get(_multiarray_umath._ARRAY_API, None)  # pyright: ignore
    functions = (ctypes.c_void_p * (_NEW_ARRAY + 1)).from_address(table)
    return functions[_NEW_ARRAY] or 0, functions[_RETURN_ARRAY] or 0
