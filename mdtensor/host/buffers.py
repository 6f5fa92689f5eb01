"""Buffers: arrays with copies on host and devices that are kept coherent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DTypeError, IndexingError, ShapeError, shown
from mdtensor.host.buffer_state import HOST, BufferState, Range
from mdtensor.host.host_devices import LOCK, Device, DeviceCommand
from mdtensor.host.profiling import noted
from mdtensor.options import beginning, is_iterable, whole

Array = Any
MOST_AXES = 64  # that NumPy's arrays have


class Part:
    """A view of a buffer's rows, `x[a:b]`, readable and writable like the buffer."""

    def __init__(self, whole: BufferMemory, begin: int, end: int, shape: tuple[int, ...]) -> None:
        self.whole, self.begin, self.end, self.shape = whole, begin, end, shape
        self.dtype = whole.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.end - self.begin

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError("a buffer without axes has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Part:
        """A view of rows; IndexingError out of bounds, and for other indices."""
        if index is Ellipsis:
            return self
        if not self.shape or type(index) is not slice or index.step not in (None, 1):
            raise IndexingError(
                f"a buffer has no {shown(index)}",
                hint="x[a:b], rows without steps, or x.numpy() for an array of NumPy's",
            )
        rows = self.shape[0]
        begin = 0 if index.start is None else whole("a row", index.start)
        end = rows if index.stop is None else whole("a row", index.stop)
        begin, end = begin + rows * (begin < 0), end + rows * (end < 0)
        if not 0 <= begin <= end <= rows:
            raise IndexingError(
                f"rows {begin} to {end} of a buffer that has {rows}",
                hint="parts are not cut off where the buffer ends, as NumPy's are",
            )
        of_row = math.prod(self.shape[1:])
        first = self.begin + begin * of_row
        shape = (end - begin, *self.shape[1:])
        return Part(self.whole, first, first + (end - begin) * of_row, shape)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write elements in host memory; devices copy them when they next read them."""
        part = self[index]
        if isinstance(value, Part):
            value = value.numpy()
        given = np.asarray(value)
        if not np.can_cast(given.dtype, part.dtype, "same_kind"):
            raise DTypeError(f"a buffer of {part.dtype} cannot take {shown(given)}")
        try:
            elements = np.broadcast_to(given, part.shape)
        except ValueError:
            raise ShapeError(f"{part!r} cannot take {shown(given)}") from None
        part.whole.write_on_host(part.begin, part.end, elements)

    def numpy(self) -> Array:
        """A read-only NumPy array of the elements, after waiting for them.

        It does not change where the buffer does. Raises LaunchError where a command that the
        elements wait for failed, ArgumentError where they were never written.
        """
        with LOCK:
            array, after = self.whole.lent(self.begin, self.end)
        waiting = [command for command in after if not command.is_done()]
        if waiting:
            with noted("wait", "for a buffer"):
                for command in waiting:
                    command.wait()
        return array.reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype, copy=copy)

    def __repr__(self) -> str:
        return f"<buffer {self.shape} of {self.dtype}>"


class DeviceBuffer(Part):
    """An array for user kernels on any device; see `host.buffer`."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], array: Array | None) -> None:
        size = math.prod(shape)
        super().__init__(BufferMemory(size, dtype, array), 0, size, shape)


class BufferMemory:
    """A buffer's allocations on host and devices, with their coherence state; guarded by LOCK.

    A device has memory for the elements from the first to the last that it was given.
    """

    def __init__(self, size: int, dtype: np.dtype[Any], array: Array | None) -> None:
        self.size, self.dtype = size, dtype
        self._host = array
        self._memory: dict[Device, tuple[int, int, Any]] = {}  # first, behind the last, memory
        self._state = BufferState(size, is_filled=array is not None)

    def lent(self, begin: int, end: int) -> tuple[Array, list[DeviceCommand]]:
        """A read-only host view, and the commands to wait for before it is up to date."""
        after = self.bring(HOST, begin, end)
        for each in self._state.within(begin, end):
            each.is_lent = True
        view = self._on_host()[begin:end]
        view.flags.writeable = False
        return view, after

    def write_on_host(self, begin: int, end: int, elements: Array) -> None:
        """Write elements in host memory; copies on devices become stale."""
        with LOCK:
            found = self._state.within(begin, end)
            self._free_host(found)
            for each in found:
                _wait(each)
            self._on_host()[begin:end].reshape(elements.shape)[...] = elements
            self._state.written(begin, end, HOST, None)

    def make_room(self, device: Device, begin: int, end: int) -> None:
        """Allocate memory for the elements on a device; may move others that it has."""
        known = self._memory.get(device)
        if known is not None and known[0] <= begin and end <= known[1]:
            return
        size, low, high = self.dtype.itemsize, begin, end
        if known is not None:  # at least twice as much, so that a buffer moves few times
            twice = 2 * (known[1] - known[0])
            low = begin if begin >= known[0] else max(0, min(begin, known[1] - twice))
            low = min(low, known[0])
            high = max(end, known[1], min(self.size, known[0] + twice if end > known[1] else 0))
        memory = device.native.empty((high - low) * size)
        if known is not None:
            first, last, old = known
            self._move(device, first, last, (memory, (first - low) * size, old))
        self._memory[device] = low, high, memory

    def _move(self, device: Device, first: int, last: int, places: tuple[Any, int, Any]) -> None:
        """Copy elements, stale ones too, to a new allocation on the same device."""
        ranges = self._state.within(first, last)
        memory, to, old = places
        # Also for stale ones, since what uses them lets go of the old memory then.
        after = [command for each in ranges for command in each.before_write(device)]
        nbytes = (last - first) * self.dtype.itemsize
        command = device.copy(memory, to, old, 0, nbytes, after) if nbytes else None
        for each in ranges:
            each.used[device] = [command] if command else []
            if device in each.newest:
                each.newest[device] = command

    def memory(self, device: Device, begin: int, end: int) -> Any:
        """The kernel argument for these elements on a device."""
        first, _, memory = self._memory[device]
        size = self.dtype.itemsize
        return device.native.part(memory, (begin - first) * size, (end - begin) * size)

    def bring(self, place: Device | None, begin: int, end: int) -> list[DeviceCommand]:
        """Copy stale elements to a place; the commands after which all are valid there.

        Raises ArgumentError where elements were never written.
        """
        found = self._state.within(begin, end)
        for each in found:
            if not each.newest:
                raise ArgumentError(
                    f"elements {each.begin} to {each.end} of a buffer are read, and were never"
                    " written",
                    hint="x[a:b] = … writes them, or a kernel with host.write(x)",
                )
        stale = [each for each in found if place not in each.newest]
        if place is None:
            self._free_host(stale)
        for each in stale:
            if place is None:
                self._bring_home(each)
            else:
                self._bring_to(place, each)
        return [command for each in found if (command := each.newest[place]) is not None]

    def before_write(self, device: Device, begin: int, end: int) -> list[DeviceCommand]:
        """The commands that a kernel which writes the elements waits for."""
        ranges = self._state.within(begin, end)
        return [command for each in ranges for command in each.before_write(device)]

    def used(self, device: Device, begin: int, end: int, command: DeviceCommand) -> None:
        """Record a kernel that reads the elements."""
        for each in self._state.within(begin, end):
            each.use(device, command)

    def written(self, device: Device, begin: int, end: int, command: DeviceCommand) -> None:
        """Record a kernel that writes the elements."""
        self._state.written(begin, end, device, command)

    def _bring_home(self, each: Range) -> None:
        source = next(place for place in each.newest if place is not None)
        first, _, memory = self._memory[source]
        brought = each.newest[source]
        after = [*each.used.get(HOST, ()), *([] if brought is None else [brought])]
        at = (each.begin - first) * self.dtype.itemsize
        command = source.get(self._bytes(each), memory, at, after)
        each.use(source, command)
        each.newest[HOST] = command
        each.used[HOST] = [command]

    def _bring_to(self, device: Device, each: Range) -> None:
        """Copy a range to a device, from one of the same family or else by way of the host."""
        family = device.native.family
        near = (p for p in each.newest if p is not None and p.native.family == family)
        source = next(near, None)
        first, _, memory = self._memory[device]
        size = self.dtype.itemsize
        at = (each.begin - first) * size
        if source is None and HOST not in each.newest:
            self._free_host([each])
            self._bring_home(each)
        brought = each.newest[source]
        after = [*each.used.get(device, ()), *([] if brought is None else [brought])]
        if source is None:
            command = device.put(memory, at, self._bytes(each), after)
        else:
            begin, _, theirs = self._memory[source]
            nbytes = (each.end - each.begin) * size
            command = device.copy(memory, at, theirs, (each.begin - begin) * size, nbytes, after)
        each.use(source, command)
        each.newest[device] = command
        each.used[device] = [command]

    def _on_host(self) -> Array:
        if self._host is None:
            self._host = np.empty(self.size, self.dtype)
        return self._host

    def _bytes(self, each: Range) -> Array:
        return self._on_host()[each.begin : each.end].view(np.uint8)

    def _free_host(self, ranges: Iterable[Range]) -> None:
        """Reallocate host memory if the caller has a view of a range about to change."""
        ranges = [*ranges]
        if self._host is None or not any(each.is_lent for each in ranges):
            return
        old, self._host = self._host, np.empty(self.size, self.dtype)
        for each in self._state.ranges:
            if HOST in each.newest and not any(each is other for other in ranges):
                _wait(each)
                self._host[each.begin : each.end] = old[each.begin : each.end]
            each.is_lent = False


def _wait(each: Range) -> None:
    """Wait for all commands that use a range's host memory."""
    for command in each.before_write(HOST):
        command.wait()
    each.used.pop(HOST, None)
    if HOST in each.newest:
        each.newest[HOST] = None


def buffer(array: Any) -> DeviceBuffer:
    """A buffer with a copy of an array's elements.

    >>> x = buffer([1.0, 2.0, 3.0])
    >>> x
    <buffer (3,) of float64>
    >>> x[1:] = 7
    >>> x.numpy()
    array([1., 7., 7.])

    Raises DTypeError for elements that are no numbers.
    """
    found = np.asarray(array)
    _check(found.dtype)
    return DeviceBuffer(found.shape, found.dtype, np.array(found, order="C", copy=True).reshape(-1))


def empty(shape: int | Sequence[int], dtype: Any = np.float32) -> DeviceBuffer:
    """An uninitialised buffer; memory is allocated when elements are first written.

    Raises ShapeError for what is no shape, DTypeError for elements that are no numbers.

    >>> empty((2, 3), "int32")
    <buffer (2, 3) of int32>
    """
    extents = whole_numbers("shape", shape)
    if min(extents, default=0) < 0 or len(extents) > MOST_AXES:
        raise ShapeError(f"{shown(shape)} is no shape of a buffer")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{shown(dtype)} is no type of elements") from None
    _check(kind)
    return DeviceBuffer(extents, kind, None)


def whole_numbers(name: str, given: Any) -> tuple[int, ...]:
    """One or several integers as a tuple; DTypeError for anything else."""
    several = beginning(given, MOST_AXES) if is_iterable(given) else [given]
    return tuple(whole(name, each) for each in several)


def _check(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biufcV" or dtype.hasobject or not dtype.itemsize:
        raise DTypeError(f"a buffer has numbers or records, and no {dtype}")
    if not dtype.isnative:
        raise DTypeError(f"a buffer has bytes in the order of this machine, unlike {dtype}")


@dataclass(frozen=True, slots=True)
class Access:
    """A buffer argument of a kernel, with its access mode."""

    part: Part
    kind: Literal["read", "write", "read_write"]

    @property
    def reads(self) -> bool:
        """Whether the kernel reads existing elements."""
        return self.kind != "write"

    @property
    def writes(self) -> bool:
        """Whether the kernel writes elements."""
        return self.kind != "read"


def read(part: Part) -> Access:
    """Pass a buffer, or rows of it, to a kernel that only reads it."""
    return _access(part, "read")


def write(part: Part) -> Access:
    """Pass a buffer, or rows of it, to a kernel that overwrites every element."""
    return _access(part, "write")


def read_write(part: Part) -> Access:
    """Pass a buffer, or rows of it, to a kernel that reads and writes, or writes some elements."""
    return _access(part, "read_write")


def _access(part: Any, kind: Literal["read", "write", "read_write"]) -> Access:
    if not isinstance(part, Part):
        raise DTypeError(
            f"host.{kind} takes a buffer, and got {shown(part)}",
            hint="host.buffer(array) makes one",
        )
    return Access(part, kind)
