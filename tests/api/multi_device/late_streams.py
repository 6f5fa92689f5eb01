"""Streams of devices that do nothing until they are told to, and then in any order that is allowed.

Memory behaves as in a pool whose blocks are used again in the order of the stream that they belong
to: a block is undefined when that stream comes to where it was handed out, and again when it comes
to where it was dropped.
"""

from __future__ import annotations

import random
import weakref
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mdtensor.translate import reference
from mdtensor.translate.md_hom import MDHom


class Memory:
    """A block of a device."""


class Array:
    """An array on a device; what is enqueued has its elements alone, and not the block."""

    def __init__(self, host: np.ndarray, device: int, memory: Memory) -> None:
        self.host, self.device, self.memory = host, device, memory
        self.shape, self.dtype = host.shape, host.dtype

    def __getitem__(self, box: Any) -> Array:
        return Array(self.host[box], self.device, self.memory)


class Event:
    """Whether a stream has come so far."""

    has_come = False


class LateStreams:
    """One stream for each device."""

    def __init__(self, devices: int, seed: int, rate: float | None = None) -> None:
        self.rate = rate
        self._queues: list[deque[tuple[Event | None, Callable[[], None]]]] = [
            deque() for _ in range(devices)
        ]
        self._random = random.Random(seed)
        self.current = 0

    @contextmanager
    def at(self, device: int) -> Generator[None]:
        before, self.current = self.current, device
        try:
            yield
        finally:
            self.current = before

    def enqueue(self, device: int, work: Callable[[], None], after: Event | None = None) -> None:
        """Adds work to a stream, after an event."""
        self._queues[device].append((after, work))

    def empty(self, device: int, shape: Sequence[int], dtype: Any) -> Array:
        host = np.zeros(shape, dtype)
        memory = Memory()
        undefine = lambda: undefined(host)  # noqa: E731
        self.enqueue(device, undefine)
        weakref.finalize(memory, self.enqueue, device, undefine)
        return Array(host, device, memory)

    def number(self, device: int, value: int) -> Array:
        array = self.empty(device, (), np.int64)
        self.enqueue(device, lambda: array.host.fill(value))
        return array

    def fill(self, device: int, target: Array, value: float) -> None:
        self.enqueue(device, lambda host=target.host: host.fill(value))

    def record(self, device: int) -> Event:
        event = Event()
        self.enqueue(device, lambda: setattr(event, "has_come", True))
        return event

    def wait(self, device: int, event: Event) -> None:
        self.enqueue(device, lambda: None, event)

    def copy(self, device: int, target: Array, source: Array) -> None:
        assert target.device != source.device
        assert device in (target.device, source.device)
        to, of = target.host, source.host
        assert to.flags.c_contiguous
        assert of.flags.c_contiguous
        self.enqueue(device, lambda: np.copyto(to, of, casting="no"))

    def place(self, device: int, target: Array, source: Array) -> None:
        assert device == target.device == source.device
        to, of = target.host, source.host
        self.enqueue(device, lambda: np.copyto(to, of, casting="no"))

    def link_rate(self, device: int, other: int) -> float | None:
        assert device != other
        return self.rate

    def places(self, arrays: Sequence[Array]) -> None:
        """Nothing records graphs."""

    def compute(self, md_hom: MDHom, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Enqueues a kernel on the current device, whose arrays these must be."""
        assert {array.device for array in (*inputs, *outputs)} == {self.current}
        for buffer, array in zip(
            (*md_hom.inputs, *md_hom.outputs), (*inputs, *outputs), strict=True
        ):
            strides = [step * array.dtype.itemsize for step in buffer.spec.strides]
            long = [n for n, extent in enumerate(array.shape) if extent > 1]
            assert [strides[n] for n in long] == [array.host.strides[n] for n in long]
        read, written = [a.host for a in inputs], [a.host for a in outputs]
        self.enqueue(self.current, lambda: reference.compute(md_hom, read, written))

    def run(self) -> None:
        """Does all work, that of one stream in its order, that of several in any order."""
        while any(self._queues):
            ready = [q for q in self._queues if q and (q[0][0] is None or q[0][0].has_come)]
            assert ready, "every stream waits for another one"
            self._random.choice(ready).popleft()[1]()


def undefined(array: np.ndarray) -> None:
    """Fills an array with what nobody should read."""
    array[...] = np.nan if array.dtype.kind in "fc" else np.iinfo(np.int8).min
