"""Memory blocks mapped from the system, and arrays in them."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np

_HUGE = 4 << 20  # bytes from which pages of 2 MB are asked for
_STEPS = 3  # an octave has 2**3 sizes
_PRIVATE: dict[str, Any] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)


def size_class(nbytes: int) -> int:
    """The block size for `nbytes` bytes: at most an eighth larger.

    >>> size_class(1 << 20), size_class((1 << 20) + 1), size_class(5_000_000)
    (1048576, 1179648, 5242880)
    """
    step = 1 << max(0, (nbytes - 1).bit_length() - 1 - _STEPS)
    return -(-nbytes // step) * step


class MemoryMap:
    """An anonymous, private memory map, which is unmapped with its last reference."""

    __slots__ = ("_memory", "address", "nbytes", "since")

    def __init__(self, nbytes: int) -> None:
        self._memory = mmap.mmap(-1, nbytes, **_PRIVATE)
        if nbytes >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a system without huge pages
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.nbytes = nbytes
        self.since = 0.0  # when it came into the pool


class PooledMemory:
    """The `base` of a pooled array; it keeps the block alive and has no other interface."""

    __slots__ = ("__array_interface__", "__block")

    __array_interface__: Mapping[str, Any]

    def __init__(self, block: MemoryMap) -> None:
        self.__block = block

    def __repr__(self) -> str:
        return f"<memory of mdtensor's pool, {self.__block.nbytes} bytes>"

    def array(self, layout: Mapping[str, Any]) -> np.ndarray:
        """The one array in this block; all others must be its views."""
        self.__array_interface__ = {**layout, "data": (self.__block.address, False)}
        array = np.asarray(self)
        del self.__array_interface__
        return array
