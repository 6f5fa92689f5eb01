"""CuPy arrays on their CUDA device and current stream."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mdtensor.backends.evaluate import evaluated
from mdtensor.errors import CompileError, NoDeviceError
from mdtensor.kernels.source import ALIGNMENT, KernelSource, numbered
from mdtensor.specs import Target

# Numbers of cudaDeviceAttr: kHz of cores and of memory, bits of the bus between them.
_CLOCK, _MEMORY, _WIDTH = 13, 36, 37
INSTALL_HINT = "pip install 'mdtensor[cuda12]' or 'mdtensor[cuda13]', as the driver allows"


def load_cupy() -> Any:
    """CuPy; NoDeviceError where it is not installed."""
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise NoDeviceError(f"CuPy cannot be imported: {error}", hint=INSTALL_HINT) from error


def devices() -> list[tuple[int, str]]:
    """Number and name of every CUDA device; empty where CuPy or a driver is missing."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return []
    try:
        cupy = load_cupy()
        count = cupy.cuda.runtime.getDeviceCount()
        names = [cupy.cuda.runtime.getDeviceProperties(n)["name"].decode() for n in range(count)]
    except Exception:  # a missing driver raises errors of several kinds while CuPy loads
        return []
    return [(n, f"CUDA {n}: {label}") for n, label in enumerate(names)]


class CupyDevice:
    """One CUDA device."""

    def __init__(self, number: int) -> None:
        self.cupy = load_cupy()
        self.number = number
        facts = self.cupy.cuda.runtime.getDeviceProperties(number)
        capability = f"{facts['major']}{facts['minor']}"
        clock, bandwidth = self._rates()
        self.architecture = f"sm_{capability}"
        self.target = Target(
            kind="gpu",
            name=facts["name"].decode(),
            dialect="cuda",
            driver=f"CUDA {self.cupy.cuda.runtime.driverGetVersion()} {self.architecture}",
            cores=int(facts["multiProcessorCount"]),
            vector_bytes=4,
            vector_registers=255,
            l1_bytes=int(facts["sharedMemPerMultiprocessor"]),
            l2_bytes=int(facts["l2CacheSize"]),
            l3_bytes=int(facts["l2CacheSize"]),
            local_bytes=int(facts["sharedMemPerBlock"]),
            max_threads=int(facts["maxThreadsPerBlock"]),
            warp=int(facts["warpSize"]),
            rate=clock * 128,
            bandwidth=bandwidth,
            launch_seconds=5e-6,
        )

    def _rates(self) -> tuple[float, float]:
        """Cycles and bytes of memory per second, by the driver's word."""
        attribute = self.cupy.cuda.runtime.deviceGetAttribute
        clock, memory, width = (attribute(n, self.number) for n in (_CLOCK, _MEMORY, _WIDTH))
        return max(1, clock) * 1e3, max(1, memory) * 1e3 * 2 * max(8, width) / 8

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CupyProgram:
        """Compiles a program for this device; CuPy keeps the binary."""
        with self.cupy.cuda.Device(self.number):
            module = self.cupy.RawModule(code=source.text, options=("-std=c++17",))
            try:
                kernels = [module.get_function(entry.name) for entry in source.entries]
                for kernel, entry in zip(kernels, source.entries, strict=True):
                    if entry.pool:
                        kernel.max_dynamic_shared_size_bytes = entry.pool
            except self.cupy.cuda.compiler.CompileException as error:
                raise CompileError(
                    f"{self.target.name} refused a kernel: {str(error).splitlines()[0]}",
                    notes=[*str(error).splitlines()[1:30], *numbered(source.text).splitlines()],
                ) from None
        return CupyProgram(self, kernels, source, sizes)

    def empty(self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None) -> Any:
        """An uninitialised CuPy array; strides are in elements."""
        with self.cupy.cuda.Device(self.number):
            base = self.cupy.empty(math.prod(shape), dtype)
            steps = None if strides is None else [s * base.dtype.itemsize for s in strides]
            return self.cupy.ndarray(tuple(shape), base.dtype, base.data, steps)


class CupyProgram:
    """A compiled program with its sizes, launched on the current stream without waiting."""

    def __init__(
        self, device: CupyDevice, kernels: list[Any], source: KernelSource, sizes: Sequence[int]
    ) -> None:
        self.device = device
        self.kernels = kernels
        self.source = source
        self.unaligned = source.unaligned
        values = dict(zip(source.sizes, sizes, strict=True))
        self.sizes = tuple(np.int64(size) for size in sizes)
        self.launches = [
            (kernel, (max(1, evaluated(entry.groups, values)),), (entry.threads,), entry.pool)
            for kernel, entry in zip(kernels, source.entries, strict=True)
        ]
        self.scratch_bytes = max(evaluated(e.scratch, values) for e in source.entries)

    @cached_property
    def _for_unaligned(self) -> CupyProgram:
        """The program for arrays that begin anywhere, compiled when the first one comes."""
        assert self.unaligned is not None
        return self.device.compile(self.unaligned, [int(size) for size in self.sizes])

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CupyProgram:
        """The same program for other sizes, without compiling again."""
        return CupyProgram(self.device, self.kernels, self.source, sizes)

    def launcher(self) -> CupyProgram:
        """A function that does what a call does: the program itself."""
        return self

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        """A launcher that calls `check` with the arrays first."""

        def launch(*arrays: Any) -> None:
            check(*arrays)
            self(*arrays)

        return launch

    def __call__(self, *arrays: Any) -> None:
        """Enqueues the kernels on the current stream."""
        if self.unaligned and any(array.data.ptr % ALIGNMENT for array in arrays):
            self._for_unaligned(*arrays)
            return
        scratch = self.device.cupy.empty(max(self.scratch_bytes, 8), np.uint8)
        for kernel, groups, threads, pool in self.launches:
            kernel(groups, threads, (*arrays, scratch, *self.sizes), shared_mem=pool)


def open_device(number: int) -> CupyDevice:
    """The backend of a CUDA device."""
    return CupyDevice(number)
