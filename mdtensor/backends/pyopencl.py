"""NumPy arrays on an OpenCL device, without copies.

Where the device is a processor that sees all of the process's memory (fine-grained system SVM),
kernels take the arrays' addresses; else buffers wrap the arrays' memory for the time of a call.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mdtensor.backends import hardware
from mdtensor.backends.compiled import Compiled, MachineCode
from mdtensor.backends.evaluate import evaluated
from mdtensor.backends.forks import keep_over_forks
from mdtensor.backends.memory import aligned_empty
from mdtensor.backends.opencl_runtime import caching, hint_where_none_is_found, load_pyopencl
from mdtensor.errors import CompileError, LaunchError, NoDeviceError
from mdtensor.kernels.source import ALIGNMENT, KernelSource, numbered
from mdtensor.specs import Target

_BY_LOCAL_THREAD = 1 << 31  # CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL
_ADDRESS = b"L"  # an unsigned long, among the kinds of numbers that PyOpenCL packs


class OpenCLDevice:
    """One OpenCL device, its context, and its queues: one pooled, one run by the caller."""

    arrays = "numpy"
    faults: tuple[type[Exception], ...] = ()

    def __init__(self, cl: Any, device: Any) -> None:
        self.cl = cl
        self.device = device
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        self.inline_queue = self.queue
        if "cl_intel_exec_by_local_thread" in device.extensions:
            self.inline_queue = cl.CommandQueue(self.context, properties=_BY_LOCAL_THREAD)
        self.takes_addresses = _takes_addresses(cl, device)
        self.mistakes_barriers = _mistakes_barriers(cl, device)
        self._local = threading.local()
        self._building = threading.Lock()
        keep_over_forks(self._building)
        self.target = _target(cl, device)
        version = device.opencl_c_version.split()[2] if device.opencl_c_version else "1.2"
        self.options = [f"-cl-std=CL{'2.0' if float(version) >= 2 else '1.2'}"]

    @property
    def compiler(self) -> Mapping[str, str] | None:
        """What other processes of this machine need to compile for a processor."""
        if not self.device.type & self.cl.device_type.CPU:
            return None
        return {"kind": "opencl", "device": _label(self.device)}

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> OpenCLProgram:
        """Compiles a program; CompileError carries the compiler's words and numbered source."""
        return self._program(self.build(source.text, fragile=source.fragile), source, sizes)

    def compiled(self, source: KernelSource) -> Compiled:
        """A program as machine code, which `load` takes in another process, 30 times as fast."""
        (code,) = self.build(source.text, fragile=source.fragile).get_info(
            self.cl.program_info.BINARIES
        )
        return Compiled(source, MachineCode(code))

    def load(self, compiled: Compiled) -> OpenCLProgram:
        """The program of machine code that this or another process made."""
        code = compiled.machine.code
        try:
            with self._building:
                program = self.cl.Program(self.context, [self.device], [code]).build()
        except self.cl.Error as error:
            raise CompileError(f"{self.target.name} refused machine code: {error}") from None
        return self._program(program, compiled.source, ())

    def _program(self, built: Any, source: KernelSource, sizes: Sequence[int]) -> OpenCLProgram:
        kernels = Kernels(self.cl, built, source)
        # Code is made for the first kernel object: milliseconds that are a compiler's.
        kernels.shared()
        return OpenCLProgram(self, kernels, source, sizes, source.inline)

    def is_lost(self) -> bool:
        """Never: what goes wrong on a processor ends the process."""
        return False

    def build(self, text: str, *, fragile: bool = False) -> Any:
        """A built `pyopencl.Program`."""
        options = [*self.options, *(["-DBY_ADDRESS"] if self.takes_addresses else [])]
        if self.mistakes_barriers and (fragile or "barrier(" in text):
            options.append("-cl-opt-disable")
        try:
            with self._building:
                return self.cl.Program(self.context, text).build(options)
        except self.cl.Error as error:
            raise CompileError(
                f"{self.target.name} refused a kernel: {str(error).splitlines()[0]}",
                notes=[*str(error).splitlines()[1:30], *numbered(text).splitlines()],
            ) from None

    def empty(
        self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
    ) -> np.ndarray:
        """An uninitialised NumPy array on a 64-byte boundary; strides are in elements."""
        return aligned_empty(shape, dtype, strides)

    def scratch(self, nbytes: int, *, inline: bool) -> tuple[np.ndarray, Any]:
        """Scratch memory of this thread, and the object by which a kernel takes it.

        A queue runs one program of a thread at a time, so its programs share memory: one block for
        each power of two.
        """
        size = max(64, 1 << max(0, nbytes - 1).bit_length())
        blocks: dict[tuple[int, bool], tuple[np.ndarray, Any]] | None
        blocks = getattr(self._local, "blocks", None)
        if blocks is None:
            blocks = self._local.blocks = {}
        if (size, inline) not in blocks:
            memory = aligned_empty((size,), np.uint8)
            blocks[size, inline] = memory, self.argument(memory)
        return blocks[size, inline]

    def argument(self, array: np.ndarray) -> Any:
        """The argument of a generated kernel for an array that starts at its first element."""
        if self.takes_addresses:
            return np.uint64(self.cl.SVM(array).svm_ptr)
        flags = self.cl.mem_flags
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=array)

    def set_arguments(self, kernel: Any, first: int, arguments: Iterable[Any]) -> None:
        """Sets what `argument` gave as arguments of a kernel, from the first position on."""
        if not self.takes_addresses:
            for position, argument in enumerate(arguments, first):
                kernel.set_arg(position, argument)
            return
        packed: list[Any] = []  # so PyOpenCL need not try what each of them could be
        for position, argument in enumerate(arguments, first):
            packed += position, _ADDRESS, int(argument)
        kernel._set_arg_buf_pack_multi(tuple(packed))


def _takes_addresses(cl: Any, device: Any) -> bool:
    """Whether kernels may be given addresses of the process's memory, as numbers."""
    if not device.type & cl.device_type.CPU or struct.calcsize(_ADDRESS.decode()) != 8:
        return False
    capabilities = getattr(device, "svm_capabilities", 0)
    return bool(capabilities & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)


def _mistakes_barriers(cl: Any, device: Any) -> bool:
    """Whether the device's compiler, when it optimises, gets some kernels with barriers wrong.

    Intel's for processors does (ADR 4). Schedules for processors have groups of one work-item,
    and no barriers; what has them was written for GPUs, and is run on a processor to test it. Nor
    does it get loops right of which the last iteration alone decides.
    """
    return bool(device.type & cl.device_type.CPU) and "Intel" in device.platform.vendor


def _target(cl: Any, device: Any) -> Target:
    is_cpu = bool(device.type & cl.device_type.CPU)
    vector_bytes, registers = hardware.vector_unit() if is_cpu else (4, 64)
    cores = int(device.max_compute_units)
    units = hardware.multiply_adds_per_cycle() if is_cpu else 1
    hertz = hardware.clock_hertz() if is_cpu else max(1, int(device.max_clock_frequency)) * 1e6
    return Target(
        kind="cpu" if is_cpu else "gpu",
        name=f"{device.name.strip()} {hardware.processor_model() if is_cpu else ''}".strip(),
        dialect="opencl-fma" if is_cpu and hardware.has_fma() else "opencl",
        driver=f"{device.platform.name.strip()} {device.driver_version}",
        cores=cores,
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=hardware.cache_bytes(1, 32 << 10),
        l2_bytes=hardware.cache_bytes(2, 512 << 10),
        l3_bytes=hardware.cache_bytes(3, int(device.global_mem_cache_size)),
        local_bytes=int(device.local_mem_size),
        max_threads=int(device.max_work_group_size),
        warp=1 if is_cpu else 32,
        rate=hertz * units * vector_bytes / 4,
        units=units,
        bandwidth=40e9,
        launch_seconds=5e-6,
        has_fp64=bool(device.double_fp_config),
    )


class Kernels:
    """Makes the kernel objects of a program, which hold the arguments of a launch.

    Making one takes longer than some kernels run, so each thread has some to share among launches
    that set all arguments.
    """

    def __init__(self, cl: Any, program: Any, source: KernelSource) -> None:
        self.cl = cl
        self.program = program
        self.names = [entry.name for entry in source.entries]
        self.threads = [(entry.threads,) for entry in source.entries]
        self.arrays = len(source.arrays)
        self._local = threading.local()

    def made(self) -> list[Any]:
        """A new kernel object for each kernel of the program."""
        return caching(self.cl, lambda: [self.cl.Kernel(self.program, n) for n in self.names])

    def shared(self) -> list[Any]:
        """The ones that all launches of this thread may use."""
        try:
            return self._local.kernels
        except AttributeError:
            self._local.kernels = self.made()
            return self._local.kernels


class OpenCLProgram:
    """A compiled program with its sizes; each thread has kernels and scratch memory of its own."""

    def __init__(
        self,
        device: OpenCLDevice,
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
        self._local = threading.local()

    @cached_property
    def _for_unaligned(self) -> OpenCLProgram:
        """The program for arrays that begin anywhere, compiled when the first one comes."""
        assert self.source.unaligned is not None
        return self.device.compile(self.source.unaligned, self.sizes.tolist())

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> OpenCLProgram:
        """The same program for other sizes or another queue, without compiling again."""
        inline = self.inline if inline is None else inline
        return OpenCLProgram(self.device, self.kernels, self.source, sizes, inline)

    def _launches(self) -> list[tuple[Any, tuple[int], tuple[int]]]:
        """Kernels with their fixed arguments set: shared ones for the first call of a thread."""
        if getattr(self._local, "is_known", False):
            self._local.launches = self._prepared(self.kernels.made())
            return self._local.launches
        self._local.is_known = True
        return self._prepared(self.kernels.shared())

    def _prepared(self, kernels: list[Any]) -> list[tuple[Any, tuple[int], tuple[int]]]:
        memory, scratch = self.device.scratch(self.scratch_bytes, inline=not self.waits)
        arrays: list[np.ndarray] = [self.sizes] if len(self.sizes) else []
        if self.counter_count:
            arrays.insert(0, np.zeros(self.counter_count, np.uint32))
        fixed = [scratch, *map(self.device.argument, arrays)]
        first = self.kernels.arrays  # scratch memory, counters and sizes come after them
        for kernel in kernels:
            self.device.set_arguments(kernel, first, fixed)
        self._local.keep = (memory, arrays, fixed)  # of which kernels have but the addresses
        return list(zip(kernels, self.groups, self.kernels.threads, strict=True))

    def __call__(self, *arrays: np.ndarray) -> None:
        """Runs the program on inputs and outputs, and returns when the outputs are written."""
        if self.source.unaligned is not None and not all(map(_is_aligned, arrays)):
            self._for_unaligned(*arrays)
            return
        if not self.device.takes_addresses:
            self._run_through_buffers(arrays)
            return
        try:
            launches = self._local.launches
        except AttributeError:
            launches = self._launches()
        addresses = self._addresses(arrays)
        try:
            for kernel, groups, threads in launches:
                kernel._set_arg_buf_pack_multi(addresses)
                _enqueue(self.queue, kernel, groups, threads)
        finally:
            if self.waits:
                self.queue.finish()

    def _addresses(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """Position, kind and value of the arguments that the arrays are."""
        svm = self.device.cl.SVM
        arguments: list[Any] = []
        for position, array in enumerate(arrays):
            try:
                address = svm(array).svm_ptr
            except ValueError:  # PyOpenCL takes only memory that is contiguous and writeable
                address = array.__array_interface__["data"][0]
            arguments += position, _ADDRESS, address
        return tuple(arguments)

    @property
    def _has_choices(self) -> bool:
        """Whether a launch is more than one kernel with the arrays' memory as arguments."""
        source = self.source
        several = len(source.entries) != 1 or source.unaligned is not None
        return several or not self.device.takes_addresses

    def launcher(self) -> Callable[..., None]:
        """A function that does what a call does, with all that can be looked up looked up."""
        return self if self._has_choices else self._launcher(waits=self.waits)

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        """A launcher that only begins the work, and what waits for it and all begun before."""
        if behind and not self.waits and not self._has_choices:
            return self.bound(self.sizes.tolist(), inline=False).beginner()
        if self.waits and not self._has_choices:
            return self._launcher(waits=False), self.queue.finish
        return self.launcher(), None

    def _launcher(self, *, waits: bool) -> Callable[..., None]:
        local, svm, enqueue = self._local, self.device.cl.SVM, _enqueue
        queue, finish = self.queue, self.queue.finish

        def launch(*arrays: np.ndarray) -> None:
            try:
                ((kernel, groups, threads),) = local.launches
            except AttributeError:
                ((kernel, groups, threads),) = self._launches()
            kernel._set_arg_buf_pack_multi(self._addresses(arrays))
            try:
                enqueue(queue, kernel, groups, threads)
            finally:  # also where an interrupt comes: the kernel has the arrays' memory
                if waits:
                    finish()

        def launch_of_three(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> None:
            # Most kernels; spelt out, since this is most of a small call.
            try:
                ((kernel, groups, threads),) = local.launches
            except AttributeError:
                ((kernel, groups, threads),) = self._launches()
            try:
                a, b, c = svm(first).svm_ptr, svm(second).svm_ptr, svm(third).svm_ptr
                addresses = (0, b"L", a, 1, b"L", b, 2, b"L", c)
            except ValueError:
                addresses = self._addresses((first, second, third))
            kernel._set_arg_buf_pack_multi(addresses)
            try:
                enqueue(queue, kernel, groups, threads)
            finally:  # also where an interrupt comes: the kernel has the arrays' memory
                if waits:
                    finish()

        def launch_of_two(first: np.ndarray, second: np.ndarray) -> None:
            try:
                ((kernel, groups, threads),) = local.launches
            except AttributeError:
                ((kernel, groups, threads),) = self._launches()
            try:
                a, b = svm(first).svm_ptr, svm(second).svm_ptr
                addresses = (0, b"L", a, 1, b"L", b)
            except ValueError:
                addresses = self._addresses((first, second))
            kernel._set_arg_buf_pack_multi(addresses)
            try:
                enqueue(queue, kernel, groups, threads)
            finally:  # also where an interrupt comes: the kernel has the arrays' memory
                if waits:
                    finish()

        spelt_out = {2: launch_of_two, 3: launch_of_three}
        return spelt_out.get(self.kernels.arrays, launch)

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        """A launcher that sets only the arguments that are other arrays than the last time.

        `check` is called with the arrays whenever one of them is new. Arrays are remembered by
        weak references, which keep NumPy from moving their memory (`ndarray.resize` refuses). The
        kernels belong to this launcher alone.
        """
        own = self.bound(self.sizes.tolist())
        if self._has_choices:

            def launch_all(*arrays: np.ndarray) -> None:
                check(*arrays)
                own(*arrays)

            return launch_all
        local, enqueue = own._local, _enqueue
        queue, finish, waits = own.queue, own.queue.finish, own.waits
        nothing = [_nothing] * self.kernels.arrays

        def with_arguments(*arrays: np.ndarray) -> tuple[Any, ...]:
            """The state of this thread once the arrays are its kernel's arguments."""
            check(*arrays)
            state = getattr(local, "state", None)
            launch = state[:3] if state else own._prepared(own.kernels.made())[0]
            local.state = (*launch, *nothing)
            launch[0]._set_arg_buf_pack_multi(own._addresses(arrays))
            local.state = (*launch, *map(weakref.ref, arrays))
            return local.state

        def launch(*arrays: np.ndarray) -> None:
            state: tuple[Any, ...] = getattr(local, "state", (None, None, None, *nothing))
            kernel, groups, threads, *known = state
            if not all(one() is array for one, array in zip(known, arrays, strict=True)):
                kernel, groups, threads, *_ = with_arguments(*arrays)
            try:
                enqueue(queue, kernel, groups, threads)
            finally:  # also where an interrupt comes: the kernel has the arrays' memory
                if waits:
                    finish()

        def launch_of_three(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> None:
            # Most kernels; spelt out, since this is most of a small call.
            try:
                kernel, groups, threads, one, two, three = local.state
            except AttributeError:
                kernel, groups, threads, one, two, three = with_arguments(first, second, third)
            if one() is not first or two() is not second or three() is not third:
                with_arguments(first, second, third)
            try:
                enqueue(queue, kernel, groups, threads)
            finally:  # also where an interrupt comes: the kernel has the arrays' memory
                if waits:
                    finish()

        return launch_of_three if len(nothing) == 3 else launch

    def _run_through_buffers(self, arrays: Sequence[np.ndarray]) -> None:
        cl, queue = self.device.cl, self.queue
        try:
            launches = self._local.launches
        except AttributeError:
            launches = self._launches()
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
            queue.finish()


def _is_aligned(array: np.ndarray) -> bool:
    return array.__array_interface__["data"][0] % ALIGNMENT == 0


def _nothing() -> np.ndarray | None:
    """What stands for an array that is not known."""
    return None


def _enqueue(queue: Any, kernel: Any, groups: tuple[int], threads: tuple[int]) -> None:
    """Enqueues a kernel; replaced by PyOpenCL's own function when it is loaded."""
    raise LaunchError("PyOpenCL is not loaded")


def memory_span(array: np.ndarray) -> tuple[np.ndarray, int]:
    """The bytes from the array's first to its last element, and where element 0 lies in them."""
    low, high = np.lib.array_utils.byte_bounds(array)
    address = array.__array_interface__["data"][0]
    memory = (ctypes.c_ubyte * max(1, high - low)).from_address(low)
    return np.ctypeslib.as_array(memory), address - low


def devices() -> list[tuple[str, Any]]:
    """Every OpenCL device with its name, CPUs first, Intel's runtime before others."""
    cl = load_pyopencl()
    global _enqueue
    _enqueue = cl._cl.enqueue_nd_range_kernel
    found: list[tuple[str, Any]] = []
    platforms: list[Any] = []
    with contextlib.suppress(cl.Error):
        platforms = cl.get_platforms()
    for platform in platforms:
        found += [(_label(device), device) for device in platform.get_devices()]
    if not found:
        raise NoDeviceError("no OpenCL device on this machine", hint=hint_where_none_is_found())

    def rank(entry: tuple[str, Any]) -> tuple[bool, bool]:
        label, device = entry
        return not device.type & cl.device_type.CPU, "intel" not in label.lower()

    return sorted(found, key=rank)


def _label(device: Any) -> str:
    """By what users name a device."""
    return f"{device.platform.name.strip()}: {device.name.strip()}"


def open_device(device: Any) -> OpenCLDevice:
    """The backend of one device that `devices` found."""
    return OpenCLDevice(load_pyopencl(), device)
