"""The LLVM backend: NumPy arrays, and kernels compiled for the host's processor."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from mdtensor.backends.host import hardware
from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.backends.host.binary_cache import Binaries, Compiled, MachineCode, folder_of_kept
from mdtensor.backends.host.thread_count import thread_count
from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.llvm.llvm_program import LLVMProgram
from mdtensor.backends.llvm.native_launch import NAMES, NativeLaunch, runtime_ir
from mdtensor.backends.llvm.object_compiler import recipe
from mdtensor.backends.llvm.processors import known_processor
from mdtensor.errors import CompileError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.specs import Target


@cache
def open_device() -> LLVMDevice:
    """The LLVM backend, opened once."""
    return LLVMDevice()


class LLVMDevice:
    """The host's processor as a backend."""

    arrays = "numpy"
    faults: tuple[type[Exception], ...] = ()
    hurries = True
    # Other processes of this machine compile for the same processor.
    compiler: Mapping[str, str] | None = {"kind": "llvm"}

    def __init__(self) -> None:
        self.jit = JitCompiler()
        self.target = _target(self.jit, thread_count())
        self.launches = NativeLaunch(*self._runtime())

    def _runtime(self) -> tuple[list[int], Any]:
        """The launch functions, compiled with `hasty` code that costs a launch 10 ns."""
        jit, text = self.jit, runtime_ir(self.target.cores)
        key = self._key(text, hasty=True)
        machine = self.binaries.get(key)
        if machine is None:
            machine = MachineCode(jit.object_code(text, hasty=True))
            self.binaries.put(key, machine)
        return jit.addresses(machine.code, NAMES)

    @property
    def binaries(self) -> Binaries:
        """The disk cache of machine code."""
        return Binaries(folder_of_kept("binaries"))

    def machine_code_key(self, source: KernelSource) -> str:
        """The cache key of a program's machine code."""
        return self._key(source.text, hasty=source.hasty)

    def _key(self, text: str, *, hasty: bool) -> str:
        jit, (level, passes) = self.jit, recipe(text, hasty=hasty)
        how = f"level {level} after {' '.join(passes)}"
        return "\n".join(("llvm", jit.version, jit.processor, jit.features, how, text))

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> LLVMProgram:
        """Compile a program, or load it from the disk cache."""
        key = self.machine_code_key(source)
        if (machine := self.binaries.get(key)) is not None:
            with contextlib.suppress(CompileError):
                return self.load(Compiled(source, machine), sizes)
        compiled = self.compiled(source)
        self.binaries.put(key, compiled.machine)
        return self.load(compiled, sizes)

    def compiled(self, source: KernelSource) -> Compiled:
        """Compile a program to an object file, for `load` in any process."""
        return self.jit.compiled(source)

    def load(self, compiled: Compiled, sizes: Sequence[int] = ()) -> LLVMProgram:
        """Link a program's object file, compiled in this or another process."""
        source = compiled.source
        names = [entry.name for entry in source.entries]
        addresses, library = self.jit.addresses(compiled.machine.code, names)
        return LLVMProgram(self, addresses, library, source, sizes, source.inline)

    def is_captured(self) -> bool:
        """Always False: there are no graphs."""
        return False

    def is_lost(self) -> bool:
        """Always False: a fault ends the process."""
        return False

    def empty(
        self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
    ) -> np.ndarray:
        """An uninitialised NumPy array on a 64-byte boundary; strides are in elements."""
        return aligned_empty(shape, dtype, strides)


def _dialect() -> str:
    if {"avx512f", "avx512vl"} <= hardware.cpu_flags():
        return "llvm-avx512"
    return "llvm-fma" if hardware.has_fma() and hardware.converts_halves() else "llvm"


def _target(jit: JitCompiler, cores: int) -> Target:
    """The host's Target, by the operating system, else by the processor's name."""
    vector_bytes, registers = hardware.vector_unit()
    known = known_processor(jit.processor)
    units = known.units if known else hardware.multiply_adds_per_cycle()
    hertz = hardware.clock_hertz(known.hertz) if known else hardware.clock_hertz()
    l1, l2, l3 = (
        (known.l1_bytes, known.l2_bytes, known.l3_bytes)
        if known
        else (32 << 10, 512 << 10, 16 << 20)
    )
    return Target(
        kind="cpu",
        name=f"{jit.processor} {hardware.processor_model()}".strip(),
        dialect=_dialect(),
        driver=f"LLVM {jit.version}",
        cores=cores,
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=hardware.cache_bytes(1, l1),
        l2_bytes=hardware.cache_bytes(2, l2),
        l3_bytes=hardware.cache_bytes(3, l3),
        local_bytes=32 << 10,
        max_threads=1,
        warp=1,
        rate=hertz * units * vector_bytes / 4,
        units=units,
        bandwidth=40e9,
        launch_seconds=5e-6,
        pairs="+avx512bf16" in jit.features.split(","),
    )
