"""Invalidation of call caches: which ones there are, and when they are dropped.

Front ends keep launches in tables, plans keep their own. All are dropped when better kernels may
exist.
"""

from __future__ import annotations

import functools
import itertools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from mdtensor.backends.cuda.cuda_stream import stream_at

Array = Any
_IN_C_ORDER = "_c_contiguous"

# CuPy's class of arrays and the number of the current CUDA device, once a call had such arrays.
cupy_array: type | None = None
# Whether a call had tensors of torch.
has_tensors = False


def current_device() -> int:
    """The number of the current CUDA device; replaced when CuPy is there."""
    return 0


def use_device(number: int, /) -> None:
    """Makes a CUDA device this thread's current one; replaced when CuPy is there."""


def device_at(address: int) -> int | None:
    """The number of the CUDA device that has this memory; replaced when CuPy is there."""


def current_stream() -> int:
    """CUDA's handle of CuPy's current stream; replaced when CuPy is there."""
    return 0


def on_stream(stream: int, /) -> Any:
    """A context whose calls are on a stream of CUDA's handle; replaced when CuPy is there."""
    raise NotImplementedError


def allocating(allocate: Callable[[int], tuple[int, object]], /) -> Any:
    """A context whose memory of CuPy's is what a function of bytes gives: an address and its owner.

    Replaced when CuPy is there.
    """
    raise NotImplementedError


def array_at(
    place: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype, device: int
) -> Array:
    """CuPy's array in memory that it does not own, strides in elements; replaced as well."""
    raise NotImplementedError


def order_of(array: Array, /) -> Any:
    """Whether an array of CuPy's is known to be in C order without gaps, which tells its strides.

    CuPy keeps that, and makes strides anew whenever they are asked for. Its strides where it does
    not say; replaced when CuPy is there.
    """
    return array.strides


class Watch:
    """What has all calls ask what is meant for their context, for as long as it is there.

    No interrupt can come between its end and that of its element of `watchers`.
    """

    __slots__ = ("__weakref__",)


def watch() -> Watch:
    """A new watch, for a context to hold."""
    made = Watch()
    try:
        watchers.append(weakref.ref(made, watchers.remove))
        return made
    finally:
        del made  # which the traceback of an interrupt would keep


def may_share_memory(first: Array, second: Array) -> bool:
    """Whether arrays of CuPy's may have memory in common; replaced when CuPy is there."""
    return np.may_share_memory(first, second)


# One element for each call of any thread that is being recorded, and for each mode of
# tuning that was entered: where there is one, calls ask what is meant for their own context.
watchers: list[weakref.ref[Watch]] = []


class Clearable(Protocol):
    """A table of launches."""

    def clear(self) -> None:
        """Drops all entries."""
        ...


# The launches of the calls of each front end.
tables: list[Clearable] = []
_generations = itertools.count()  # of which no thread takes the number that another one takes
_generation = next(_generations)


class Forgetful(Protocol):
    """An object that keeps launches of its own."""

    def forget(self) -> None:
        """Drops the launches; better ones may exist."""
        ...


# By their numbers. No WeakSet: other threads may add to this one while it is gone through.
_listeners: dict[int, weakref.ref[Forgetful]] = {}


def when_cleared(keeper: Forgetful) -> None:
    """Registers an object, weakly, to forget its launches when the tables are cleared."""
    number = id(keeper)
    _listeners[number] = weakref.ref(keeper, lambda _: _listeners.pop(number, None))


def clear() -> None:
    """Empties the call caches, and lets plans and engines forget what was chosen.

    They do so twice: whoever sees the new generation finds nothing of the old one, and what was
    kept until then goes, too.
    """
    global _generation
    _forget()
    _generation = next(_generations)
    for table in tables:
        table.clear()
    _forget()


def _forget() -> None:
    for reference in list(_listeners.values()):
        keeper = reference()
        if keeper is not None:
            keeper.forget()


def generation() -> int:
    """The number of the current generation; launches chosen in an older one are not kept."""
    return _generation


def knows_cupy(cupy: Any) -> None:
    """Enables call caches for CuPy's arrays; keys then end with the current device."""
    global cupy_array, current_device, use_device, device_at, may_share_memory, order_of
    global current_stream, on_stream, allocating, array_at
    runtime = cupy.cuda.runtime
    current_device, use_device = runtime.getDevice, runtime.setDevice
    device_at = lambda address: runtime.pointerGetAttributes(address).device  # noqa: E731
    cupy_array = cupy.ndarray
    stream_of = cupy.cuda.get_current_stream
    current_stream = lambda: stream_of().ptr  # noqa: E731
    on_stream = functools.partial(stream_at, cupy)
    allocating = functools.partial(_allocating, cupy)
    array_at = functools.partial(_array_at, cupy)
    may_share_memory = cupy.may_share_memory
    if hasattr(cupy.ndarray, _IN_C_ORDER):
        order_of = operator.attrgetter(_IN_C_ORDER)


def _allocating(cupy: Any, allocate: Callable[[int], tuple[int, object]]) -> Any:
    def memory(nbytes: int) -> Any:
        place, owner = allocate(nbytes)
        unowned = cupy.cuda.UnownedMemory(place, nbytes, owner, current_device())
        return cupy.cuda.MemoryPointer(unowned, 0)

    return cupy.cuda.using_allocator(memory)


def _array_at(
    cupy: Any,
    place: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype,
    device: int,
) -> Array:
    reach = sum(stride * (n - 1) for n, stride in zip(shape, strides, strict=True))
    memory = cupy.cuda.UnownedMemory(place, (reach + 1) * dtype.itemsize, None, device)
    steps = tuple([stride * dtype.itemsize for stride in strides])
    return cupy.ndarray(tuple(shape), dtype, cupy.cuda.MemoryPointer(memory, 0), steps)
