"""The CUDA backend: CuPy arrays on a device's current stream."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mdtensor.backends.cuda.cuda_program import CudaProgram, Functions
from mdtensor.backends.cuda.cuda_stream import beside_captures
from mdtensor.backends.cuda.nvrtc import INSTALL_HINT, Nvrtc
from mdtensor.backends.host.binary_cache import Binaries, Compiled, MachineCode
from mdtensor.errors import CompileError, NoDeviceError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.specs import CoreLimits, Target

# Numbers of cudaDeviceAttr: kHz of cores and of memory, bits of the bus between them, and bytes of
# shared memory that a block can have if it asks for them; what the blocks of a core share: threads,
# registers, their number, and bytes of shared memory that the system takes for each.
_CLOCK, _MEMORY, _WIDTH, _LOCAL = 13, 36, 37, 97
_THREADS, _REGISTERS, _BLOCKS, _RESERVED = 39, 82, 106, 111
_UNITS = 128  # multiply-adds of float32 that a core begins in a cycle
# The first capability whose own instructions need an architecture with an "a".
FIRST_SPECIFIC = 9
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")


def load_cupy() -> Any:
    """Import CuPy; NoDeviceError if it is missing."""
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise NoDeviceError(f"CuPy cannot be imported: {error}", hint=INSTALL_HINT) from error


def devices() -> list[tuple[int, str]]:
    """Number and name of every CUDA device; empty where CuPy or a driver is missing."""
    try:
        cupy = load_cupy()
        count = cupy.cuda.runtime.getDeviceCount()
        names = [cupy.cuda.runtime.getDeviceProperties(n)["name"].decode() for n in range(count)]
    except Exception:  # a missing driver raises errors of several kinds while CuPy loads
        return []
    return [(n, f"{name_of(n)} {label}") for n, label in enumerate(names)]


def name_of(number: int) -> str:
    """The prefix of a CUDA device's name."""
    return f"CUDA {number}:"


class CupyDevice:
    """A CUDA device as a backend.

    `faults` are errors after which the device may be lost to this process, see `is_lost`.
    """

    arrays = "cupy"
    hurries = False

    def __init__(self, number: int) -> None:
        self.cupy = load_cupy()
        self.number = number
        cuda = self.cupy.cuda
        self.faults: tuple[type[Exception], ...] = (
            cuda.runtime.CUDARuntimeError,
            cuda.driver.CUDADriverError,
            MemoryError,
        )
        self.functions = Functions(self.cupy)
        facts = cuda.runtime.getDeviceProperties(number)
        clock, bandwidth = self._rates()
        specific = "a" if facts["major"] >= FIRST_SPECIFIC else ""
        self.nvrtc = Nvrtc(f"sm_{facts['major']}{facts['minor']}{specific}")
        self.target = Target(
            kind="gpu",
            name=facts["name"].decode(),
            dialect="cuda",
            driver=f"driver {self._driver()} NVRTC {self.nvrtc.version} {self.nvrtc.architecture}",
            cores=int(facts["multiProcessorCount"]),
            vector_bytes=4,
            vector_registers=255,
            l1_bytes=int(facts["sharedMemPerMultiprocessor"]),
            l2_bytes=int(facts["l2CacheSize"]),
            l3_bytes=int(facts["l2CacheSize"]),
            local_bytes=int(cuda.runtime.deviceGetAttribute(_LOCAL, number)),
            max_threads=int(facts["maxThreadsPerBlock"]),
            warp=int(facts["warpSize"]),
            rate=clock * _UNITS,
            units=_UNITS,
            bandwidth=bandwidth,
            launch_seconds=5e-6,
            counts_groups=True,
            clusters=facts["major"] >= FIRST_SPECIFIC,
            matrices=facts["major"] >= 8,
            bulk_copies=facts["major"] == FIRST_SPECIFIC,
            core=self._core(),
        )

    def _core(self) -> CoreLimits:
        """Resource limits of a multiprocessor, by the driver's attributes."""
        attribute = self.cupy.cuda.runtime.deviceGetAttribute
        numbers = (_REGISTERS, _THREADS, _BLOCKS, _RESERVED)
        registers, threads, groups, reserved = (int(attribute(n, self.number)) for n in numbers)
        return CoreLimits(registers, threads, groups, reserved_bytes=reserved)

    def _rates(self) -> tuple[float, float]:
        """Clock in hertz and memory bandwidth in bytes per second, by the driver's attributes."""
        attribute = self.cupy.cuda.runtime.deviceGetAttribute
        clock, memory, width = (attribute(n, self.number) for n in (_CLOCK, _MEMORY, _WIDTH))
        return max(1, clock) * 1e3, max(1, memory) * 1e3 * 2 * max(8, width) / 8

    def _driver(self) -> str:
        """The driver's version such as "580.159.04", else its CUDA version."""
        try:
            found = re.search(r"\d+\.\d+(\.\d+)?", _KERNEL_MODULE.read_text(encoding="utf-8"))
        except OSError:
            found = None
        return found[0] if found else f"of CUDA {self.cupy.cuda.runtime.driverGetVersion()}"

    @property
    def compiler(self) -> dict[str, str]:
        """The description of a compiler for this device that needs no GPU."""
        return {"kind": "nvrtc", "architecture": self.nvrtc.architecture}

    @property
    def binaries(self) -> Binaries:
        """The disk cache of machine code."""
        return self.nvrtc.binaries

    def machine_code_key(self, source: KernelSource) -> str:
        """The cache key of a program's machine code."""
        return self.nvrtc.key(source.text)

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CudaProgram:
        """Compile a program for this device, or load it from the disk cache."""
        return self._loaded(source, self.nvrtc.kept(source.text), sizes)

    def compiled(self, source: KernelSource) -> Compiled:
        """Compile a program to machine code, for `load`."""
        return Compiled(source, self.nvrtc.kept(source.text))

    def load(self, compiled: Compiled, sizes: Sequence[int] = ()) -> CudaProgram:
        """The program that another process compiled, which need not have its text."""
        return self._loaded(compiled.source, compiled.machine, sizes)

    def is_captured(self) -> bool:
        """Whether this thread's current stream is being captured into a graph."""
        return self.functions.is_in_capture(self.functions.current_stream().ptr)

    def _loaded(
        self, source: KernelSource, machine: MachineCode, sizes: Sequence[int]
    ) -> CudaProgram:
        with self.cupy.cuda.Device(self.number), beside_captures():
            module = self.cupy.cuda.function.Module()
            module.load(machine.code)
            kernels = [module.get_function(entry.name) for entry in source.entries]
            for kernel, entry in zip(kernels, source.entries, strict=True):
                if entry.pool:
                    self._provide(kernel, entry.pool)
        return CudaProgram(self, kernels, source, sizes)

    def _provide(self, kernel: Any, pool: int) -> None:
        """Lets a kernel's launches give so many bytes of local memory to a group.

        Raises CompileError where the device has less.
        """
        driver = self.cupy.cuda.driver
        most = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        try:
            driver.funcSetAttribute(kernel.ptr, most, pool)
        except driver.CUDADriverError as error:
            raise CompileError(f"groups cannot have {pool} bytes of local memory") from error

    def use(self) -> None:
        """Makes this the calling thread's current device."""
        self.cupy.cuda.Device(self.number).use()

    def is_lost(self) -> bool:
        """Whether the device is unusable in this process, as after an illegal memory access."""
        try:
            self.cupy.cuda.Device(self.number).synchronize()
        except self.faults:
            return True
        return False

    def empty(self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None) -> Any:
        """An uninitialised CuPy array; strides are in elements."""
        with self.cupy.cuda.Device(self.number):
            base = self.cupy.empty(math.prod(shape), dtype)
            steps = None if strides is None else [s * base.dtype.itemsize for s in strides]
            return self.cupy.ndarray(tuple(shape), base.dtype, base.data, steps)


def open_device(number: int) -> CupyDevice:
    """The backend of a CUDA device."""
    return CupyDevice(number)
