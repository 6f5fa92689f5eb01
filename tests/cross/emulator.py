"""The driver's process on an emulated processor: it loads programs and runs their kernels."""

from __future__ import annotations

import ctypes
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdtensor.backends.llvm.object_compiler import ObjectCompiler
from mdtensor.backends.llvm.thread_pool import thread_pool_ir
from mdtensor.errors import MdtensorError
from mdtensor.forks import cached_property
from tests.cross.emulated import Emulated

_DRIVER = Path(__file__).with_name("driver.c")
_LOAD, _RUN = 1, 2  # requests to the driver
_PAGE = 4096  # the driver's
_THREADS = 3


class EmulatorError(MdtensorError):
    """The emulated process ended, or refused a program."""


@dataclass(frozen=True)
class Span:
    """Bytes of memory from an address on, and the address of an array's first element in them."""

    begin: int
    nbytes: int
    first: int

    @classmethod
    def of(cls, array: np.ndarray) -> Span:
        """What an array's elements lie in."""
        low, high = np.lib.array_utils.byte_bounds(array)
        return cls(low, high - low, array.__array_interface__["data"][0])

    def pages(self) -> Span:
        """The whole pages of it."""
        begin = self.begin // _PAGE * _PAGE
        end = -(-(self.begin + self.nbytes) // _PAGE) * _PAGE
        return Span(begin, end - begin, self.first)

    def bytes(self) -> bytes:
        """A copy of the bytes."""
        return ctypes.string_at(self.begin, self.nbytes)

    def write(self, content: bytes) -> None:
        """Overwrites all bytes."""
        ctypes.memmove(self.begin, content, self.nbytes)


class Emulator:
    """One process on an emulated processor; it begins with the first program that is loaded."""

    def __init__(self, emulated: Emulated, compiler: ObjectCompiler) -> None:
        emulated.require()
        self.emulated = emulated
        self.compiler = compiler
        self._folder = tempfile.TemporaryDirectory(prefix="mdtensor-cross-")
        self._codes: list[bytes] = []
        self._places: dict[int, int] = {}  # of programs in the process
        self._lock = threading.Lock()

    @property
    def _path(self) -> Path:
        return Path(self._folder.name)

    @cached_property
    def _process(self) -> subprocess.Popen[bytes]:
        pool = self._path / "pool.o"
        machine = self.emulated.processor.machine
        pool.write_bytes(self.compiler.object_code(thread_pool_ir(_THREADS, machine)))
        # Kernels find functions of C's mathematical library in the driver, as in Python's process.
        driver = self._path / "driver"
        options = ["-O1", "-Wall", "-Werror", "-rdynamic", "-Wl,--no-as-needed"]
        self._build([*options, str(_DRIVER), str(pool), "-lm", "-ldl", "-lpthread"], driver)
        return subprocess.Popen(
            [*self.emulated.command, str(driver), *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def _arguments(self) -> list[str]:
        return ["reads beyond"] if self.emulated.reads_beyond else []

    def _build(self, arguments: Sequence[str], made: Path) -> None:
        command = [self.emulated.compiler, *arguments, "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EmulatorError(f"{' '.join(command)} failed:\n{done.stderr}")

    def loaded(self, code: bytes) -> int:
        """Loads an object file; the number by which `run` knows the program.

        EmulatorError where it needs what no library has.
        """
        with self._lock:
            self._codes.append(code)
            self._place(len(self._codes) - 1)
            return len(self._codes) - 1

    def _place(self, program: int) -> int:
        """The address of a program in the process, loaded there if it is not."""
        if program in self._places:
            return self._places[program]
        compiled = self._path / f"program{program}.o"
        compiled.write_bytes(self._codes[program])
        shared = compiled.with_suffix(".so")
        self._build(["-shared", "-nostdlib", str(compiled)], shared)
        path = str(shared).encode()
        self._send(struct.pack("<qq", _LOAD, len(path)), path)
        (place,) = self._words(1)
        if not place:
            raise EmulatorError(self._received(self._words(1)[0]).decode())
        compiled.unlink()
        shared.unlink()
        self._places[program] = place
        return place

    def run(
        self,
        program: int,
        kernels: Sequence[tuple[str, int]],
        memory: Sequence[Span],
        sizes: Sequence[int],
        *,
        inline: bool,
    ) -> list[bytes]:
        """Runs kernels, pairs of a name and a number of groups, on copies of memory.

        Returns the bytes of each span as the kernels left them.
        """
        with self._lock:
            return self._run(self._place(program), kernels, memory, sizes, inline=inline)

    def _run(
        self,
        place: int,
        kernels: Sequence[tuple[str, int]],
        memory: Sequence[Span],
        sizes: Sequence[int],
        *,
        inline: bool,
    ) -> list[bytes]:
        head = [_RUN, len(memory), len(kernels), int(inline), len(sizes), *sizes]
        parts = [struct.pack(f"<{len(head)}q", *head)]
        for name, groups in kernels:
            parts += [struct.pack("<qqq", place, groups, len(name)), name.encode()]
        parts += [
            struct.pack("<qqq", s.nbytes, s.begin % _PAGE, s.first - s.begin // _PAGE * _PAGE)
            for s in memory
        ]
        parts += [span.bytes() for span in memory]
        self._send(*parts)
        self._words(1)
        return [self._received(span.nbytes) for span in memory]

    def _send(self, *parts: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            for part in parts:
                pipe.write(part)
            pipe.flush()
        except BrokenPipeError:
            self._ended()

    def _words(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}q", self._received(8 * count))

    def _received(self, nbytes: int) -> bytes:
        pipe = self._process.stdout
        assert pipe is not None
        found = pipe.read(nbytes)
        if len(found) < nbytes:
            self._ended()
        return found

    def _ended(self) -> None:
        """Raises EmulatorError that tells how the process ended; the next one is a new one."""
        process = self._process
        del self._process
        self._places.clear()
        _, said = process.communicate()
        code = process.returncode
        how = signal.Signals(-code).name if code < 0 else f"code {code}"
        words = [line for line in said.decode().splitlines() if "TCG doesn't support" not in line]
        raise EmulatorError(f"the emulated process ended by {how}: {' '.join(words[-3:])}")

    def close(self) -> None:
        """Ends the process."""
        if "_process" in vars(self):
            self._process.communicate()
            del self._process
        self._folder.cleanup()
