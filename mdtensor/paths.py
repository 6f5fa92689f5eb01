"""Locations of mdtensor's files, and checks that only the user can have written them.

Some of them are run, and others decide what runs. So what another user may have put there is not
read: what belongs to one, but for the administrator, what others may write, and symbolic links
below the cache's folder, which may be one itself.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from mdtensor.errors import MdtensorError, NotPrivateError

CACHE = "MDTENSOR_CACHE_DIR"  # names the cache's folder
TEAM = "MDTENSOR_TEAM_STORE"  # names the store of others


def cache_directory() -> Path:
    """The cache's folder: `MDTENSOR_CACHE_DIR`, else one in the user's cache; it may not exist.

    Users of containers may have no home: theirs is a place where nothing can be, as is that of
    users who do not exist. A relative path stays where it was when first asked for.
    """
    if chosen := os.environ.get(CACHE):
        return _absolute(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(base) if Path(base).is_absolute() else _home() / ".cache") / "mdtensor"


@cache
def _absolute(chosen: str) -> Path:
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError:
        return Path(os.devnull, chosen)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def write_whole(file: Path, text: str, error: type[MdtensorError]) -> None:
    """Write a file atomically: as a draft beside it, with its permissions, that is then renamed.

    Symbolic links are followed; a pipe or a device, which nothing can replace, is written to.
    Raises `error` where writing is impossible: what was there before is there still.
    """
    draft = None
    try:
        if not file.name:
            raise ValueError("it is no file")
        if "\0" in str(file):
            raise ValueError("its name has a null character")
        mode = None
        with suppress(FileNotFoundError):
            mode = file.stat().st_mode
        if mode is not None and not stat.S_ISREG(mode):
            file.write_text(text, encoding="utf-8", newline="\n")
            return
        place = Path(os.path.realpath(file))
        draft = place.with_name(f".{uuid.uuid4().hex}")
        draft.write_text(text, encoding="utf-8", newline="\n")
        if mode is not None:
            draft.chmod(stat.S_IMODE(mode))
        draft.replace(place)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        raise error(f"cannot write {file}: {reason}") from cause
    finally:
        if draft is not None:  # interrupted, too
            with suppress(OSError, ValueError):
                draft.unlink(missing_ok=True)


def private_folder(path: Path) -> Path:
    """Create a folder, accessible to this user alone, where it is missing, and check it.

    Raises NotPrivateError where it, or one between it and the cache's, may be others' work, and
    OSError where it cannot be made.
    """
    missing = [each for each in (path, *path.parents) if not os.path.lexists(each)]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    check_private(path)
    return path


def check_private(folder: Path) -> None:
    """Raises NotPrivateError as `private_folder` does; OSError where the folder is missing."""
    root = cache_directory()
    between = [each for each in reversed(folder.parents) if each.is_relative_to(root)]
    for each in (*between, folder):
        is_below = each != root and bool(between)
        status = os.lstat(each) if is_below else os.stat(each)
        if stat.S_ISLNK(status.st_mode):
            raise _not_private(each, "it is a symbolic link")
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(f"{each} is no folder")
        if (reason := not_private(status)) is not None:
            raise _not_private(each, reason)


def not_private(status: os.stat_result) -> str | None:
    """The reason why another user may have written a file or folder; None if none can."""
    if not hasattr(os, "geteuid"):  # where all files are user 0's
        return None
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users can write to it"
    return None


def _not_private(folder: Path, reason: str) -> NotPrivateError:
    own = "set MDTENSOR_CACHE_DIR to a folder of your own"
    trusted = f"chmod go-w {folder}, if nobody else has written to it; or "
    return NotPrivateError(
        f"{folder} is not used: {reason}; what is tuned and compiled is not kept",
        hint=(trusted if "write" in reason else "") + own,
    )


def read_private(path: Path, most_bytes: int) -> bytes:
    """The content of a private file; OSError if it is not private or too long."""
    return _content(path, most_bytes, not_private)


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file of any owner; OSError if it is too long."""
    return _content(Path(os.path.realpath(path)), most_bytes, lambda _: None)


def _content(path: Path, most_bytes: int, refused: Callable[[os.stat_result], str | None]) -> bytes:
    # What is no file may keep whoever opens it waiting.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            raise OSError(f"{path} is no file of at most {most_bytes} bytes")
        if (reason := refused(status)) is not None:
            raise OSError(f"{path} is not used: {reason}")
        return file.read(min(status.st_size + 1, most_bytes))  # which is allocated first
