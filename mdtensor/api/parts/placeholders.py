"""Placeholders for arrays outside of memory, on which calls are planned.

They have the right shapes and types, and memory that nobody touches. The hook through which plans
see computations gets those of the call.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from mdtensor.api.calls import call_cache, call_trace, program_calls
from mdtensor.api.calls.program_calls import Planner
from mdtensor.dataclass import dataclass
from mdtensor.scoped import Given, Result, scoped
from mdtensor.specs import TensorSpec

# Bytes from which memory is reserved in the address space alone.
_LARGE = 1 << 16
_NO_RESERVE = 0x4000  # MAP_NORESERVE, of Linux, for which older Pythons have no name


class Placeholder(np.ndarray):
    """An array that stands in for another library's; calls on it bypass the call cache."""


@dataclass(slots=True)
class Placeholders:
    """A table from placeholders, by address and layout, to the arrays that they stand for."""

    arrays: dict[tuple[object, ...], Any] = field(default_factory=dict[tuple[object, ...], Any])
    held: list[np.ndarray] = field(default_factory=list[np.ndarray])

    def of(self, spec: Any, array: Any = None) -> np.ndarray:
        """A placeholder of an array: zeros with the shape and type of a spec, in C order.

        It is the array itself that has these, if no other is given.
        """
        place = reserved(TensorSpec.of(spec.shape, spec.dtype))
        return self.stands(place, spec if array is None else array)

    def stands(self, place: np.ndarray, array: Any) -> np.ndarray:
        """Register a view of `place` as the placeholder of an array."""
        place = place.view(Placeholder)
        self.held.append(place)
        self.arrays[place_of(place)] = array
        return place

    def array_of(self, value: Any) -> Any:
        """The array that a placeholder of this layout stands for; None for other arrays."""
        return self.arrays.get(place_of(value)) if isinstance(value, np.ndarray) else None

    def has_part(self, value: Any) -> bool:
        """Whether an array shares memory with a placeholder, whose elements are no data."""
        return any(np.may_share_memory(value, place) for place in self.held)


def planned_by(
    plan: Planner,
    function: Callable[Given, Result],
    /,
    *args: Given.args,
    **options: Given.kwargs,
) -> Result:
    """Calls a function with its requests handed to `plan` instead of run.

    Calls that the call cache knows are made in full, too.
    """
    planned = (program_calls.planner, plan), call_trace.unnoted()
    return scoped([*planned, *call_cache.noting([])], function, *args, **options)


def reserved(spec: TensorSpec) -> np.ndarray:
    """Zeros with the shape and strides of a spec; untouched pages take no memory.

    Raises MemoryError where there are no addresses for them.

    >>> reserved(TensorSpec.of((2, 3), "f8", strides=(-1, 2))).strides
    (-8, 16)
    """
    if 0 in spec.shape:
        return np.zeros(spec.shape, spec.dtype)
    reach = [stride * (extent - 1) for extent, stride in zip(spec.shape, spec.strides, strict=True)]
    before = -sum(min(0, r) for r in reach)
    count = 1 + before + sum(max(0, r) for r in reach)
    if count * spec.dtype.itemsize < _LARGE:
        memory = np.zeros(count, spec.dtype)
    else:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        try:
            pages = mmap.mmap(-1, count * spec.dtype.itemsize, flags=flags)
        except OSError as error:
            raise MemoryError(f"no addresses for {spec}") from error
        memory = np.frombuffer(pages, spec.dtype)
    strides = [stride * spec.dtype.itemsize for stride in spec.strides]
    return as_strided(memory[before:], spec.shape, strides)


def place_of(array: Any) -> tuple[object, ...]:
    """The address and layout of a NumPy array, as a hashable key."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
