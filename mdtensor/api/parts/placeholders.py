"""Placeholders: what front ends get for arrays that are not in memory, to see what they would run.

They have the right shapes and types, and memory that nobody touches. The hook through which plans
see computations gets those of the call.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from mdtensor.api.calls import call_cache, call_trace, computation
from mdtensor.api.calls.computation import Computation
from mdtensor.dataclass import dataclass
from mdtensor.scoped import Given, Result, scoped

# Bytes from which memory is reserved in the address space alone.
_LARGE = 1 << 16
_NO_RESERVE = 0x4000  # MAP_NORESERVE, of Linux, for which older Pythons have no name


class Placeholder(np.ndarray):
    """What stands for an array; calls on it bypass the call cache."""


@dataclass(slots=True)
class Placeholders:
    """Arrays of any kind, by the places in memory of what stands for them."""

    arrays: dict[int, Any] = field(default_factory=dict[int, Any])
    held: list[np.ndarray] = field(default_factory=list[np.ndarray])

    def of(self, array: Any) -> np.ndarray:
        """What stands for an array: zeros of its shape and type, in C order."""
        shape: Sequence[int] = tuple(array.shape)
        dtype: np.dtype = np.dtype(array.dtype)
        count = math.prod(shape)
        if count * dtype.itemsize < _LARGE:
            place = np.zeros(shape, dtype)
        else:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
            try:
                memory = mmap.mmap(-1, count * dtype.itemsize, flags=flags)
            except OSError as error:
                raise MemoryError(f"no addresses for {shape} of {dtype}") from error
            place = np.frombuffer(memory, dtype).reshape(shape)
        place = place.view(Placeholder)
        self.held.append(place)
        self.arrays[_place(place)] = array
        return place

    def array_of(self, value: Any) -> Any:
        """The array for which a placeholder of its shape stands; None for all others."""
        if not hasattr(value, "__array_interface__"):
            return None
        found = self.arrays.get(_place(value))
        is_whole = found is not None and tuple(found.shape) == value.shape
        return found if is_whole and np.asarray(value).flags.c_contiguous else None

    def has_part(self, value: Any) -> bool:
        """Whether an array lies in the memory of a placeholder, which has nobody's elements."""
        return any(np.may_share_memory(value, place) for place in self.held)


def planned_by(
    plan: Callable[[Computation, Sequence[Any], Any], Any],
    function: Callable[Given, Result],
    /,
    *args: Given.args,
    **options: Given.kwargs,
) -> Result:
    """Calls a function whose computations are handed to `plan` instead of run.

    Calls that the call cache knows are made in full, too.
    """
    planned = (computation.planner, plan), call_trace.unnoted()
    return scoped([*planned, *call_cache.noting([])], function, *args, **options)


def _place(array: Any) -> int:
    return array.__array_interface__["data"][0]
