"""An emulated processor as a device: it compiles programs, which take NumPy arrays."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding

from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.backends.host.binary_cache import Binaries, Compiled, MachineCode, folder_of_kept
from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.llvm.object_compiler import ObjectCompiler, recipe
from mdtensor.kernels.kernel_source import KernelSource
from tests.cross.emulated import EMULATED
from tests.cross.emulator import Emulator, EmulatorError, Span
from tests.lower.random_problems import guarded


class CrossDevice:
    """A processor by its name in LLVM, with the interface of LLVM's device.

    `hasty` compiles as first calls do. If arrays lie on `whole_pages` of their own, all bytes of
    these are copied to the processor and back, so that what kernels write beside them shows there.
    """

    arrays = "numpy"
    faults: tuple[type[Exception], ...] = ()
    hurries = True
    compiler: Mapping[str, str] | None = None

    def __init__(self, name: str, *, hasty: bool = False, whole_pages: bool = False) -> None:
        self.emulator = emulator(name)
        self.objects = compiler_for(name)
        self.target = EMULATED[name].processor.target(f"LLVM {_version()}")
        self.hasty = hasty
        self.whole_pages = whole_pages

    @property
    def binaries(self) -> Binaries:
        """Object files that are kept for other processes."""
        return Binaries(folder_of_kept("binaries"))

    def machine_code_key(self, source: KernelSource) -> str:
        """What decides the machine code of a program."""
        level, passes = recipe(source.text, hasty=source.hasty)
        how = f"level {level} after {' '.join(passes)}"
        return "\n".join((self.target.name, self.target.driver, how, source.text))

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CrossProgram:
        """A program on the processor."""
        return self.load(self.compiled(replace(source, hasty=self.hasty or source.hasty)), sizes)

    def compiled(self, source: KernelSource) -> Compiled:
        """An object file; CompileError where LLVM refuses the text."""
        return Compiled(
            source, MachineCode(self.objects.object_code(source.text, hasty=source.hasty))
        )

    def load(self, compiled: Compiled, sizes: Sequence[int] = ()) -> CrossProgram:
        """The program of an object file."""
        return CrossProgram(
            self, self.emulator.loaded(compiled.machine.code), compiled.source, sizes
        )

    def is_captured(self) -> bool:
        return False

    def is_lost(self) -> bool:
        return False

    def empty(
        self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
    ) -> np.ndarray:
        return aligned_empty(shape, dtype, strides)


class CrossProgram:
    """A loaded program with its sizes, called as programs of LLVM's device are."""

    def __init__(
        self, device: CrossDevice, number: int, source: KernelSource, sizes: Sequence[int]
    ) -> None:
        self.device = device
        self.number = number
        self.source = source
        values = dict(zip(source.sizes, sizes, strict=True))
        self.sizes = tuple(sizes)
        self.kernels = [(e.name, max(1, evaluated(e.groups, values))) for e in source.entries]
        self.scratch = max(evaluated(entry.scratch, values) for entry in source.entries)
        counters = max(evaluated(entry.counters, values) for entry in source.entries)
        self.counters = _at_the_end(8 * max(2, counters), 0)

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CrossProgram:
        """The same program for other sizes or another number of threads."""
        source = self.source if inline is None else replace(self.source, inline=inline)
        return CrossProgram(self.device, self.number, source, sizes)

    def __call__(self, *arrays: np.ndarray) -> None:
        """Runs the program on inputs and outputs; EmulatorError where it writes beside outputs."""
        spans = [Span.of(array) for array in arrays]
        if self.device.whole_pages:
            spans = [span.pages() for span in spans]
        scratch, counters = _at_the_end(self.scratch, 0xFF), Span.of(self.counters)
        *found, _, counted = self.device.emulator.run(
            self.number,
            self.kernels,
            (*spans, Span.of(scratch), counters),
            self.sizes,
            inline=self.source.inline,
        )
        counters.write(counted)
        if self.device.whole_pages:
            for span, content in zip(spans, found, strict=True):
                span.write(content)
            return
        roles = [argument.role for argument in self.source.arrays]
        for array, span, content, role in zip(arrays, spans, found, roles, strict=True):
            _take(array, span, content, may_change=role == "output")

    def launcher(self) -> Callable[..., None]:
        return self

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        return self, None


def _take(array: np.ndarray, span: Span, content: bytes, *, may_change: bool) -> None:
    """Takes elements that a program wrote; all other bytes must be as they were."""
    before = bytearray(span.bytes())
    place = span.first - span.begin
    if may_change:
        views = [
            np.ndarray(array.shape, array.dtype, memory, place, array.strides)
            for memory in (content, before)
        ]
        views[1][...] = views[0]
        array[...] = views[0]
    if before != content:
        raise EmulatorError("a program wrote beside the elements of its results")


def _at_the_end(nbytes: int, filled: int) -> np.ndarray:
    """Memory behind which nobody may touch anything."""
    memory = guarded(nbytes)
    memory[:] = filled
    return memory[memory.size - -(-max(nbytes, 8) // 8) * 8 :]


@cache
def emulator(name: str) -> Emulator:
    """The process on a processor that all programs of this process share."""
    found = Emulator(EMULATED[name], compiler_for(name))
    atexit.register(found.close)
    return found


def _version() -> str:
    return ".".join(map(str, binding.llvm_version_info))


@cache
def compiler_for(name: str) -> ObjectCompiler:
    """What compiles for a processor, by its name in LLVM."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    processor = EMULATED[name].processor
    return ObjectCompiler(binding, processor.triple, processor.name, features="")
