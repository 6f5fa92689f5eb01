"""Parts computed in turn: one is read while the one before it is computed."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.parts.run_part import run_part
from mdtensor.api.streaming.memory_plan import AT_ONCE
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.rewrites.parts import Box

# What the computing thread will have made.
Value = Future[Any]


@dataclass(slots=True)
class StreamExecutor:
    """Reads in the calling thread, and computes and writes in another, in order.

    `streamed` are the slots that are copied part by part; of others, parts are views.
    `converted` are the types to which operands are brought as they are read.
    """

    arrays: list[Any]
    streamed: Sequence[bool]
    converted: dict[int, np.dtype]
    pool: ThreadPoolExecutor
    in_turn: bool = True
    last_read: dict[int, tuple[Box, Value]] = field(
        default_factory=dict[int, tuple[Box, "Future[Any]"]]
    )
    running: deque[Value] = field(default_factory=deque["Future[Any]"])
    writing: deque[Value] = field(default_factory=deque["Future[Any]"])
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def read(self, slot: int, box: Box) -> Value:
        """A part of an array: the one that was read last, if it is the same."""
        if slot >= len(self.streamed) or not self.streamed[slot]:
            return _done(self._brought(slot, self.arrays[slot][box]))
        before = self.last_read.pop(slot, None)
        if before is not None and before[0] == box:
            value = before[1]
        else:
            before = None
            while len(self.running) >= AT_ONCE:
                self.running.popleft().result()
            # Zarr's and HDF5's arrays give NumPy's here, maps of files are copied.
            value = _done(self._brought(slot, np.array(self.arrays[slot][box], order="C")))
        self.last_read[slot] = box, value
        return value

    def _brought(self, slot: int, array: Array) -> Array:
        to = self.converted.get(slot)
        return array if to is None else array.astype(to)

    def write(self, slot: int, box: Box, value: Value) -> None:
        """Puts a part in its place, once it is computed."""
        target = self.arrays[slot]

        def put() -> None:
            target[box] = value.result()

        self.writing.append(self._later(put))
        while self.writing[0].done():
            self.writing.popleft().result()
            if not self.writing:
                break

    def compute(
        self, md_hom: MDHom, operands: Sequence[Value], begins: Sequence[int]
    ) -> tuple[Value, ...]:
        """The outputs of a part, in a while."""
        while len(self.running) >= AT_ONCE:
            self.running.popleft().result()

        def computed() -> tuple[Array, ...]:
            return run_part(md_hom, [operand.result() for operand in operands], begins)

        task = self._later(computed)
        self.running.append(task)
        count = len(md_hom.outputs)
        return tuple(self._later(_element(task, number)) for number in range(count))

    def last(self, value: Value, axis: int, shape: Sequence[int]) -> Value:
        """The last elements along an axis, in a while."""
        section = (slice(None),) * axis + (slice(-1, None),)
        return self._later(lambda: np.array(value.result()[section]))

    def wait(self) -> None:
        """Waits for all that was begun, and raises what went wrong."""
        self.last_read.clear()
        for waiting in (self.running, self.writing):
            while waiting:
                waiting.popleft().result()

    def _later(self, function: Callable[[], Any]) -> Value:
        return self.pool.submit(self.context.run, function)


def _done(array: Array) -> Value:
    value: Value = Future()
    value.set_result(array)
    return value


def _element(task: Value, number: int) -> Callable[[], Array]:
    return lambda: task.result()[number]
