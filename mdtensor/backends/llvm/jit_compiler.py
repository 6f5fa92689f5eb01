"""Compilation of LLVM IR and linking into this process, by llvmlite."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any, TypeVar

from mdtensor.backends.host.binary_cache import Compiled, MachineCode
from mdtensor.backends.host.deferred_release import DeferredRelease, Owner
from mdtensor.backends.llvm.object_compiler import ObjectCompiler
from mdtensor.errors import CompileError
from mdtensor.forks import keep_over_forks
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.process_end import seconds_left
from mdtensor.signals import uninterrupted

R = TypeVar("R")
# Programs of a linker. LLVM keeps 9 kB of each that was released until its linker ends, and a
# linker takes 100 kB.
_MOST_OF_LINKER = 32
_LONGEST_WAIT, _BETWEEN_LOOKS = 30.0, 0.05  # seconds


class JitCompiler:
    """A JIT compiler for the host's processor.

    llvmlite has a lock written in Python, which stays locked for ever where Ctrl-C comes as it is
    taken. So the main thread never calls llvmlite: other threads open it, compile, link and free.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_ending = False
        self._numbers = count()
        self._linker: Any = None
        self._libraries = DeferredRelease[Any]()
        uninterrupted(self._open)
        keep_over_forks(self._lock)
        atexit.register(self._end)

    def _open(self) -> None:
        """Load llvmlite, and query the host's processor."""
        binding: Any = import_module("llvmlite.binding")  # which loads 60 MB
        self.llvm = llvm = binding
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.processor = str(llvm.get_host_cpu_name())
        self.features = str(llvm.get_host_cpu_features().flatten())
        self.version = ".".join(map(str, llvm.llvm_version_info))
        triple = llvm.get_process_triple()
        self._objects = ObjectCompiler(llvm, triple, self.processor, self.features)
        # It may be held without the compiler's own: numba calls llvmlite as well.
        lock = getattr(import_module("llvmlite.binding.ffi").lib, "_lock", None)
        if (inner := getattr(lock, "_lock", None)) is not None:
            keep_over_forks(inner, innermost=True)

    def _end(self) -> None:
        """Wait for a thread in LLVM at process exit; only exit handlers compile after that."""
        self._lock.acquire(timeout=seconds_left(_LONGEST_WAIT))
        self._is_ending = True

    def _uninterrupted(self, function: Callable[[], R]) -> R:
        """Call a function under the lock, off the main thread; at exit, on it.

        Daemon threads, which are all that is left by then, end where they want it: handlers of the
        exit may wait for what they hold.
        """

        def locked() -> R:
            while not self._lock.acquire(timeout=_BETWEEN_LOOKS):
                if self._is_ending and threading.current_thread() is not threading.main_thread():
                    raise SystemExit
            try:
                self._libraries.release()
                return function()
            finally:
                self._lock.release()

        return locked() if self._is_ending else uninterrupted(locked)

    def _linker_of(self, number: int) -> Any:
        """The linker for a program; one is shared by up to `_MOST_OF_LINKER` programs."""
        if number % _MOST_OF_LINKER == 0:
            self._linker = self.llvm.create_lljit_compiler(self._objects.machine(2))
        return self._linker

    def compiled(self, source: KernelSource) -> Compiled:
        """Compile a program to an object file, for `load` in any process."""
        return Compiled(source, MachineCode(self.object_code(source.text, hasty=source.hasty)))

    def object_code(self, text: str, *, hasty: bool = False) -> bytes:
        """Compile a module to an object file; CompileError with numbered lines on failure.

        Where it is `hasty`, values go by the stack from one basic block to the next: that takes a
        quarter of the time to compile, and up to seven times as long to run.
        """
        return self._uninterrupted(partial(self._objects.object_code, text, hasty=hasty))

    def addresses(self, code: bytes, names: Sequence[str]) -> tuple[list[int], Owner[Any]]:
        """Link an object file: the addresses of its functions, and the handle of the library."""
        return self._uninterrupted(partial(self._addresses, code, names))

    def _addresses(self, code: bytes, names: Sequence[str]) -> tuple[list[int], Owner[Any]]:
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
        return [int(library[name]) for name in names], self._libraries.owner(library)
