"""CuPy arrays: their class, and the library, registered by the first call that has one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.backends.cuda.cuda_stream import stream_at

Array = Any
_IN_C_ORDER = "_c_contiguous"


class CupyLibrary:
    """The functions of CuPy that calls use."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        runtime = cupy.cuda.runtime
        self.current_device: Callable[[], int] = runtime.getDevice
        # Makes a CUDA device this thread's current one.
        self.use_device: Callable[[int], object] = runtime.setDevice
        self.may_share_memory: Callable[[Array, Array], bool] = cupy.may_share_memory
        # Whether an array is known to be in C order without gaps, which tells its strides: CuPy
        # keeps that, and makes strides anew whenever they are asked for. Its strides where it does
        # not say.
        is_kept = hasattr(cupy.ndarray, _IN_C_ORDER)
        self.order_of: Callable[[Array], Any]
        self.order_of = operator.attrgetter(_IN_C_ORDER if is_kept else "strides")

    def device_at(self, address: int) -> int:
        """The number of the CUDA device that owns an address."""
        return self._cupy.cuda.runtime.pointerGetAttributes(address).device

    def current_stream(self) -> int:
        """The CUDA handle of the current stream."""
        return self._cupy.cuda.get_current_stream().ptr

    def on_stream(self, stream: int) -> Any:
        """A context that makes the stream of a CUDA handle current."""
        return stream_at(self._cupy, stream)

    def allocating(self, allocate: Callable[[int], tuple[int, object]]) -> Any:
        """A context in which CuPy allocates by a function: bytes to an address and its owner."""
        cuda = self._cupy.cuda

        def memory(nbytes: int) -> Any:
            place, owner = allocate(nbytes)
            unowned = cuda.UnownedMemory(place, nbytes, owner, self.current_device())
            return cuda.MemoryPointer(unowned, 0)

        return cuda.using_allocator(memory)

    def array_at(
        self,
        place: int,
        shape: Sequence[int],
        strides: Sequence[int],
        dtype: np.dtype,
        device: int,
    ) -> Array:
        """A non-owning array at an address, with strides in elements."""
        cuda = self._cupy.cuda
        reach = sum(stride * (n - 1) for n, stride in zip(shape, strides, strict=True))
        memory = cuda.UnownedMemory(place, (reach + 1) * dtype.itemsize, None, device)
        steps = tuple([stride * dtype.itemsize for stride in strides])
        return self._cupy.ndarray(tuple(shape), dtype, cuda.MemoryPointer(memory, 0), steps)


# None until a call has arrays of CuPy's, or asks for one of its devices.
array_class: type | None = None
_library: CupyLibrary | None = None


def knows(cupy: Any) -> None:
    """Registers CuPy and so enables its call caches: keys then end with the current device."""
    global array_class, _library
    if _library is None:
        _library, array_class = CupyLibrary(cupy), cupy.ndarray


def library() -> CupyLibrary:
    """The CuPy library; at least one call has had a CuPy array."""
    assert _library is not None, "no call had an array of CuPy's"
    return _library


def current_device() -> int:
    """The number of the current CUDA device; 0 before any call had CuPy arrays."""
    return 0 if _library is None else _library.current_device()
