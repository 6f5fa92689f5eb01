"""Launches of compiled kernels on NumPy arrays, whose memory they take as it is."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.opencl.opencl_kernels import ADDRESS, Kernels, Launch, LaunchingDevice
from mdtensor.backends.opencl.opencl_launchers import launcher_of, remembering_launcher_of
from mdtensor.backends.opencl.opencl_waits import returning
from mdtensor.errors import LaunchError
from mdtensor.forks import cached_property
from mdtensor.kernels.kernel_source import ALIGNMENT, KernelSource

# Calls of a thread until a program has kernel objects of its own there. Making one takes 4 µs
# in a row, and ten times that after other work; setting again what it would keep takes 6 µs.
CALLS_BY_SHARED = 32


class OpenCLProgram:
    """A compiled program with its sizes; each thread has kernels and scratch memory of its own."""

    def __init__(
        self,
        device: LaunchingDevice,
        kernels: Kernels,
        source: KernelSource,
        sizes: Sequence[int],
        inline: bool,
    ) -> None:
        self.device = device
        self.kernels = kernels
        self.source = source
        self.inline = inline
        values = dict(zip(source.sizes, sizes, strict=True))
        self.sizes = np.array(sizes, np.int64)
        self.groups: list[tuple[int]] = []
        self.scratch_bytes = self.counter_count = 0
        for entry in source.entries:
            self.groups.append((max(1, evaluated(entry.groups, values)) * entry.threads,))
            self.scratch_bytes = max(self.scratch_bytes, evaluated(entry.scratch, values))
            self.counter_count = max(self.counter_count, evaluated(entry.counters, values))
        self.queue = device.inline_queue if inline else device.queue
        self.waits = self.queue is device.queue
        self.finish = returning(self.queue.finish)
        self.local = threading.local()
        # Of arguments that are addresses of arrays: position, kind, and a place for the value.
        self._packed: list[Any] = []
        for position in range(kernels.arrays):
            self._packed += position, ADDRESS, 0

    @cached_property
    def _for_unaligned(self) -> OpenCLProgram:
        """The program for arrays that begin anywhere, compiled when the first one comes."""
        assert self.source.unaligned is not None
        return self.device.compile(self.source.unaligned, self.sizes.tolist())

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> OpenCLProgram:
        """The same program for other sizes or another queue, without compiling again."""
        inline = self.inline if inline is None else inline
        return OpenCLProgram(self.device, self.kernels, self.source, sizes, inline)

    def launches(self) -> list[Launch]:
        """Kernels with their fixed arguments set: shared ones for the first calls of a thread."""
        self.local.calls = calls = getattr(self.local, "calls", 0) + 1
        if calls <= CALLS_BY_SHARED:
            return self.prepared(self.kernels.shared())
        self.local.launches = self.prepared(self.kernels.made())
        return self.local.launches

    def prepared(self, kernels: list[Any]) -> list[Launch]:
        """These kernels with scratch memory, counters and sizes set, and how each is launched."""
        try:
            fixed = self.local.fixed
        except AttributeError:
            fixed = self.local.fixed = self._fixed()
        first = self.kernels.arrays  # scratch memory, counters and sizes come after them
        for kernel in kernels:
            self.device.set_arguments(kernel, first, fixed)
        return list(zip(kernels, self.groups, self.kernels.threads, strict=True))

    def _fixed(self) -> list[Any]:
        """Scratch memory, counters and sizes of this thread, as arguments."""
        memory, scratch = self.device.scratch(self.scratch_bytes, inline=not self.waits)
        arrays: list[np.ndarray] = [self.sizes] if len(self.sizes) else []
        if self.counter_count:
            arrays.insert(0, np.zeros(self.counter_count, np.uint32))
        self.local.keep = (memory, arrays)  # of which arguments may be but the addresses
        return [scratch, *map(self.device.argument, arrays)]

    def __call__(self, *arrays: np.ndarray) -> None:
        """Runs the program on inputs and outputs, and returns when the outputs are written."""
        if self.source.unaligned is not None and not all(map(_is_aligned, arrays)):
            self._for_unaligned(*arrays)
            return
        if not self.device.takes_addresses:
            self._run_through_buffers(arrays)
            return
        try:
            launches = self.local.launches
        except AttributeError:
            launches = self.launches()
        addresses, enqueue = self.addresses(arrays), self.device.enqueue
        try:
            for kernel, groups, threads in launches:
                kernel._set_arg_buf_pack_multi(addresses)
                enqueue(self.queue, kernel, groups, threads)
        finally:
            if self.waits:
                self.finish()

    def addresses(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """Position, kind and value of the arguments that the arrays are."""
        svm, packed = self.device.cl.SVM, self._packed.copy()
        try:
            packed[2::3] = [svm(array).svm_ptr for array in arrays]
        except ValueError:  # PyOpenCL takes only memory that is contiguous and writeable
            packed[2::3] = [array.__array_interface__["data"][0] for array in arrays]
        return tuple(packed)

    @property
    def has_choices(self) -> bool:
        """Whether a launch is more than one kernel with the arrays' memory as arguments."""
        source = self.source
        several = len(source.entries) != 1 or source.unaligned is not None
        return several or not self.device.takes_addresses

    def launcher(self) -> Callable[..., None]:
        """A function that does what a call does, with all that can be looked up looked up."""
        return self if self.has_choices else launcher_of(self, waits=self.waits)

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        """A launcher that only begins the work, and what waits for it and all begun before."""
        if behind and not self.waits and not self.has_choices:
            return self.bound(self.sizes.tolist(), inline=False).beginner()
        if self.waits and not self.has_choices:
            return launcher_of(self, waits=False), self.finish
        return self.launcher(), None

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        """A launcher that sets only the arguments that are other arrays than the last time.

        `check` is called with the arrays whenever one of them is new, or the last one read-only.
        They are remembered by weak references, which keep NumPy from moving their memory
        (`ndarray.resize` refuses). The kernels belong to this launcher alone.
        """
        own = self.bound(self.sizes.tolist())
        if not self.has_choices:
            return remembering_launcher_of(own, check)

        def launch_all(*arrays: np.ndarray) -> None:
            check(*arrays)
            own(*arrays)

        return launch_all

    def _run_through_buffers(self, arrays: Sequence[np.ndarray]) -> None:
        cl, queue = self.device.cl, self.queue
        try:
            launches = self.local.launches
        except AttributeError:
            launches = self.launches()
        flags = cl.mem_flags
        spans = [memory_span(array) for array in arrays]
        buffers = [
            cl.Buffer(self.device.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=span)
            for span, _ in spans
        ]
        if any(offset for _, offset in spans):
            raise LaunchError("arrays with negative strides need a device with system SVM")
        try:
            for kernel, groups, threads in launches:
                for position, buffer in enumerate(buffers):
                    kernel.set_arg(position, buffer)
                cl.enqueue_nd_range_kernel(queue, kernel, groups, threads)
            for buffer, (span, _) in zip(buffers, spans, strict=True):
                mapped, _ = cl.enqueue_map_buffer(
                    queue, buffer, cl.map_flags.READ, 0, span.shape, span.dtype
                )
                mapped.base.release(queue)
        finally:
            self.finish()


def _is_aligned(array: np.ndarray) -> bool:
    return array.__array_interface__["data"][0] % ALIGNMENT == 0


def memory_span(array: np.ndarray) -> tuple[np.ndarray, int]:
    """The bytes from the array's first to its last element, and where element 0 lies in them."""
    low, high = np.lib.array_utils.byte_bounds(array)
    address = array.__array_interface__["data"][0]
    memory = (ctypes.c_ubyte * max(1, high - low)).from_address(low)
    return np.ctypeslib.as_array(memory), address - low
