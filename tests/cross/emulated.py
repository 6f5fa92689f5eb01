"""Processors that QEMU emulates, and the tools that make programs for them.

Where QEMU has a processor by its name, or switches make one of it, instructions that the processor
lacks are a fault. For Neoverse V1 and V2 it is `max`, which has all that QEMU knows of aarch64.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mdtensor.backends.llvm.processors import PROCESSORS, X86_64, Processor
from mdtensor.errors import MdtensorError

_COMPILERS = {
    "aarch64": ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
    "x86_64": ("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu libc6-dev-amd64-cross"),
}


class MissingToolsError(MdtensorError):
    """An emulator or a compiler is not installed."""


@dataclass(frozen=True)
class Emulated:
    """A processor, and what QEMU calls one that has its instructions.

    `reads_beyond` says that QEMU reads beyond what instructions do, so that memory beside arrays
    must be readable: up to 7.2 at least, it reads 16 bytes for the operand of a scalar multiply-add
    of AVX2, and all bytes of a masked load.
    """

    processor: Processor
    cpu: str
    reads_beyond: bool = False

    @property
    def emulator(self) -> str:
        """QEMU's program for the processor's architecture."""
        return f"qemu-{self.processor.machine}"

    @property
    def compiler(self) -> str:
        """The compiler of C for the processor's architecture."""
        return _COMPILERS[self.processor.machine][0]

    @property
    def command(self) -> list[str]:
        """What runs a program on the processor, all but the program."""
        root = Path("/usr") / self.processor.triple
        libraries = ["-L", str(root)] if (root / "lib").is_dir() else []
        return [self.emulator, *libraries, "-cpu", self.cpu]

    def require(self) -> None:
        """Raises MissingToolsError where this machine lacks the emulator or the compiler."""
        packages = {
            self.emulator: "qemu-user",
            self.compiler: _COMPILERS[self.processor.machine][1],
        }
        lacking = [tool for tool in packages if shutil.which(tool) is None]
        if lacking:
            wanted = " ".join(packages[tool] for tool in lacking)
            raise MissingToolsError(
                f"kernels of {self.processor.name} need {' and '.join(lacking)} to be tested here",
                hint=f"on Debian and Ubuntu: apt-get install --no-install-recommends {wanted}",
            )


_CPUS = {
    "neoverse-v2": "max,sve-default-vector-length=16",
    "neoverse-v1": "max,sve-default-vector-length=32",
    "neoverse-n1": "neoverse-n1",
    "apple-m1": "max,sve=off",
    "haswell": "Haswell",
    "znver2": "EPYC-Rome",
    "nehalem": "Nehalem",
}
EMULATED: Mapping[str, Emulated] = {
    name: Emulated(PROCESSORS[name], cpu, PROCESSORS[name].machine == X86_64)
    for name, cpu in _CPUS.items()
}
