"""Where a step's tensors lie: the library of arrays there, and how calls are timed."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.dlpack import cupy_for
from mdtensor.dataclass import dataclass


def _nothing() -> None:
    """On the processor, all work is done when a call returns."""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Memory of the processor or of a CUDA device, of which NumPy or CuPy is the `library`.

    `wait` returns when all work is done, and calls may be timed where `is_timed` says so: what is
    recorded as a graph may not wait. So many calls `in_a_row` are timed together. `has_buffers`
    says that runs of a graph may take turns with memory for what lies in between.
    """

    library: Any = np
    wait: Callable[[], None] = _nothing
    is_timed: Callable[[], bool] = _always
    in_a_row: int = 1
    has_buffers: bool = True

    def seconds(self, call: Callable[[], object]) -> float:
        """What one of several calls in a row takes of the host or the device, whichever is more."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(self.in_a_row):
            call()
        self.wait()
        return (time.perf_counter() - begin) / self.in_a_row


HOST = StepMemory()


def memory_at(device: str) -> StepMemory:
    """The memory of a device of torch's; NoDeviceError for CUDA without CuPy."""
    if device == "cpu":
        return HOST
    cupy = cupy_for(None)
    cupy_arrays.knows(cupy)
    cuda = importlib.import_module("torch").cuda

    def is_timed() -> bool:
        return not cuda.is_current_stream_capturing()

    # Memory of torch's own knows the stream that reads it last.
    return StepMemory(cupy, functools.partial(cuda.synchronize, device), is_timed, 8, False)
