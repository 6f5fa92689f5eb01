"""The OpenCL backend: NumPy arrays, used in place.

Where the device is a processor that sees all of the process's memory (fine-grained system SVM),
kernels take the arrays' addresses; else buffers wrap the arrays' memory for the time of a call.
"""

from __future__ import annotations

import atexit
import contextlib
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.backends.host.binary_cache import Binaries, Compiled, MachineCode, folder_of_kept
from mdtensor.backends.host.deferred_release import DeferredRelease, Owner
from mdtensor.backends.opencl.opencl_program import ADDRESS, OpenCLProgram
from mdtensor.backends.opencl.opencl_runtime import (
    hint_where_none_is_found,
    hint_where_one_does_not_open,
    load_pyopencl,
)
from mdtensor.backends.opencl.opencl_target import target_of
from mdtensor.backends.opencl.opencl_waits import drained_at_end
from mdtensor.errors import CompileError, NoDeviceError
from mdtensor.forks import keep_over_forks
from mdtensor.kernels.kernel_source import KernelSource, numbered
from mdtensor.process_end import seconds_left

R = TypeVar("R")


def devices() -> list[tuple[str, Any]]:
    """Every OpenCL device with its name, CPUs first, Intel's runtime before others."""
    cl = load_pyopencl()
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


def open_device(device: Any) -> OpenCLDevice:
    """Open a device found by `devices`; NoDeviceError on failure."""
    return OpenCLDevice(load_pyopencl(), device)


class OpenCLDevice:
    """An OpenCL device as a backend, with its context and queue."""

    arrays = "numpy"
    faults: tuple[type[Exception], ...] = ()
    hurries = False

    def __init__(self, cl: Any, device: Any) -> None:
        self.cl = cl
        self.device = device
        try:
            self.context = cl.Context([device])
            self.queue = cl.CommandQueue(self.context)
        except cl.Error as error:
            name = _label(device)
            raise NoDeviceError(
                f"{name} cannot be opened: {error}", hint=hint_where_one_does_not_open(name)
            ) from None
        drained_at_end(cl, self.queue)
        # PyOpenCL's programs in Python are kept in a folder of its own, under a lock that killed
        # processes leave behind, and warn of all that compilers say.
        self._new_program: Callable[..., Any] = cl._cl._Program
        self.takes_addresses = _takes_addresses(cl, device)
        self.mistakes_barriers = _mistakes_barriers(cl, device)
        self._local, self.launching = threading.local(), threading.local()
        self._building = threading.Lock()
        self._ended_by: int | None = None  # the thread that ends the process
        self._programs = DeferredRelease[Any]()
        keep_over_forks(self._building)
        # Where the process ends under a compiler, that one calls what is no more there.
        atexit.register(self._end)
        self.target = target_of(cl, device)
        version = device.opencl_c_version.split()[2] if device.opencl_c_version else "1.2"
        self.options = [f"-cl-std=CL{'2.0' if float(version) >= 2 else '1.2'}"]

    @property
    def compiler(self) -> Mapping[str, str] | None:
        """The description of a compiler for other processes; None unless it is a CPU."""
        if not self.device.type & self.cl.device_type.CPU:
            return None
        return {"kind": "opencl", "device": _label(self.device)}

    @property
    def binaries(self) -> Binaries:
        """The disk cache of machine code."""
        return Binaries(folder_of_kept("binaries"))

    def machine_code_key(self, source: KernelSource) -> str:
        """The cache key of a program's machine code."""
        target = self.target
        facts = target.name, target.driver, f"{target.dialect} {target.vector_bytes}"
        return "\n".join((*facts, *self._options(source.text, source.fragile), source.text))

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> OpenCLProgram:
        """Compile a program, or load it from the disk cache.

        CompileError carries the compiler's words and numbered source. What was compiled here is
        loaded from its machine code, too: beside a text, Intel's runtime keeps what its compiler
        made on the way, 2 MB of a small program, as long as that is there.
        """
        key = self.machine_code_key(source)
        if (machine := self.binaries.get(key)) is not None:
            with contextlib.suppress(CompileError):  # another driver by the same name and number
                return self.load(Compiled(source, machine), sizes)
        compiled = self.compiled(source)
        self.binaries.put(key, compiled.machine)
        return self.load(compiled, sizes)

    def compiled(self, source: KernelSource) -> Compiled:
        """Compile a program to machine code, for `load`, which is 30 times as fast."""
        built = self.build(source.text, fragile=source.fragile)
        return Compiled(source, self._machine_code(built))

    def _end(self) -> None:
        """At process exit, wait for a running compilation, and forbid others to other threads."""
        self._ended_by = threading.get_ident()
        if self._building.acquire(timeout=seconds_left()):
            self._building.release()

    def _compiling(self, function: Callable[[], R]) -> R:
        """Call a function under the compiler's lock, after releasing unused programs.

        Programs of Intel's runtime share tables of its compiler: one that is released beside a
        compilation may break them, and the compiler then searches a table without end.

        Once the process ends, handlers of its end may yet compile. Any other thread that would ends
        here, as Python ends those that are left: waiting, it would keep locks that handlers need.
        """
        with self._building:
            if self._ended_by not in (None, threading.get_ident()):
                raise SystemExit
            self._programs.release()
            return function()

    def _machine_code(self, built: Owner[Any]) -> MachineCode:
        (code,) = built.held.get_info(self.cl.program_info.BINARIES)
        return MachineCode(code)

    def load(self, compiled: Compiled, sizes: Sequence[int] = ()) -> OpenCLProgram:
        """Load a program's machine code, compiled in this or another process."""
        try:
            owner = self._compiling(partial(self._loaded, compiled.machine.code))
        except self.cl.Error as error:
            raise CompileError(f"{self.target.name} refused machine code: {error}") from None
        return self._program(owner, compiled.source, sizes)

    def _loaded(self, code: bytes) -> Owner[Any]:
        owner = self._owner(self.context, [self.device], [code])
        owner.held._build(b"", None)
        return owner

    def is_captured(self) -> bool:
        """Always False: OpenCL has no graphs."""
        return False

    def _program(
        self, owner: Owner[Any], source: KernelSource, sizes: Sequence[int]
    ) -> OpenCLProgram:
        program = OpenCLProgram(self, owner, source, sizes)
        # Code is made for the first kernel object: milliseconds that are a compiler's.
        self._compiling(program.made)
        return program

    def is_lost(self) -> bool:
        """Always False: a fault on a processor ends the process."""
        return False

    def _owner(self, *arguments: Any) -> Owner[Any]:
        return self._programs.owner(self._new_program(*arguments))

    def build(self, text: str, *, fragile: bool = False, options: Sequence[str] = ()) -> Owner[Any]:
        """Compile a text to a PyOpenCL program without the cache, with extra compiler options."""
        owner = self._owner(self.context, text)
        said = " ".join([*self._options(text, fragile), *options])
        try:
            self._compiling(partial(owner.held._build, said.encode(), None))
        except self.cl.Error as error:
            logs = [line for _, log in owner.held._get_build_logs() for line in log.splitlines()]
            raise CompileError(
                f"{self.target.name} refused a kernel: {error}",
                notes=[*logs[:30], *numbered(text).splitlines()],
            ) from None
        return owner

    def _options(self, text: str, fragile: bool) -> list[str]:
        options = [*self.options, *(["-DBY_ADDRESS"] if self.takes_addresses else [])]
        shares = "barrier(" in text or "__local " in text
        if self.mistakes_barriers and (fragile or shares):
            options.append("-cl-opt-disable")
        return options

    def empty(
        self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
    ) -> np.ndarray:
        """An uninitialised NumPy array on a 64-byte boundary; strides are in elements."""
        return aligned_empty(shape, dtype, strides)

    def scratch(self, nbytes: int) -> tuple[np.ndarray, Any]:
        """Scratch memory of this thread, and its kernel argument.

        The queue runs one program of a thread at a time, so its programs share memory: one block
        for each power of two.
        """
        size = max(64, 1 << max(0, nbytes - 1).bit_length())
        blocks: dict[int, tuple[np.ndarray, Any]] | None = getattr(self._local, "blocks", None)
        if blocks is None:
            blocks = self._local.blocks = {}
        if size not in blocks:
            memory = aligned_empty((size,), np.uint8)
            blocks[size] = memory, self.argument(memory)
        return blocks[size]

    def argument(self, array: np.ndarray) -> Any:
        """The kernel argument for an array without an offset."""
        if self.takes_addresses:
            return np.uint64(self.cl.SVM(array).svm_ptr)
        flags = self.cl.mem_flags
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=array)

    def set_arguments(self, kernel: Any, first: int, arguments: Iterable[Any]) -> None:
        """Set the arguments of a kernel from position `first` on."""
        if not self.takes_addresses:
            for position, argument in enumerate(arguments, first):
                kernel.set_arg(position, argument)
            return
        packed: list[Any] = []  # so PyOpenCL need not try what each of them could be
        for position, argument in enumerate(arguments, first):
            packed += position, ADDRESS, int(argument)
        kernel._set_arg_buf_pack_multi(tuple(packed))


def _takes_addresses(cl: Any, device: Any) -> bool:
    """Whether kernels may take host addresses as integers (fine-grained system SVM)."""
    if not device.type & cl.device_type.CPU or struct.calcsize(ADDRESS.decode()) != 8:
        return False
    capabilities = getattr(device, "svm_capabilities", 0)
    return bool(capabilities & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)


def _mistakes_barriers(cl: Any, device: Any) -> bool:
    """Whether the optimising compiler breaks barriers and local memory.

    Intel's for processors does (ADR 4). Schedules for processors have groups of one work-item,
    and neither barriers nor local memory; what has them was written for GPUs, and is run on a
    processor to test it. Nor does it get loops right of which the last iteration alone decides.
    """
    return bool(device.type & cl.device_type.CPU) and "Intel" in device.platform.vendor


def _label(device: Any) -> str:
    """A device's name for users: platform and device."""
    return f"{device.platform.name.strip()}: {device.name.strip()}"
