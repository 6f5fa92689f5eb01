"""A CUDA device for user kernels; commands wait for given events."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.backends.cuda.cupy_device import FIRST_SPECIFIC, load_cupy
from mdtensor.backends.cuda.nvrtc import Nvrtc
from mdtensor.dataclass import dataclass
from mdtensor.errors import CompileError, LaunchError

STREAMS = 8  # of a device, which commands take in turn
_TO_DEVICE, _TO_HOST = 1, 2  # kinds of cudaMemcpy


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    """The CUDA events around a command, and the objects that it keeps alive."""

    begin: Any
    end: Any
    kept: object


class CudaStreams:
    """A device's streams by CuPy, used in turn; launch sizes are threads, in all and per block.

    Not for several threads at once. Memory is CUDA's own and not the pool's: blocks of a pool go
    on in the order of one stream, and the driver's are free when all streams are done with them.
    """

    language = "cuda"
    family = "cuda"  # whose devices copy among each other, and wait for each other's events

    def __init__(self, number: int, name: str) -> None:
        self._cupy: Any = load_cupy()
        self._cuda: Any = self._cupy.cuda
        self.name, self._number = name, number
        self._turns = itertools.count()
        self._faults = (self._cuda.runtime.CUDARuntimeError, self._cuda.driver.CUDADriverError)
        device = self._cuda.Device(number)
        with device:
            self._streams = [self._cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
            capability: str = device.compute_capability
            self._first: Any = self._cuda.Event()
            self._first.record(self._streams[0])
            self._first.synchronize()
            self._first_s = time.perf_counter()
        specific = "a" if int(capability[:-1]) >= FIRST_SPECIFIC else ""
        self._architecture = f"sm_{capability}{specific}"

    def compiled(self, text: str, name: str, options: Sequence[str]) -> Any:
        """Compile a kernel by NVRTC, or load it from the disk cache.

        CompileError has the compiler's words and numbered source.
        """
        machine = Nvrtc(self._architecture, options).kept(text)
        with self._cuda.Device(self._number):
            module = self._cuda.function.Module()
            module.load(machine.code)
            try:
                return module.get_function(name)
            except self._faults as error:
                raise CompileError(
                    f"the text has no kernel called {name!r}",
                    hint=f'declare it extern "C": C++ has another name for {name} otherwise',
                ) from error

    def empty(self, nbytes: int) -> Any:
        """Allocate device memory."""
        with self._cuda.Device(self._number):
            try:
                return self._cuda.Memory(max(1, nbytes))
            except (*self._faults, MemoryError) as error:
                raise LaunchError(
                    f"{self.name} refused memory of {nbytes} bytes: {error}"
                ) from error

    def part(self, memory: Any, begin: int, nbytes: int) -> Any:
        """The kernel argument for a part of memory: its address."""
        return np.uint64(memory.ptr + begin)

    def put(self, memory: Any, begin: int, source: Any, after: Sequence[Any]) -> Any:
        """Enqueue a copy from host to device; the event keeps both alive."""
        copy, place = self._cuda.runtime.memcpyAsync, memory.ptr + begin
        return self._enqueued(
            "a copy to it",
            lambda s: copy(place, source.ctypes.data, source.nbytes, _TO_DEVICE, s.ptr),
            after,
            kept=(memory, source),
        )

    def get(self, target: Any, memory: Any, begin: int, after: Sequence[Any]) -> Any:
        """Enqueue a copy from device to host; the event keeps both alive."""
        copy, place = self._cuda.runtime.memcpyAsync, memory.ptr + begin
        return self._enqueued(
            "a copy from it",
            lambda s: copy(target.ctypes.data, place, target.nbytes, _TO_HOST, s.ptr),
            after,
            kept=(memory, target),
        )

    def copy(
        self, target: Any, to: int, source: Any, begin: int, nbytes: int, after: Sequence[Any]
    ) -> Any:
        """Enqueue a copy to this device from any CUDA device."""
        copy, here, there = self._cuda.runtime.memcpyPeerAsync, self._number, source.device_id
        return self._enqueued(
            "a copy",
            lambda s: copy(target.ptr + to, here, source.ptr + begin, there, nbytes, s.ptr),
            after,
            kept=(target, source),
        )

    def launch(
        self,
        kernel: Any,
        whole: Sequence[int],
        group: Sequence[int] | None,
        arguments: Sequence[Any],
        after: Sequence[Any],
    ) -> Any:
        """Enqueue a kernel on addresses and NumPy scalars; LaunchError if it is refused."""
        threads = tuple(group or (1,) * len(whole))
        blocks = tuple(n // each for n, each in zip(whole, threads, strict=True))
        return self._enqueued(
            "a launch", lambda _: kernel(blocks, threads, tuple(arguments)), after, kept=kernel
        )

    def _enqueued(
        self, what: str, work: Callable[[Any], object], after: Sequence[Any], kept: object
    ) -> _Event:
        """Enqueue work on the next stream, after events of any device."""
        stream = self._streams[next(self._turns) % STREAMS]
        try:
            with self._cuda.Device(self._number), stream:
                for event in after:
                    stream.wait_event(event.end)
                begin, end = self._cuda.Event(), self._cuda.Event()
                begin.record(stream)
                work(stream)
                end.record(stream)
        except self._faults as error:
            raise LaunchError(f"{self.name} refused {what}: {error}") from error
        return _Event(begin, end, kept)

    def wait(self, event: _Event) -> None:
        """Wait for a command; LaunchError if it failed."""
        try:
            event.end.synchronize()
        except self._faults as error:
            raise LaunchError(f"a command of {self.name} failed: {error}") from error

    def finish(self) -> None:
        """Wait for all commands; LaunchError if the device is unusable."""
        try:
            for stream in self._streams:
                stream.synchronize()
        except self._faults as error:
            raise LaunchError(f"{self.name} failed: {error}") from error

    def is_done(self, event: _Event) -> bool:
        """Whether a command has completed or failed."""
        try:
            return bool(event.end.done)
        except self._faults:
            return True

    def times(self, event: _Event) -> tuple[float, float]:
        """Begin and end of a completed command, in seconds on `perf_counter`'s clock."""
        elapsed = self._cuda.get_elapsed_time
        begin, end = (elapsed(self._first, each) * 1e-3 for each in (event.begin, event.end))
        return self._first_s + begin, self._first_s + end
