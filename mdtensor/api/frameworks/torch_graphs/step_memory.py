"""The memory of a step's tensors: its array library, and the timing of calls there."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.dlpack import cupy_for
from mdtensor.dataclass import dataclass

T = TypeVar("T")
_MARGIN, _LONGEST = 1e-3, 0.05  # seconds that a device waits more, and at most
_CYCLES = 2e9  # of its clock in a second, about


class DeviceTimer(Protocol):
    """A timer of the device's part of a call, after the host has enqueued it."""

    def __call__(self, call: Callable[[], T]) -> tuple[T, float]:
        """The call's result, and the seconds of the device."""
        ...


def _nothing() -> None:
    """A no-op: the processor has finished all work when a call returns."""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The memory of a device, with NumPy or CuPy as the `library` for its arrays.

    `wait` returns when all work is done, and calls may be timed where `is_timed` says so: what is
    recorded as a graph may not wait. So many calls `in_a_row` are timed together. `has_buffers`
    says that runs of a graph may take turns with memory for what lies in between. Where there is
    `ahead`, the device's time counts alone.
    """

    library: Any = np
    wait: Callable[[], None] = _nothing
    is_timed: Callable[[], bool] = _always
    in_a_row: int = 1
    has_buffers: bool = True
    ahead: DeviceTimer | None = None

    def seconds(self, call: Callable[[], object]) -> float:
        """Seconds per call of several in a row, by the host or the device, whichever is longer."""

        def row() -> None:
            for _ in range(self.in_a_row):
                call()

        return self.timed(row)[1] / self.in_a_row

    def timed(self, call: Callable[[], T]) -> tuple[T, float]:
        """The result of a call, and its seconds."""
        self.wait()
        if self.ahead is not None:
            return self.ahead(call)
        begin = time.perf_counter()
        result = call()
        self.wait()
        return result, time.perf_counter() - begin


HOST = StepMemory()


def timed_on_device(memory: StepMemory) -> StepMemory:
    """The memory with a timer that ignores the host's time.

    The device does nothing for twice as long as the host took for the last call, but not for long:
    that may have been a call that waits for the device.
    """
    cuda = importlib.import_module("torch").cuda
    host = _MARGIN

    def ahead(call: Callable[[], T]) -> tuple[T, float]:
        nonlocal host
        first, last = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda._sleep(int(min(2 * host + _MARGIN, _LONGEST) * _CYCLES))
        begin = time.perf_counter()
        first.record()
        result = call()
        last.record()
        host = time.perf_counter() - begin
        last.synchronize()
        return result, first.elapsed_time(last) * 1e-3

    return memory if memory.has_buffers else replace(memory, ahead=ahead)


def memory_at(device: str) -> StepMemory:
    """The memory of a torch device; NoDeviceError for CUDA without CuPy."""
    if device == "cpu":
        return HOST
    cupy = cupy_for(None)
    cupy_arrays.knows(cupy)
    cuda = importlib.import_module("torch").cuda

    def is_timed() -> bool:
        return not cuda.is_current_stream_capturing()

    # Memory of torch's own knows the stream that reads it last.
    return StepMemory(cupy, functools.partial(cuda.synchronize, device), is_timed, 8, False)
