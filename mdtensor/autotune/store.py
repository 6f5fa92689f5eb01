"""The store of tuning results: every trial and every winner, kept on disk for ever.

Losing the store costs time, never correctness: so whatever is wrong with its place is warned of
once, and the process goes on with a store in memory.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mdtensor.autotune.files_shelf import FilesShelf, is_on_network
from mdtensor.autotune.rows import (
    Entry,
    Row,
    Schedule,
    Shelf,
    TrialRow,
    WinnerRow,
    canonical_schedule,
    line_from_row,
    row_from_line,
    storable,
)
from mdtensor.autotune.sqlite_shelf import SqliteShelf, is_corrupt, is_sound, winners_read_only
from mdtensor.autotune.trial import Trial
from mdtensor.closing import Closing
from mdtensor.errors import StoreError, StoreWarning, warn
from mdtensor.paths import cache_directory

T = TypeVar("T")

FILE_NAME = "tuning.sqlite3"
MAX_DETAIL = 10_000  # characters: a compiler's message may be a megabyte
EXPORT_HEADER = '{"kind": "mdtensor store", "version": 1}'

_warned: set[tuple[Path | None, str]] = set()


class Store(Closing):
    """Trials and winners by problem and environment; safe from many threads and processes.

    `path` is the database file, the directory of files on a network file system, or `None` in
    memory; `trouble` is the `StoreError` for which it is there. A row, once recorded, survives
    the death of the process. A winner of another environment is a hint, never a hit.

    >>> store = Store.in_memory()
    >>> store.record_trial("dot[n:64]", "cpu-1", {"tile": 8}, Trial("ok", 2e-6))
    >>> store.set_winner("dot[n:64]", "cpu-1", {"tile": 8}, seconds=2e-6, trials=1).schedule
    '{"tile":8}'
    >>> store.winner("dot[n:64]", "gpu-1") is None, len(store.hints("dot[n:64]", "gpu-1"))
    (True, 1)
    """

    def __init__(self, shelf: Shelf, path: Path | None, trouble: StoreError | None = None) -> None:
        self._shelf = shelf
        self.path = path
        self.trouble = trouble

    @classmethod
    def open(cls, path: str | Path | None = None) -> Store:
        """Open the store in a file or directory, by default the user's, and create it if needed."""
        place: Path | None = None
        try:
            place = Path(path).absolute() if path is not None else cache_directory()
            if path is None or place.is_dir():
                place /= FILE_NAME
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_on_network(place.parent.resolve()):
                folder = place.with_suffix(".d")
                return cls(FilesShelf(folder), folder)
            return cls(_opened(place), place)
        except (sqlite3.Error, OSError, RuntimeError, StoreError) as error:
            return cls(SqliteShelf(None), None)._moved_to_memory(place, error)

    @classmethod
    def in_memory(cls) -> Store:
        """A store that ends with the process."""
        return cls(SqliteShelf(None), None)

    def record_trial(
        self, problem: str, environment: str, schedule: Schedule, trial: Trial
    ) -> None:
        """Write one trial, at once."""
        text = canonical_schedule(schedule)
        seconds, spread = _finite(trial.seconds), _finite(trial.spread)
        detail = storable(trial.detail[:MAX_DETAIL])
        self._add([TrialRow(problem, environment, text, trial.status, seconds, spread, detail)])

    def set_winner(
        self,
        problem: str,
        environment: str,
        schedule: Schedule,
        *,
        seconds: float,
        trials: int = 0,
        search_seconds: float = 0.0,
        confirmed: bool = False,
    ) -> WinnerRow:
        """Offer a winner and return the one now in place: see `WinnerRow.replaces`."""
        if not 0 <= seconds < math.inf:
            raise StoreError(f"a winner needs its time, not {seconds!r} seconds")
        text = canonical_schedule(schedule)
        row = WinnerRow(problem, environment, text, seconds, trials, search_seconds, confirmed)
        self._add([row])
        return self.winner(problem, environment) or row

    def winner(self, problem: str, environment: str) -> WinnerRow | None:
        """The winner of a problem in an environment."""
        return self._attempt(lambda shelf: shelf.winner(problem, environment))

    def state(self) -> object:
        """What differs once any process has written; None where that cannot be told."""
        return self._shelf.state()

    def problems(self, environment: str) -> frozenset[str]:
        """The problems that have a winner in an environment."""
        return frozenset(self._attempt(lambda shelf: shelf.problems(environment)))

    def hints(self, problem: str, environment: str | None = None) -> list[WinnerRow]:
        """Winners of a problem in other environments than the given one, newest first."""
        rows = self._attempt(lambda shelf: shelf.winners(problem))
        return [row for row in reversed(rows) if row.environment != environment]

    def trials(self, problem: str, environment: str) -> list[TrialRow]:
        """All trials of a problem in an environment, in the order of recording."""
        return self._attempt(lambda shelf: shelf.trials(problem, environment))

    def ls(self) -> list[Entry]:
        """What is stored, per problem and environment; the last updated comes last."""
        return self._attempt(lambda shelf: shelf.entries())

    def prune(
        self,
        *,
        older_than_s: float | None = None,
        environment: str | None = None,
        problem: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove the rows that match everything given; return how many these were."""
        if not everything and older_than_s is environment is problem is None:
            raise StoreError("prune what?", hint="an age, an environment, a problem or everything")
        before = None if older_than_s is None else time.time() - older_than_s
        return self._attempt(lambda shelf: shelf.prune(before, problem, environment))

    def export(self, file: str | Path) -> int:
        """Write all rows as lines of JSON, whole or not at all; return how many these were."""
        place = Path(file)
        rows: list[Row] = [
            *self._attempt(lambda shelf: shelf.trials()),
            *self._attempt(lambda shelf: shelf.winners()),
        ]
        lines = [EXPORT_HEADER, *map(line_from_row, rows)]
        draft = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
            draft.replace(place)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise StoreError(f"cannot write {place}: {error.strerror or error}") from error
        return len(rows)

    def import_(self, file: str | Path) -> int:
        """Add the rows of an exported file, all or none; return how many it has.

        Trials that are here already are left, winners replaced by the usual rule. Raises
        `StoreError` with the number of the first bad line.
        """
        try:
            lines = Path(file).read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"cannot read {file}: {reason}") from error
        rows = list(_validated(lines))
        self._add(rows)
        return len(rows)

    def close(self) -> None:
        """Let go of the file; further calls may open it again."""
        self._shelf.close()

    def __repr__(self) -> str:
        return f"Store({str(self.path) if self.path else 'in memory'})"

    def _add(self, rows: list[Row]) -> None:
        self._attempt(lambda shelf: shelf.add(rows))

    def _attempt(self, action: Callable[[Shelf], T]) -> T:
        try:
            return action(self._shelf)
        except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
            raise
        except (sqlite3.Error, OSError) as error:
            if self.path is None:
                raise StoreError(f"the store in memory failed: {error}") from error
            self._recover(self.path, error)
        return self._attempt(action)

    def _recover(self, path: Path, error: Exception) -> None:
        self._shelf.close()
        if is_corrupt(error):
            with suppress(sqlite3.Error, OSError, StoreError):
                _set_aside(path)
                self._shelf = SqliteShelf(path)
                return
        self._moved_to_memory(path, error)

    def _moved_to_memory(self, path: Path | None, error: Exception) -> Store:
        self._shelf = SqliteShelf(None)
        # What can still be read serves on: a shared cache may well be read-only.
        if path is not None and not isinstance(error, StoreError):
            self._shelf.add(winners_read_only(path))
        self.path = None
        self.trouble = _trouble(path, error)
        _warn(path, self.trouble)
        return self


def _opened(path: Path) -> SqliteShelf:
    try:
        return SqliteShelf(path)
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
    _set_aside(path)
    return SqliteShelf(path)


def _set_aside(path: Path) -> None:
    """Move a damaged file out of the way, unless another process did that already."""
    with _alone_in(path.parent):
        if not path.exists() or is_sound(path):
            return
        aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
        # The log first: beside a new file it would be played into that.
        for suffix in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    _warn(path, StoreError("the store was damaged; it begins anew", hint=f"moved to {aside}"))


@contextmanager
def _alone_in(folder: Path) -> Generator[None, None, None]:
    """Hold the directory's lock, which the system drops when a process dies."""
    import fcntl  # POSIX only, as is the need: elsewhere an open file cannot be renamed.

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _trouble(path: Path | None, error: Exception) -> StoreError:
    if isinstance(error, StoreError):
        reason, hint = error.message, error.hint
    else:
        reason, hint = str(error), "set MDTENSOR_CACHE_DIR to a writable local directory"
    where = f" {path}" if path else ""
    return StoreError(
        f"the store{where} cannot be used: {reason}; tuning results are kept in memory only",
        hint=hint,
    )


def _warn(path: Path | None, error: StoreError) -> None:
    key = (path, error.message)
    if key not in _warned:
        _warned.add(key)
        warn(StoreWarning(error))


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _validated(lines: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if number == 1:
            if line.strip() != EXPORT_HEADER:
                raise StoreError(f"line 1: not an exported store of this version: {line!r:.80}")
        elif line.strip():
            try:
                yield row_from_line(line)
            except StoreError as error:
                raise StoreError(f"line {number}: {error.message}", hint=error.hint) from None
