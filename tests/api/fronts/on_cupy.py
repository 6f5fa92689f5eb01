"""mdtensor on a GPU, for calls that are made with NumPy's arrays: copies there and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import mdtensor
from tests.lower.fuzz_cuda import bytes_at


class OnCupy:
    """What mdtensor has, with functions that take NumPy's arrays as CuPy's in the same layout.

    Arrays that share memory share it there too. What a call may write to, its `out`, is copied
    back, and its result. Elements that are not aligned, which CuPy's arrays cannot have, are
    copied to where they are.
    """

    def __getattr__(self, name: str) -> Any:
        there = getattr(mdtensor, name)
        return _moved(there) if callable(there) and not isinstance(there, type) else there


def _moved(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def moving(*arguments: Any, **options: Any) -> Any:
        journey = Journey()
        found = call(*journey.there(arguments), **journey.there(options))
        for here, there in journey.arrays:
            if any(here is out for out in _arrays_in(options.get("out"))):
                here[...] = there.get()
        return journey.back(found)

    return moving


def _arrays_in(value: Any) -> list[np.ndarray]:
    values = value if isinstance(value, tuple | list) else (value,)
    return [each for each in values if isinstance(each, np.ndarray)]


class Journey:
    """The arrays of one call, and their copies."""

    def __init__(self) -> None:
        import cupy

        self.cupy: Any = cupy
        self.arrays: list[tuple[np.ndarray, Any]] = []
        self._memory: dict[int, tuple[np.ndarray, Any]] = {}

    def there(self, value: Any) -> Any:
        """A value with CuPy's arrays in the place of NumPy's."""
        if isinstance(value, np.ndarray):
            return self._copy(value)
        if isinstance(value, tuple | list):
            return type(value)(self.there(each) for each in value)
        if isinstance(value, dict):
            return {key: self.there(each) for key, each in value.items()}
        return value

    def _copy(self, here: np.ndarray) -> Any:
        steps = [*here.strides, here.__array_interface__["data"][0]]
        if not here.size or any(step % max(1, here.dtype.alignment) for step in steps):
            copy = self.cupy.asarray(np.array(here))
        else:
            memory, low = self._memory_of(here)
            first = here.__array_interface__["data"][0] - low
            copy = self.cupy.ndarray(here.shape, here.dtype, memory.data + first, here.strides)
        self.arrays.append((here, copy))
        return copy

    def _memory_of(self, here: np.ndarray) -> tuple[Any, int]:
        """The copy of all memory that an array lies in, and the address of its first byte."""
        root: Any = here
        while (base := getattr(root, "base", None)) is not None:
            root = base
        low, high = np.lib.array_utils.byte_bounds(root)
        front = low % 64  # as far from a multiple of 64 bytes as here
        if low not in self._memory:
            memory = self.cupy.empty(front + high - low, np.uint8)
            memory[front:] = self.cupy.asarray(bytes_at(low, high - low, root))
            self._memory[low] = root, memory
        return self._memory[low][1], low - front

    def back(self, value: Any) -> Any:
        """A value with NumPy's arrays in the place of CuPy's."""
        for here, there in self.arrays:
            if value is there:
                return here
        if isinstance(value, tuple):
            return tuple(self.back(each) for each in value)
        if not isinstance(value, self.cupy.ndarray):
            return value
        if not value.ndim:
            return value.get()[()]
        order = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        axes = sorted(range(value.ndim), key=order.__getitem__)
        found = np.empty([value.shape[axis] for axis in order], value.dtype).transpose(axes)
        found[...] = value.get()
        return found
