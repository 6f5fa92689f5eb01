"""Launches of OpenCL kernels on NumPy arrays, in place."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from mdtensor.backends.host.deferred_release import Owner
from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.opencl.opencl_runtime import bare_kernels
from mdtensor.backends.opencl.opencl_waits import returning
from mdtensor.errors import LaunchError
from mdtensor.forks import cached_property
from mdtensor.kernels.kernel_source import ALIGNMENT, KernelSource

ADDRESS = b"L"  # an unsigned long, among the kinds of numbers that PyOpenCL packs

# A kernel object, its work-items, and those of a group.
Launch = tuple[Any, tuple[int], tuple[int]]


class OpenCLLaunchingDevice(Protocol):
    """A device as its programs see it."""

    cl: Any
    context: Any
    queue: Any
    takes_addresses: bool
    launching: threading.local  # its `is_on` is True while the thread launches

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> Any:
        """Compile a program."""
        ...

    def scratch(self, nbytes: int) -> tuple[np.ndarray, Any]:
        """Scratch memory of this thread, and its kernel argument."""
        ...

    def argument(self, array: np.ndarray) -> Any:
        """The kernel argument for an array without an offset."""
        ...

    def set_arguments(self, kernel: Any, first: int, arguments: Iterable[Any]) -> None:
        """Set the arguments of a kernel from position `first` on."""
        ...


class OpenCLProgram:
    """A compiled program bound to sizes; kernel objects and scratch are per thread."""

    def __init__(
        self,
        device: OpenCLLaunchingDevice,
        owner: Owner[Any],
        source: KernelSource,
        sizes: Sequence[int],
    ) -> None:
        self.device = device
        self.owner = owner
        self.source = source
        values = dict(zip(source.sizes, sizes, strict=True))
        self.sizes = np.array(sizes, np.int64)
        self.groups: list[tuple[int]] = []
        self.scratch_bytes = self.counter_count = 0
        for entry in source.entries:
            self.groups.append((max(1, evaluated(entry.groups, values)) * entry.threads,))
            self.scratch_bytes = max(self.scratch_bytes, evaluated(entry.scratch, values))
            self.counter_count = max(self.counter_count, evaluated(entry.counters, values))
        self._finish = returning(device.queue.finish)
        self._local = threading.local()

    @cached_property
    def _for_unaligned(self) -> OpenCLProgram:
        """The variant for unaligned arrays, compiled on first use."""
        assert self.source.unaligned is not None
        return self.device.compile(self.source.unaligned, self.sizes.tolist())

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> OpenCLProgram:
        """Rebind the program to other sizes, without compiling again."""
        return OpenCLProgram(self.device, self.owner, self.source, sizes)

    def made(self) -> list[Any]:
        """New kernel objects, which hold a launch's arguments."""
        names = [entry.name for entry in self.source.entries]
        made = bare_kernels(self.device.cl, self.owner.held, names)
        for kernel in made:
            kernel.owner = self.owner  # since it keeps the program as well
        return made

    def _launches(self) -> list[Launch]:
        """Kernels of the calling thread, with scratch memory, counters and sizes bound."""
        if (known := getattr(self._local, "launches", None)) is not None:
            return known
        kernels = self.made()
        memory, scratch = self.device.scratch(self.scratch_bytes)
        arrays: list[np.ndarray] = [self.sizes] if len(self.sizes) else []
        if self.counter_count:
            arrays.insert(0, np.zeros(self.counter_count, np.uint32))
        fixed = [scratch, *map(self.device.argument, arrays)]
        self._local.keep = memory, arrays, fixed  # which kernels do not
        for kernel in kernels:
            self.device.set_arguments(kernel, len(self.source.arrays), fixed)
        threads = [(entry.threads,) for entry in self.source.entries]
        self._local.launches = list(zip(kernels, self.groups, threads, strict=True))
        return self._local.launches

    def __call__(self, *arrays: np.ndarray) -> None:
        """Run the program on inputs and outputs, and wait.

        Where a signal handler calls it within a launch of this thread, whose kernel objects and
        scratch are in use, another thread runs it.
        """
        if self.source.unaligned is not None and not all(map(_is_aligned, arrays)):
            self._for_unaligned(*arrays)
            return
        launching = self.device.launching
        if getattr(launching, "is_on", False):
            with ThreadPoolExecutor(1) as other:
                other.submit(self, *arrays).result()
            return
        try:
            launching.is_on = True
            self._run(arrays)
        finally:
            launching.is_on = False

    def _run(self, arrays: Sequence[np.ndarray]) -> None:
        if not self.device.takes_addresses:
            self._run_through_buffers(arrays)
            return
        addresses: list[Any] = []
        for position, array in enumerate(arrays):
            addresses += position, ADDRESS, _address(array)
        try:
            for kernel, groups, threads in self._launches():
                kernel._set_arg_buf_pack_multi(tuple(addresses))
                self.device.cl.enqueue_nd_range_kernel(self.device.queue, kernel, groups, threads)
        finally:  # also where an interrupt comes: the kernels have the arrays' memory
            self._finish()

    def launcher(self) -> Callable[..., None]:
        """The program itself."""
        return self

    def beginner(self, *, behind: bool = False) -> tuple[Callable[..., None], None]:
        """The program itself, which returns when the outputs are written."""
        return self, None

    def _run_through_buffers(self, arrays: Sequence[np.ndarray]) -> None:
        cl, queue = self.device.cl, self.device.queue
        flags = cl.mem_flags
        spans = [memory_span(array) for array in arrays]
        buffers = [
            cl.Buffer(self.device.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=span)
            for span, _ in spans
        ]
        if any(offset for _, offset in spans):
            raise LaunchError("arrays with negative strides need a device with system SVM")
        try:
            for kernel, groups, threads in self._launches():
                for position, buffer in enumerate(buffers):
                    kernel.set_arg(position, buffer)
                cl.enqueue_nd_range_kernel(queue, kernel, groups, threads)
            for buffer, (span, _) in zip(buffers, spans, strict=True):
                mapped, _ = cl.enqueue_map_buffer(
                    queue, buffer, cl.map_flags.READ, 0, span.shape, span.dtype
                )
                mapped.base.release(queue)
        finally:
            self._finish()


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _is_aligned(array: np.ndarray) -> bool:
    return _address(array) % ALIGNMENT == 0


def memory_span(array: np.ndarray) -> tuple[np.ndarray, int]:
    """The bytes that an array spans in memory, and the offset of element 0 in them."""
    low, high = np.lib.array_utils.byte_bounds(array)
    memory = (ctypes.c_ubyte * max(1, high - low)).from_address(low)
    return np.ctypeslib.as_array(memory), _address(array) - low
