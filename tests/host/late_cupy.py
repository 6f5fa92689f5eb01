"""What stands for CuPy: streams that do nothing until somebody waits for an event of theirs.

Then they go on, each in its order, several in any order that events allow. Memory is the host's.
"""

from __future__ import annotations

import ctypes
import random
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np

Kernels = dict[str, Callable[..., None]]


class Event:
    """An event, which comes when its stream has come so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.done = False

    def record(self, stream: Stream) -> None:
        stream.work.append((None, lambda: setattr(self, "done", True)))

    def synchronize(self) -> None:
        self.world.run_until(lambda: self.done)


class Stream:
    """A stream of the device that is the current one when it is made."""

    def __init__(self, world: World) -> None:
        self.world, self.device = world, world.device
        self.work: deque[tuple[Event | None, Callable[[], object]]] = deque()
        self.ptr = len(world.streams)
        world.streams.append(self)

    def wait_event(self, event: Event) -> None:
        self.work.append((event, lambda: None))

    def synchronize(self) -> None:
        self.world.run_until(lambda: not self.work)

    def __enter__(self) -> None:
        self.world.current.append(self)

    def __exit__(self, *_: object) -> None:
        self.world.current.pop()


class Device:
    """A device as a context, in which it is the current one."""

    compute_capability = "90"

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number

    def __enter__(self) -> Device:
        self.before, self.world.device = self.world.device, self.number
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.world.device = self.before


class Memory:
    """Memory of the current device, with what nobody should read; its end waits for the device."""

    def __init__(self, world: World, nbytes: int) -> None:
        self.world = world
        self.bytes = np.full(nbytes, 0xA5, np.uint8)
        self.ptr, self.device_id = self.bytes.ctypes.data, world.device

    def __del__(self) -> None:
        streams = [each for each in self.world.streams if each.device == self.device_id]
        self.world.run_until(lambda: not any(each.work for each in streams))


class World:
    """All streams of all devices."""

    def __init__(self, seed: int, kernels: Kernels) -> None:
        self.random = random.Random(seed)
        self.kernels = {**kernels}
        self.refuse: Callable[[], None] | None = None  # what a launch does instead
        self.device = 0
        self.streams: list[Stream] = []
        self.current: list[Stream] = []

    def run_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            ready = [s.work for s in self.streams if s.work]
            ready = [work for work in ready if work[0][0] is None or work[0][0].done]
            assert ready, "every stream waits for another one"
            self.random.choice(ready).popleft()[1]()

    def _copy(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        assert kind in (1, 2)
        assert self.streams[stream].device == self.device
        self._enqueue(stream, lambda: ctypes.memmove(target, source, nbytes))

    def _peer(
        self, target: int, here: int, source: int, there: int, nbytes: int, stream: int
    ) -> None:
        assert here == self.device == self.streams[stream].device
        self._enqueue(stream, lambda: ctypes.memmove(target, source, nbytes))

    def _enqueue(self, stream: int, work: Callable[[], object]) -> None:
        self.streams[stream].work.append((None, work))

    def _module(self) -> Any:
        """A module, whose functions take views of memory instead of addresses."""

        def function(name: str) -> Callable[..., None]:
            if name not in self.kernels:
                raise ValueError("named symbol not found")

            def launch(blocks: Any, threads: Any, arguments: Any) -> None:
                assert self.current[-1].device == self.device
                if self.refuse is not None:
                    self.refuse()
                nbytes = 4 * blocks[0] * threads[0]
                values = [_view(each, nbytes) for each in arguments]
                work = lambda: self.kernels[name](*values)  # noqa: E731
                self._enqueue(self.current[-1].ptr, work)

            return launch

        return SimpleNamespace(load=lambda code: None, get_function=function)

    def cupy(self) -> Any:
        """The module."""
        runtime = SimpleNamespace(
            CUDARuntimeError=RuntimeError, memcpyAsync=self._copy, memcpyPeerAsync=self._peer
        )
        cuda = SimpleNamespace(
            runtime=runtime,
            driver=SimpleNamespace(CUDADriverError=ValueError),
            function=SimpleNamespace(Module=self._module),
            Device=lambda number: Device(self, number),
            Stream=lambda non_blocking: Stream(self),
            Event=lambda: Event(self),
            Memory=lambda nbytes: Memory(self, nbytes),
            get_elapsed_time=lambda first, event: 1.0,
        )
        return SimpleNamespace(cuda=cuda)


def _view(argument: Any, nbytes: int) -> Any:
    if argument.dtype != np.uint64:
        return argument
    return np.ctypeslib.as_array((ctypes.c_ubyte * nbytes).from_address(int(argument)))
