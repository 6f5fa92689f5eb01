"""Launches of kernels that LLVM compiled on NumPy arrays, whose memory they take as it is."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.llvm.jit_compiler import Function
from mdtensor.backends.llvm.worker_threads import WorkerThreads
from mdtensor.kernels.kernel_source import ALIGNMENT, KernelSource


class LaunchingDevice(Protocol):
    """A device as its programs see it."""

    threads: WorkerThreads

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> LLVMProgram:
        """A compiled program."""
        ...

    def scratch(self, nbytes: int, *, inline: bool) -> tuple[np.ndarray, int]:
        """Scratch memory of this thread, and its address."""
        ...

    def argument(self, array: np.ndarray) -> int:
        """The address of an array."""
        ...


class LLVMProgram:
    """A compiled program with its sizes; each calling thread has scratch memory of its own."""

    def __init__(
        self,
        device: LaunchingDevice,
        functions: Sequence[Function],
        library: Any,
        source: KernelSource,
        sizes: Sequence[int],
        inline: bool,
    ) -> None:
        self.device = device
        self.functions = functions
        self.library = library
        self.source = source
        self.inline = inline
        values = dict(zip(source.sizes, sizes, strict=True))
        self.sizes = np.array(sizes, np.int64)
        self.groups = [max(1, evaluated(entry.groups, values)) for entry in source.entries]
        self.scratch_bytes = max(evaluated(entry.scratch, values) for entry in source.entries)
        self.counter_count = max(evaluated(entry.counters, values) for entry in source.entries)
        self._kind = ctypes.c_uint64 * (len(source.arrays) + 2)
        self._sizes_at = _address(self.sizes)
        self._local = threading.local()

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> LLVMProgram:
        """The same program for other sizes or another number of threads."""
        inline = self.inline if inline is None else inline
        return LLVMProgram(self.device, self.functions, self.library, self.source, sizes, inline)

    def _fixed(self) -> tuple[int, ...]:
        """Addresses of this thread's scratch memory and counters."""
        memory, scratch = self.device.scratch(self.scratch_bytes, inline=self.inline)
        counters = aligned_empty((max(2, self.counter_count) * 2,), np.uint32)
        counters[:] = 0
        self._local.keep = memory, counters
        self._local.fixed = (scratch, self.device.argument(counters))
        return self._local.fixed

    def __call__(self, *arrays: np.ndarray) -> None:
        """Runs the program on inputs and outputs, and returns when the outputs are written."""
        addresses = [_address(array) for array in arrays]
        if self.source.unaligned is not None and any(a % ALIGNMENT for a in addresses):
            self.device.compile(self.source.unaligned, self.sizes.tolist())(*arrays)
            return
        fixed = getattr(self._local, "fixed", None) or self._fixed()
        arguments = self._kind(*addresses, *fixed)
        for function, groups in zip(self.functions, self.groups, strict=True):
            if self.inline or groups == 1:
                function(arguments, self._sizes_at, 0, groups)
            else:
                self.device.threads.run(partial(function, arguments, self._sizes_at), groups)

    def launcher(self) -> Callable[..., None]:
        """A function that does what a call does."""
        return self

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        """A launcher, which returns when the outputs are written."""
        return self, None

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        """A launcher by which `check` sees the arrays of each call."""

        def launch(*arrays: np.ndarray) -> None:
            check(*arrays)
            self(*arrays)

        return launch


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
