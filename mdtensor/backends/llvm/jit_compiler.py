"""LLVM IR to machine code, and machine code to memory, by llvmlite."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from itertools import count
from typing import Any

from mdtensor.backends.host.binary_cache import Compiled, MachineCode
from mdtensor.errors import CompileError
from mdtensor.forks import keep_over_forks
from mdtensor.kernels.kernel_source import KernelSource, numbered

# Characters of the longest text whose registers are assigned well: 35 ms each 100,000.
_OPTIMISED_FULLY = 400_000
_PASSES = ("sroa", "simplify_cfg")
# Programs of a linker. LLVM keeps 9 kB of each that was released until its linker ends, and a
# linker takes 100 kB.
_MOST_OF_LINKER = 32


class JitCompiler:
    """Compiles for the processor that runs this process."""

    def __init__(self) -> None:
        binding: Any = import_module("llvmlite.binding")  # which loads 60 MB
        self.llvm = llvm = binding
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.processor = str(llvm.get_host_cpu_name())
        self.features = str(llvm.get_host_cpu_features().flatten())
        self.version = ".".join(map(str, llvm.llvm_version_info))
        self._lock = threading.Lock()
        self._numbers = count()
        self._linker: Any = None
        # By level of optimisation. LLVM loses a part of each that ends, 1.7 kB.
        self._pipelines: dict[int, tuple[Any, Any]] = {}
        keep_over_forks(self._lock)

    def _linker_of(self, number: int) -> Any:
        """The linker of a program, which ends with the last program that it linked."""
        if number % _MOST_OF_LINKER == 0:
            self._linker = self.llvm.create_lljit_compiler(self._machine(2))
        return self._linker

    def _pipeline(self, level: int) -> tuple[Any, Any]:
        """What makes machine code at a level of optimisation, and the builder of its passes."""
        if level not in self._pipelines:
            machine = self._machine(level)
            options = self.llvm.create_pipeline_tuning_options(speed_level=2)
            self._pipelines[level] = machine, self.llvm.create_pass_builder(machine, options)
        return self._pipelines[level]

    def _machine(self, level: int) -> Any:
        target = self.llvm.Target.from_triple(self.llvm.get_process_triple())
        return target.create_target_machine(
            cpu=self.processor, features=self.features, opt=level, reloc="pic"
        )

    def compiled(self, source: KernelSource) -> Compiled:
        """A program as an object file, which a device loads in this or another process."""
        return Compiled(source, MachineCode(self.object_code(source.text, hasty=source.hasty)))

    def object_code(self, text: str, *, hasty: bool = False) -> bytes:
        """An object file of a module; CompileError with numbered lines where LLVM refuses it.

        Where it is `hasty`, values go by the stack from one basic block to the next: that takes a
        quarter of the time to compile, and up to seven times as long to run.
        """
        with self._lock:
            module = self._parsed(text)
            level = 0 if hasty or len(text) >= _OPTIMISED_FULLY else 2
            machine, builder = self._pipeline(level)
            self._optimise(module, builder)
            return bytes(machine.emit_object(module))

    def _optimise(self, module: Any, builder: Any) -> None:
        """Passes that kernels need: schedules have unrolled their loops and made their vectors.

        A pipeline as compilers of C have it takes much longer, and makes nothing faster; nor did
        combinations of instructions and the rotation of loops, a fifth of the time.
        """
        passes = self.llvm.create_new_module_pass_manager()
        for name in _PASSES:
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, builder)

    def _parsed(self, text: str) -> Any:
        try:
            module = self.llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            said = str(error).splitlines()
            raise CompileError(
                f"LLVM refused a kernel: {said[0] if said else error}",
                notes=[*said[:30], *numbered(text).splitlines()],
            ) from None
        return module

    def addresses(self, code: bytes, names: Sequence[str]) -> tuple[list[int], Any]:
        """Where the functions of an object file lie, and what keeps them in memory."""
        with self._lock:
            builder = self.llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
            for name in names:
                builder = builder.export_symbol(name)
            number = next(self._numbers)
            linker = self._linker_of(number)
            try:
                library = builder.link(linker, f"program_{number}")
            except RuntimeError as error:
                raise CompileError(f"LLVM refused machine code: {error}") from None
            library.linker = linker  # which thus ends later
            return [int(library[name]) for name in names], library
