"""Launches of kernels that LLVM compiled on NumPy arrays, whose memory they take as it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.llvm.native_launch import NativeLaunch, has_lock
from mdtensor.forks import cached_property
from mdtensor.kernels.kernel_source import ALIGNMENT, KernelSource

Launcher = Callable[..., None]


class LaunchingDevice(Protocol):
    """A device as its programs see it."""

    launches: NativeLaunch

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> LLVMProgram:
        """A compiled program."""
        ...

    def scratch(self, nbytes: int, *, in_turn: bool) -> tuple[np.ndarray, int]:
        """Scratch memory of this thread, or of all that take turns, and its address."""
        ...

    def argument(self, array: np.ndarray) -> int:
        """The address of an array."""
        ...


class LLVMProgram:
    """A compiled program with its sizes; each calling thread has scratch memory of its own."""

    def __init__(
        self,
        device: LaunchingDevice,
        addresses: Sequence[int],
        library: Any,
        source: KernelSource,
        sizes: Sequence[int],
        inline: bool,
    ) -> None:
        self.device = device
        self.addresses = addresses
        self.library = library
        self.source = source
        self.inline = inline
        values = dict(zip(source.sizes, sizes, strict=True))
        self.sizes = np.array(sizes, np.int64)
        self.groups = [max(1, evaluated(entry.groups, values)) for entry in source.entries]
        self.scratch_bytes = max(evaluated(entry.scratch, values) for entry in source.entries)
        self.counter_count = max(evaluated(entry.counters, values) for entry in source.entries)
        self._local = threading.local()

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> LLVMProgram:
        """The same program for other sizes or another number of threads."""
        inline = self.inline if inline is None else inline
        return LLVMProgram(self.device, self.addresses, self.library, self.source, sizes, inline)

    def _launcher(self, scratch: int = 0, counters: int = 0, *keeps: np.ndarray) -> Launcher:
        """The built-in function that launches with memory at these addresses."""
        return self.device.launches.launcher(
            list(zip(self.addresses, self.groups, strict=True)),
            len(self.source.arrays),
            (_address(self.sizes), scratch, counters),
            (self.library, self.sizes, *keeps),
            inline=self.inline,
        )

    @cached_property
    def _shared(self) -> Launcher:
        """The launcher for all threads: of a program without memory of its own, or in turn."""
        return self._with_memory() if self._has_memory else self._launcher()

    @property
    def _has_memory(self) -> bool:
        return bool(self.scratch_bytes or self.counter_count)

    @property
    def _is_for_all(self) -> bool:
        """Whether threads may share a launcher: those that hold Python's lock take turns."""
        return not self._has_memory or (self.inline and has_lock())

    def _with_memory(self) -> Launcher:
        memory, scratch = self.device.scratch(self.scratch_bytes, in_turn=self._is_for_all)
        counters = aligned_empty((max(2, self.counter_count) * 2,), np.uint32)
        counters[:] = 0
        return self._launcher(scratch, _address(counters), memory, counters)

    def _of_this_thread(self) -> Launcher:
        self._local.launch = self._with_memory()
        return self._local.launch

    def __call__(self, *arrays: np.ndarray) -> None:
        """Runs the program on inputs and outputs, and returns when the outputs are written."""
        if self.source.unaligned is not None and any(_address(a) % ALIGNMENT for a in arrays):
            self.device.compile(self.source.unaligned, self.sizes.tolist())(*arrays)
        elif self._is_for_all:
            self._shared(*arrays)
        else:
            (getattr(self._local, "launch", None) or self._of_this_thread())(*arrays)

    def launcher(self) -> Launcher:
        """A function that does what a call does: the built-in one, where all threads share it."""
        return self._shared if self.source.unaligned is None and self._is_for_all else self

    def beginner(self, *, behind: bool = False) -> tuple[Launcher, Callable[[], None] | None]:
        """A launcher, which returns when the outputs are written."""
        return self.launcher(), None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
