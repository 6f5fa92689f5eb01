"""Pipelined execution of parts: one is read while the previous one is computed."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.parts.run_part import run_part
from mdtensor.api.streaming.memory_plan import AT_ONCE
from mdtensor.backends.host.mapped_files import MappedFile
from mdtensor.dataclass import dataclass
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.rewrites.parts import Box

# What the computing thread will have made.
Value = Future[Any]


@dataclass(slots=True)
class _Buffer:
    """A buffer for parts of an operand, and the pending computations that read its contents."""

    array: Array
    readers: list[Value] = field(default_factory=list["Future[Any]"])

    @property
    def is_free(self) -> bool:
        """Whether the buffer has had readers and all are done; one not yet read is not free."""
        return bool(self.readers) and all(reader.done() for reader in self.readers)


@dataclass(slots=True)
class StreamExecutor:
    """Reads in the calling thread, and computes and writes in another, in order.

    `streamed` are the slots that are copied part by part; of others, parts are views.
    `converted` are the types to which operands are brought as they are read. `files` are those that
    slots are maps of.
    """

    arrays: list[Any]
    streamed: Sequence[bool]
    converted: dict[int, np.dtype]
    pool: ThreadPoolExecutor
    files: dict[int, MappedFile] = field(default_factory=dict[int, MappedFile])
    in_turn: bool = True
    last_read: dict[int, tuple[Box, Value]] = field(
        default_factory=dict[int, tuple[Box, "Future[Any]"]]
    )
    running: deque[Value] = field(default_factory=deque["Future[Any]"])
    writing: deque[Value] = field(default_factory=deque["Future[Any]"])
    # By slot, and by what stands for the part that is in it.
    buffers: dict[int, dict[Value, _Buffer]] = field(
        default_factory=dict[int, dict["Future[Any]", _Buffer]]
    )
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def read(self, slot: int, box: Box) -> Value:
        """Read a part of an array, or reuse the last one read if the box is the same."""
        if slot >= len(self.streamed) or not self.streamed[slot]:
            array, to = self.arrays[slot][box], self.converted.get(slot)
            return _done(array if to is None else array.astype(to))
        before = self.last_read.pop(slot, None)
        if before is not None and before[0] == box:
            value = before[1]
            if (buffer := self.buffers.get(slot, {}).get(value)) is not None:
                buffer.readers.clear()  # who reads it next comes behind all of them
        else:
            before = None
            while len(self.running) >= AT_ONCE:
                self.running.popleft().result()
            value = self._copied(slot, np.asarray(self.arrays[slot][box]))
        self.last_read[slot] = box, value
        return value

    def _copied(self, slot: int, array: Array) -> Value:
        """A part read of a file, copied to a recycled buffer: new pages cost as much time again.

        Zarr's and HDF5's arrays give new arrays of NumPy's, maps of files views.
        """
        to = self.converted.get(slot, array.dtype)
        if array.base is None and array.flags.c_contiguous and array.dtype == to:
            return _done(array)
        known = self.buffers.setdefault(slot, {})
        free = [known.pop(value).array for value in tuple(known) if known[value].is_free]
        fitting = [memory for memory in free if memory.shape == array.shape]
        copy = fitting[0] if fitting else np.empty(array.shape, to)
        file = self.files.get(slot)
        if file is None or not file.read(array, copy):
            np.copyto(copy, array, casting="unsafe")
        value = _done(copy)
        known[value] = _Buffer(copy)
        return value

    def write(self, slot: int, box: Box, value: Value) -> None:
        """Write a part of a result to its place, once it is computed."""
        target, file = self.arrays[slot], self.files.get(slot)

        def put() -> None:
            part = value.result()
            if file is None or not file.write(part, target[box]):
                target[box] = part

        self.writing.append(self._later(put))
        while self.writing[0].done():
            self.writing.popleft().result()
            if not self.writing:
                break

    def compute(
        self, md_hom: MDHom, operands: Sequence[Value], begins: Sequence[int]
    ) -> tuple[Value, ...]:
        """Futures of the outputs of a part."""
        while len(self.running) >= AT_ONCE:
            self.running.popleft().result()

        def computed() -> tuple[Array, ...]:
            return run_part(md_hom, [operand.result() for operand in operands], begins)

        task = self._later(computed)
        self.running.append(task)
        for known in self.buffers.values():
            for operand in operands:
                if operand in known:
                    known[operand].readers.append(task)
        count = len(md_hom.outputs)
        return tuple(self._later(_element(task, number)) for number in range(count))

    def last(self, value: Value, axis: int, shape: Sequence[int]) -> Value:
        """A future of the last elements along an axis."""
        section = (slice(None),) * axis + (slice(-1, None),)
        return self._later(lambda: np.array(value.result()[section]))

    def wait(self) -> None:
        """Wait for all pending computations and writes, and raise their errors."""
        self.last_read.clear()
        self.buffers.clear()
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
