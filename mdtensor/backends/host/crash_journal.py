"""A journal of programs that crashed a compiler, so that they are not tried again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from mdtensor.backends.host.binary_cache import BlobStore
from mdtensor.errors import CompilerFailedError, NotPrivateError
from mdtensor.paths import private_folder

try:
    import fcntl
except ImportError:  # on Windows, where no attempt is marked
    fcntl = None

_MOST_DETAIL = 10_000  # characters


class CrashJournal:
    """Compilations under way and compiler failures by key, in a folder.

    An attempt has a file, which its process holds a lock on. One that nobody holds is of a process
    that ended meanwhile, killed perhaps: whether the compiler did it, another attempt has to tell.
    Marks of programs that nobody tries again have an end (see `mdtensor.cache_eviction`).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     attempts = CrashJournal(Path(folder))
    ...     with attempts.begun("a program"):
    ...         pass
    ...     attempts.keep("another", CompilerFailedError("crashed", "by SIGSEGV"))
    ...     print(attempts.failure("a program"), attempts.failure("another"), sep="; ")
    None; a compiler crashed on a generated kernel: by SIGSEGV
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "begun"
        self._failures = BlobStore(folder / "failed")
        self._known: dict[str, CompilerFailedError] = {}  # in this process

    def keep(self, key: str, failure: CompilerFailedError) -> None:
        """Record a failure, on disk too unless it was "cut off", which may have other causes."""
        self._known[key] = failure
        if failure.failure == "cut off":
            return
        self.forget(key)
        content = {"failure": failure.failure, "detail": failure.detail[:_MOST_DETAIL]}
        self._failures.put(key, json.dumps(content).encode())

    def failure(self, key: str) -> CompilerFailedError | None:
        """The recorded failure of a key; None without any."""
        if (known := self._known.get(key)) is not None:
            return known
        try:
            kept = json.loads(self._failures.get(key) or b"")
            failure, detail = kept["failure"], kept["detail"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        if failure not in ("crashed", "hung") or not isinstance(detail, str):
            return None
        return CompilerFailedError(failure, detail)

    @contextmanager
    def begun(self, key: str) -> Generator[None]:
        """Context manager that marks a compilation as under way, on disk where possible.

        Raises CompilerFailedError where an earlier one failed, or its process ended in it.
        """
        if (failure := self.failure(key)) is not None:
            raise failure
        path = self._path(key)
        handle = _marked(path)
        try:
            yield
        finally:
            if handle is not None:
                _unmark(handle, path)

    def forget(self, key: str) -> None:
        """Remove the mark of a compilation that was cut off."""
        with suppress(OSError):
            self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode()).hexdigest()[:32]


def _marked(path: Path) -> int | None:
    """A locked descriptor of a mark's file; None if another process has it, or locks fail."""
    if fcntl is None:
        return None
    try:
        private_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except (OSError, NotPrivateError):  # of which others tell
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_cut_off = os.read(handle, 1) != b""
        os.write(handle, b"begun")
    except OSError:
        os.close(handle)
        return None
    if is_cut_off:
        os.close(handle)
        raise CompilerFailedError("cut off", "a process ended in the middle of it")
    return handle


def _unmark(handle: int, path: Path) -> None:
    with suppress(OSError):
        os.ftruncate(handle, 0)  # first: another process may have opened the file by now
        path.unlink(missing_ok=True)
    os.close(handle)
