"""Compilation of CUDA C++ to machine code by CuPy's NVRTC; needs no GPU."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any

from mdtensor.backends.host.binary_cache import Binaries, Compiled, MachineCode, folder_of_kept
from mdtensor.errors import CompileError, NoDeviceError
from mdtensor.forks import cached_property
from mdtensor.kernels.kernel_source import KernelSource, numbered

INSTALL_HINT = "pip install 'mdtensor[cuda12]' or 'mdtensor[cuda13]', as the driver allows"
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_WARNINGS = "177"  # that variables are not used


class Nvrtc:
    """A compiler for an architecture such as "sm_90a"."""

    def __init__(self, architecture: str, options: Sequence[str] = ()) -> None:
        self.architecture = architecture
        self.options = (
            f"--gpu-architecture={architecture}",
            "--std=c++17",
            f"--diag-suppress={_WARNINGS}",
            "--ptxas-options=-v",
            *options,
        )

    @property
    def binaries(self) -> Binaries:
        """The disk cache of machine code."""
        return Binaries(folder_of_kept("binaries"))

    @cached_property
    def _nvrtc(self) -> Any:
        try:
            return importlib.import_module("cupy_backends.cuda.libs.nvrtc")
        except ImportError as error:
            raise NoDeviceError(f"NVRTC cannot be loaded: {error}", hint=INSTALL_HINT) from error

    @cached_property
    def version(self) -> str:
        """NVRTC's version, such as "13.0"."""
        return ".".join(map(str, self._nvrtc.getVersion()))

    def compiled(self, source: KernelSource) -> Compiled:
        """Compile a program, without the cache; CompileError has the log and numbered source."""
        return Compiled(source, self._machine_code(source.text))

    def key(self, text: str) -> str:
        """The cache key of a text's machine code: version, options and text."""
        return "\n".join((self.version, *self.options, text))

    def kept(self, text: str) -> MachineCode:
        """The machine code of a text, compiled or from the disk cache."""
        key = self.key(text)
        machine = self.binaries.get(key)
        if machine is None:
            machine = self._machine_code(text)
            self.binaries.put(key, machine)
        return machine

    def _machine_code(self, text: str) -> MachineCode:
        nvrtc = self._nvrtc
        program = nvrtc.createProgram(text, "kernel.cu", (), ())
        try:
            nvrtc.compileProgram(program, self.options)
            log = nvrtc.getProgramLog(program)
            return machine_code(nvrtc.getCUBIN(program), log)
        except nvrtc.NVRTCError as error:
            words = nvrtc.getProgramLog(program).splitlines() or [str(error)]
            raise CompileError(
                f"NVRTC {self.version} refused a kernel for {self.architecture}: {words[0]}",
                notes=[*words[1:30], *numbered(text).splitlines()],
            ) from None
        finally:
            nvrtc.destroyProgram(program)


def machine_code(code: bytes, log: str) -> MachineCode:
    """Machine code, with registers and spills parsed from the log of ptxas."""
    registers = max(map(int, _REGISTERS.findall(log)), default=0)
    spilled = sum(int(stored) + int(loaded) for stored, loaded in _SPILLED.findall(log))
    return MachineCode(code, registers, spilled)
