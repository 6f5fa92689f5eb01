"""Machine code of programs, and the folder where it is kept from one process to the next."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mdtensor.kernels.source import KernelSource
from mdtensor.paths import cache_directory

_MOST_FILES = 4096


@dataclass(frozen=True, slots=True)
class MachineCode:
    """What a compiler made of a text: code, and the use of resources as far as it is known.

    `registers` are those of the kernel that needs most; `spilled` are bytes that kernels write to
    memory and read again for want of registers.
    """

    code: bytes
    registers: int = 0
    spilled: int = 0


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program of fixed sizes and its machine code, as they go from one process to another."""

    source: KernelSource
    machine: MachineCode


def folder_of_kept(kind: str) -> Path:
    """Where what was compiled is kept from one process to the next, by the kind of its files."""
    return cache_directory() / "programs" / kind


def remove_kept() -> None:
    """Removes all that is kept; processes that run some of it go on."""
    import shutil  # which calls do without

    shutil.rmtree(folder_of_kept(""), ignore_errors=True)


class Files:
    """Bytes in a folder, by keys; what cannot be read or written is not there.

    Files are published whole and carry the digest of their content. They hold what is run, so
    those of other users are not there either, but for the administrator's. Of the oldest files
    some are removed where there are too many.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = Files(Path(folder))
    ...     files.put("key", b"content")
    ...     files.get("key"), files.get("another key")
    (b'content', None)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        return self.folder / hashlib.sha256(key.encode()).hexdigest()[:32]

    def get(self, key: str) -> bytes | None:
        """What was put under a key, or None."""
        try:
            with self._path(key).open("rb") as file:
                owner = os.fstat(file.fileno()).st_uid
                digest, _, content = file.read().partition(b"\n")
        except OSError:
            return None
        # Where there are no users, all files are user 0's.
        if owner and owner != os.geteuid():
            return None
        return content if digest == _digest(content) else None

    def put(self, key: str, content: bytes) -> None:
        """Keeps bytes under a key."""
        import tempfile  # which loads much that those who only read do without

        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=self.folder, prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_digest(content) + b"\n" + content)
                Path(draft).replace(self._path(key))
            finally:
                with suppress(OSError):
                    Path(draft).unlink(missing_ok=True)
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        files = list(self.folder.iterdir())
        if len(files) > _MOST_FILES:
            for file in sorted(files, key=lambda path: path.stat().st_mtime)[: _MOST_FILES // 4]:
                file.unlink(missing_ok=True)


class Binaries:
    """Machine code in a folder, by keys.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     binaries = Binaries(Path(folder))
    ...     binaries.put("text, options", MachineCode(b"code", 32))
    ...     binaries.get("text, options"), binaries.get("another text")
    (MachineCode(code=b'code', registers=32, spilled=0), None)
    """

    def __init__(self, folder: Path) -> None:
        self._files = Files(folder)

    def get(self, key: str) -> MachineCode | None:
        """The machine code of a key, or None."""
        head, _, code = (self._files.get(key) or b"").partition(b"\n")
        try:
            fields = json.loads(head)
            return MachineCode(code, fields["registers"], fields["spilled"])
        except (ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, machine: MachineCode) -> None:
        """Keeps machine code under a key."""
        fields = {"registers": machine.registers, "spilled": machine.spilled}
        self._files.put(key, json.dumps(fields).encode() + b"\n" + machine.code)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
