"""Eviction from the disk cache: least recently used files go once all exceed a limit.

A scan takes a fraction of a millisecond for a hundred files, and happens where something was
compiled and kept, which takes longer: at a process's first time, and again when much was added.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mdtensor.dataclass import dataclass
from mdtensor.errors import StoreError, tell
from mdtensor.paths import cache_directory, check_private

VARIABLE = "MDTENSOR_CACHE_LIMIT"
DEFAULT = 1 << 30  # bytes
# What is left after files had to go, of the limit.
_LEFT = 3 / 4
# What may be added before the next look, of the limit.
_BETWEEN = 1 / 16
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DAY = 86_400.0
# Seconds after which a draft is one of a process that ended, and a mark of a compilation tells
# nothing more; and marks that are kept at most.
_AGE_OF_DRAFTS, _AGE_OF_MARKS, _MOST_MARKS = _DAY, 30 * _DAY, 256
# Folders of the cache below `programs`.
KINDS = ("begun", "binaries", "failed", "tuned")

_added: int | None = None  # bytes since the last look of this process, if it had one


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    nbytes: int
    used: float  # seconds since 1970

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_mark(self) -> bool:
        """Whether the file is the crash journal's mark of a compilation that was begun."""
        return os.path.basename(os.path.dirname(self.path)) == "begun"

    @property
    def may_go(self) -> bool:
        """Whether the file may be evicted: a compiled program, or a store that was set aside."""
        if self.name.startswith(".") or self.is_mark:
            return False
        return "programs" in Path(self.path).parts or ".corrupt-" in self.name


def limit() -> int:
    """The cache's limit in bytes, which files exceed only for a moment.

    It is `MDTENSOR_CACHE_LIMIT`, a number with K, M, G or T behind it, or 1 GiB.
    """
    said = os.environ.get(VARIABLE, "").strip()
    if not said:
        return DEFAULT
    number = said.upper().removesuffix("B").removesuffix("I")
    unit = number[-1:] if number[-1:].isalpha() else ""
    try:
        nbytes = int(float(number.removesuffix(unit)) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        nbytes = -1
    if nbytes >= 0:
        return nbytes
    hint = "a number of bytes, such as 500M or 2G"
    tell(StoreError(f"{VARIABLE} cannot be {said!r}; it is 1G", hint=hint))
    return DEFAULT


def mark_used(path: Path) -> None:
    """Updates a file's modification time, at most once a day, for LRU eviction."""
    with suppress(OSError):
        if time.time() - os.stat(path).st_mtime > _DAY:
            os.utime(path)


def make_room(nbytes: int) -> None:
    """Account for `nbytes` added bytes, and prune on the first call or after 1/16 of the limit."""
    global _added
    added = None if _added is None else _added + nbytes
    _added = added or 0
    if added is None or added > limit() * _BETWEEN:
        _added = 0
        prune()


def prune() -> int:
    """Removes stale and least recently used files down to 3/4 of the limit; the number removed.

    The store's own file counts, and is left alone; marks have an end of their own.
    """
    # Of the many files that stay, none is held.
    total, drafts, marks = 0, list[_File](), list[_File]()
    for file in _own_files():
        total += file.nbytes
        if file.name.startswith("."):
            drafts.append(file)
        elif file.is_mark:
            marks.append(file)
    removed = sum(map(_is_removed, _left_behind(drafts, marks)))
    if total <= limit():
        return removed
    goal = limit() * _LEFT
    kept = [file for file in _own_files() if file.may_go]
    for file in sorted(kept, key=lambda file: file.used):
        if total <= goal:
            break
        removed += _is_removed(file)
        total -= file.nbytes
    return removed


def _left_behind(drafts: list[_File], marks: list[_File]) -> Iterator[_File]:
    """Drafts and compilation marks left by processes that were cut off."""
    now = time.time()
    marks.sort(key=lambda file: file.used, reverse=True)
    for number, mark in enumerate(marks):
        if now - mark.used > (_DAY if number >= _MOST_MARKS else _AGE_OF_MARKS):
            yield mark
    for draft in drafts:
        if now - draft.used > _AGE_OF_DRAFTS:
            yield draft


def _own_files() -> Iterator[_File]:
    """All regular files of the cache; its folder may hold other programs' files, too."""
    root = cache_directory()
    with suppress(OSError, StoreError):
        check_private(root)
        for place in root.glob("tuning.*"):
            yield from _files(place)
    for kind in KINDS:
        with suppress(OSError, StoreError):
            check_private(root / "programs" / kind)
            yield from _files(root / "programs" / kind)


def _files(place: Path) -> Iterator[_File]:
    """A regular file, or all below a folder; symbolic links are not followed."""
    with suppress(OSError):
        status = place.lstat()
        if stat.S_ISREG(status.st_mode):
            yield _File(str(place), status.st_size, status.st_mtime)
        elif stat.S_ISDIR(status.st_mode):
            for each in place.iterdir():
                yield from _files(each)


def _is_removed(file: _File) -> bool:
    with suppress(OSError):
        Path(file.path).unlink()
        return True
    return False
