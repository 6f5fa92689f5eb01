"""Flat buffers: one-dimensional memory of a host or a GPU, for kernels."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import kind_of

# Elements that are compared at once: on processors, what their caches hold.
_BLOCK = 1 << 16
# An array of NumPy or CuPy.
Array = Any


@dataclass(frozen=True, slots=True)
class Flat:
    """A buffer as one-dimensional memory, with the index of its element 0."""

    memory: Array
    origin: int

    @property
    def array(self) -> Array:
        """The memory from element 0 on, as kernels take it."""
        return self.memory[self.origin :]

    def at(self, addresses: np.ndarray) -> np.ndarray:
        """The elements at addresses, copied to the host."""
        xp = importlib.import_module(type(self.memory).__module__.partition(".")[0])
        return _hosted(self.memory[xp.asarray(addresses + self.origin)])

    def fill(self, byte: int) -> None:
        """Sets every byte."""
        self.memory.view(np.uint8).fill(byte)

    def ends(self, count: int) -> np.ndarray:
        """The bytes of the first and the last `count` elements."""
        ends = [_hosted(self.memory[:count]), _hosted(self.memory[-count:])]
        return np.concatenate(ends).view(np.uint8)

    def differs(self, before: Array, tolerance: float) -> bool:
        """Whether an element differs by more than a tolerance from an earlier copy."""
        memory = self.memory
        length = _BLOCK if type(memory) is np.ndarray else max(1, memory.size)
        return any(
            _differ(memory[start : start + length], before[start : start + length], tolerance)
            for start in range(0, memory.size, length)
        )


def _differ(memory: Array, before: Array, tolerance: float) -> bool:
    if kind_of(memory.dtype) not in "fc":
        return bool((memory != before).any())
    with np.errstate(invalid="ignore"):
        close = abs(memory - before) <= tolerance
        if close.all():
            return False
        close |= (memory == before) | ((memory != memory) & (before != before))
    return not bool(close.all())


def _hosted(array: Array) -> np.ndarray:
    hosted: np.ndarray = array.get() if hasattr(array, "get") else array
    return hosted
