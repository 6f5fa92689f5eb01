"""The disk cache of machine code, shared by processes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from mdtensor.cache_eviction import KINDS, limit, make_room, mark_used
from mdtensor.dataclass import dataclass
from mdtensor.errors import NotPrivateError, tell
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.paths import cache_directory, check_private, private_folder, read_private

_FORMAT = "mdtensor-1"
_MOST_BYTES = 1 << 28  # of a file


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Compiled code, and its resource usage as far as known.

    `registers` are those of the kernel that needs most; `spilled` are bytes that kernels write to
    memory and read again for want of registers.
    """

    code: bytes
    registers: int = 0
    spilled: int = 0


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program with its machine code, to be passed between processes."""

    source: KernelSource
    machine: MachineCode


def folder_of_kept(kind: str = "") -> Path:
    """The folder of the disk cache for one kind of files."""
    return cache_directory() / "programs" / kind


def remove_kept() -> None:
    """Delete the disk cache of programs; processes that run some of them are unaffected."""
    import shutil  # which calls do without

    for kind in KINDS:
        shutil.rmtree(folder_of_kept(kind), ignore_errors=True)


class BlobStore:
    """A key-value store of bytes in a folder; failures are treated as misses.

    Files are published whole. Each says of what key it is, and has the length and the digest of
    its content: so what was damaged, cut or moved is not there either. That tells accidents, and
    nobody who means to deceive; for these there are owners and modes (see `mdtensor.paths`).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = BlobStore(Path(folder))
    ...     files.put("key", b"content")
    ...     files.get("key"), files.get("another key")
    (b'content', None)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        return self.folder / _digest(key.encode())[:32]

    def get(self, key: str) -> bytes | None:
        """The content of a key, or None."""
        path = self._path(key)
        try:
            check_private(self.folder)
            head, _, content = read_private(path, _MOST_BYTES).partition(b"\n")
        except NotPrivateError as error:
            tell(error)
            return None
        except OSError:
            return None
        if head != _head(key, content):
            return None
        mark_used(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Store bytes under a key, atomically."""
        import tempfile  # which loads much that those who only read do without

        if len(content) > limit():
            return
        try:
            private_folder(self.folder)
            handle, draft = tempfile.mkstemp(dir=self.folder, prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_head(key, content) + b"\n" + content)
                Path(draft).replace(self._path(key))
            finally:
                with suppress(OSError):
                    Path(draft).unlink(missing_ok=True)
        except NotPrivateError as error:
            tell(error)
        except OSError:
            return
        make_room(len(content))

    def remove(self, key: str) -> None:
        """Delete a key."""
        with suppress(OSError):
            self._path(key).unlink(missing_ok=True)


class Binaries:
    """A disk cache of machine code.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     binaries = Binaries(Path(folder))
    ...     binaries.put("text, options", MachineCode(b"code", 32))
    ...     binaries.get("text, options"), binaries.get("another text")
    (MachineCode(code=b'code', registers=32, spilled=0), None)
    """

    def __init__(self, folder: Path) -> None:
        self._files = BlobStore(folder)

    def get(self, key: str) -> MachineCode | None:
        """The machine code under a key, or None."""
        found = split(self._files.get(key))
        return None if found is None else machine_code(*found)

    def put(self, key: str, machine: MachineCode) -> None:
        """Store machine code under a key."""
        self._files.put(key, joined(resources_of(machine), machine.code))


def joined(facts: Mapping[str, object], code: bytes) -> bytes:
    """Concatenate facts, as a line of JSON, and code."""
    return json.dumps(facts).encode() + b"\n" + code


def split(content: bytes | None) -> tuple[dict[str, Any], bytes] | None:
    """Separate facts and code that were `joined`; None if the content is invalid."""
    head, _, code = (content or b"").partition(b"\n")
    try:
        facts: object = json.loads(head)
    except (ValueError, RecursionError):
        return None
    return (cast("dict[str, Any]", facts), code) if isinstance(facts, dict) else None


def resources_of(machine: MachineCode) -> dict[str, object]:
    """The resource usage as JSON, the inverse of `machine_code`."""
    return {"registers": machine.registers, "spilled": machine.spilled}


def machine_code(facts: Mapping[str, object], code: bytes) -> MachineCode | None:
    """Machine code with its resource usage; None if the facts lack it."""
    registers, spilled = facts.get("registers"), facts.get("spilled")
    if type(registers) is not int or type(spilled) is not int or not code:
        return None
    return MachineCode(code, registers, spilled)


def _head(key: str, content: bytes) -> bytes:
    """The header line of a file: format, key digest, length and content digest."""
    return f"{_FORMAT} {_digest(key.encode())} {len(content)} {_digest(content)}".encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
