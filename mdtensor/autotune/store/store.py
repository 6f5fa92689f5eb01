"""The store of tuning results: all trials and winners, on disk.

Losing the store costs time, never correctness: so whatever is wrong with its place is warned of
once, and the process goes on with a store in memory.
"""

from __future__ import annotations

import math
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mdtensor.autotune.store.exported_rows import EXPORT_HEADER, RejectedLine, rows_in
from mdtensor.autotune.store.files_backend import FilesBackend, is_on_network
from mdtensor.autotune.store.rows import (
    ChoiceRow,
    ListedProblem,
    Row,
    Schedule,
    Shelf,
    TrialRow,
    WinnerRow,
    canonical_schedule,
    line_from_row,
    storable,
)
from mdtensor.autotune.store.sqlite_backend import (
    FAILURES,
    LostFileError,
    SqliteBackend,
    is_busy,
    is_corrupt,
    is_sound,
    winners_read_only,
)
from mdtensor.autotune.store.team_store import TeamStore
from mdtensor.autotune.trial import Trial
from mdtensor.cache_eviction import limit
from mdtensor.closing import Closing
from mdtensor.dataclass import dataclass
from mdtensor.errors import NotPrivateError, StoreError, tell
from mdtensor.paths import cache_directory, not_private, private_folder, write_whole

T = TypeVar("T")

FILE_NAME = "tuning.sqlite3"
MAX_DETAIL = 10_000  # characters: a compiler's message may be a megabyte

_LOOKS_AT_SIZE = 1 << 10  # trials after which the store's size is looked at


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: the number of rows added, and the rejected lines."""

    rows: int
    refused: tuple[RejectedLine, ...] = ()


class Store(Closing):
    """Trials and winners by problem and environment; safe from many threads and processes.

    `path` is the database file, the directory of files on a network file system, or `None` in
    memory; `trouble` is the `StoreError` for which it is there. A row, once recorded, survives
    the death of the process. A winner of another environment is a hint, never a hit. What the store
    has no winner of, that of a `team` store serves, which is read and never written.

    >>> store = Store.in_memory()
    >>> store.record_trial("dot[n:64]", "cpu-1", {"tile": 8}, Trial("ok", 2e-6))
    >>> store.set_winner("dot[n:64]", "cpu-1", {"tile": 8}, seconds=2e-6, trials=1).schedule
    '{"tile":8}'
    >>> store.winner("dot[n:64]", "gpu-1") is None, len(store.hints("dot[n:64]", "gpu-1"))
    (True, 1)
    """

    def __init__(
        self,
        shelf: Shelf,
        path: Path | None,
        trouble: StoreError | None = None,
        team: TeamStore | None = None,
    ) -> None:
        self._shelf = shelf
        self.path = path
        self.trouble = trouble
        self._team = TeamStore(None) if team is None else team
        self._added = 0

    @classmethod
    def open(cls, path: str | Path | None = None, team: TeamStore | None = None) -> Store:
        """Open the store in a file or directory, by default the user's, and create it if needed."""
        place: Path | None = None
        try:
            place = Path(path).absolute() if path is not None else cache_directory()
            if path is None or place.is_dir():
                place /= FILE_NAME
            private_folder(place.parent)
            if is_on_network(place.parent.resolve()):
                folder = place.with_suffix(".d")
                return cls(FilesBackend(folder), folder, team=team)
            return cls(_opened(place), place, team=team)
        except (*FAILURES, RuntimeError, StoreError) as error:
            return cls(SqliteBackend(None), None, team=team)._moved_to_memory(place, error)

    @classmethod
    def in_memory(cls) -> Store:
        """A store in memory."""
        return cls(SqliteBackend(None), None)

    def record_trial(
        self, problem: str, environment: str, schedule: Schedule, trial: Trial
    ) -> None:
        """Write one trial immediately."""
        text = canonical_schedule(schedule)
        seconds, spread = _finite(trial.seconds), _finite(trial.spread)
        detail = storable(trial.detail[:MAX_DETAIL])
        self._add([TrialRow(problem, environment, text, trial.status, seconds, spread, detail)])
        self._added += 1
        if self._added % _LOOKS_AT_SIZE == 0:
            self.make_room()

    def make_room(self) -> None:
        """Trim the oldest trials once the file exceeds half of the cache's limit."""
        if self._attempt(lambda shelf: shelf.nbytes()) > limit() / 2:
            self._attempt(lambda shelf: shelf.trim())

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
        """The winner of a problem in an environment: the store's own, else the team's."""
        own = self._attempt(lambda shelf: shelf.winner(problem, environment))
        return own or self._team.winner(problem, environment)

    def state(self) -> object:
        """A value that changes with every write by any process; None where that is unknown."""
        return self._shelf.state()

    def problems(self, environment: str) -> frozenset[str]:
        """The problems that have a winner in an environment."""
        own = self._attempt(lambda shelf: shelf.problems(environment))
        return frozenset((*own, *(row.problem for row in self._team.winners(environment))))

    def winners(self, environment: str) -> list[WinnerRow]:
        """All winners of an environment, the store's own, oldest first, before the team's."""
        own = self._attempt(lambda shelf: shelf.winners(environment=environment))
        known = {row.problem for row in own}
        return [*own, *(r for r in self._team.winners(environment) if r.problem not in known)]

    def has_winners(self) -> bool:
        """Whether a problem may have a winner, in whatever environment."""
        return bool(self._team.winners() or self._attempt(lambda shelf: shelf.winners()))

    def hints(self, problem: str, environment: str | None = None) -> list[WinnerRow]:
        """Winners of a problem in environments other than the given one, newest first.

        Those of the team come last, in any environment.
        """
        rows = self._attempt(lambda shelf: shelf.winners(problem))
        own = [row for row in reversed(rows) if row.environment != environment]
        return [*own, *self._team.winners(problem=problem)]

    def choice(self, key: str) -> ChoiceRow | None:
        """The schedule chosen without measuring, by key; None if there is none."""
        return self._attempt(lambda shelf: shelf.choice(key))

    def keep_choice(self, key: str, schedule: Schedule, seconds: float) -> None:
        """Store a schedule chosen without measuring, with its predicted seconds."""
        if not 0 <= seconds < math.inf:
            return
        row = ChoiceRow(key, canonical_schedule(schedule), seconds)
        self._attempt(lambda shelf: shelf.add_choice(row))

    def untuned(self, problem: str, environment: str) -> ChoiceRow | None:
        """The untuned schedule that a winner was compared with, and its measured seconds."""
        return self.choice(_key_of_untuned(problem, environment))

    def keep_untuned(
        self, problem: str, environment: str, schedule: Schedule, seconds: float
    ) -> None:
        """Store the untuned schedule that a winner was compared with, and its seconds."""
        self.keep_choice(_key_of_untuned(problem, environment), schedule, seconds)

    def drop(self, row: WinnerRow) -> None:
        """Remove a winner without a valid schedule, and count it in `dropped`."""
        self._attempt(lambda shelf: shelf.drop(row))
        self._team.drop(row)
        self._shelf.dropped += 1

    @property
    def dropped(self) -> int:
        """The number of invalid rows read so far, which are ignored."""
        return self._shelf.dropped

    def trials(self, problem: str, environment: str) -> list[TrialRow]:
        """All trials of a problem in an environment, in the order of recording."""
        return self._attempt(lambda shelf: shelf.trials(problem, environment))

    def ls(self) -> list[ListedProblem]:
        """Counts and winners per problem and environment, the last updated last."""
        return self._attempt(lambda shelf: shelf.entries())

    def prune(
        self,
        *,
        older_than_s: float | None = None,
        environment: str | None = None,
        problem: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove the rows that match all given filters; the number removed."""
        if not everything and older_than_s is environment is problem is None:
            raise StoreError("prune what?", hint="an age, an environment, a problem or everything")
        before = None if older_than_s is None else time.time() - older_than_s
        return self._attempt(lambda shelf: shelf.prune(before, problem, environment))

    def export(self, file: str | Path) -> int:
        """Write all rows as JSON lines, atomically; the number of rows."""
        place = Path(file)
        rows: list[Row] = [
            *self._attempt(lambda shelf: shelf.trials()),
            *self._attempt(lambda shelf: shelf.winners()),
        ]
        lines = [EXPORT_HEADER, *map(line_from_row, rows)]
        write_whole(place, "\n".join(lines) + "\n", StoreError)
        return len(rows)

    def import_(
        self, file: str | Path, check: Callable[[str], object] = canonical_schedule
    ) -> Imported:
        """Add the valid rows of an exported file; their number, and the rejected lines.

        `check` raises an MdtensorError for a schedule that is none. Trials that are here already
        are left, winners replaced by the usual rule. Raises `StoreError` for another kind of file.
        """
        try:
            with open(file, encoding="utf-8", newline="\n") as lines:
                rows, refused = rows_in(lines, check)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"cannot read {file}: {reason}") from error
        self._add(rows)
        return Imported(len(rows), refused)

    def close(self) -> None:
        """Close the file; further calls may reopen it."""
        self._shelf.close()

    def __repr__(self) -> str:
        return f"Store({str(self.path) if self.path else 'in memory'})"

    def _add(self, rows: list[Row]) -> None:
        self._attempt(lambda shelf: shelf.add(rows))

    def _attempt(self, action: Callable[[Shelf], T]) -> T:
        for is_last in (False, True):
            try:
                return action(self._shelf)
            except sqlite3.ProgrammingError:
                raise
            except FAILURES as error:
                if self.path is None:
                    raise StoreError(f"the store in memory failed: {error}") from error
                self._recover(self.path, error, is_last=is_last)
        return action(self._shelf)

    def _recover(self, path: Path, error: Exception, *, is_last: bool) -> None:
        self._shelf.close()
        is_lost = isinstance(error, LostFileError)
        if not is_last and (is_lost or is_corrupt(error)):
            with suppress(*FAILURES, StoreError):
                if is_lost:
                    tell(StoreError(f"the store {path} was removed in use; it begins anew"))
                    private_folder(path.parent)
                else:
                    _set_aside(path)
                self._shelf = _opened(path)
                return
        self._moved_to_memory(path, error)

    def _moved_to_memory(self, path: Path | None, error: Exception) -> Store:
        self._shelf = SqliteBackend(None)
        # What can still be read serves on: a shared cache may well be read-only.
        if path is not None and not isinstance(error, StoreError):
            self._shelf.add(winners_read_only(path))
        self.path = None
        self.trouble = _trouble(path, error)
        tell(self.trouble)
        return self


def _key_of_untuned(problem: str, environment: str) -> str:
    return f"untuned | {environment} | {problem}"


def _opened(path: Path) -> SqliteBackend:
    if _is_in_place(path):
        try:
            return SqliteBackend(path)
        except FAILURES as error:
            if not is_corrupt(error):
                raise
    _set_aside(path)
    return SqliteBackend(path)


def _is_in_place(path: Path) -> bool:
    """Whether SQLite's files are regular or missing; NotPrivateError for other users' ones."""
    is_whole = True
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm"), Path(f"{path}-journal")):
        with suppress(FileNotFoundError):
            status = os.lstat(each)
            is_whole &= stat.S_ISREG(status.st_mode)
            if not stat.S_ISLNK(status.st_mode) and (reason := not_private(status)):
                raise NotPrivateError(
                    f"{each} is not used: {reason}; tuning results are kept in memory only",
                    hint=f"chmod go-w {each}, if nobody else has written to it; or remove it",
                )
    return is_whole


def _set_aside(path: Path) -> None:
    """Rename a damaged database, unless another process already did."""
    with _alone_in(path.parent):
        if _is_in_place(path) and (not path.exists() or is_sound(path)):
            return
        aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
        # The log first: beside a new file it would be played into that.
        for suffix in ("-wal", "-shm", "-journal", ""):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    tell(StoreError(f"the store {path} was damaged; it begins anew", hint=f"moved to {aside}"))


@contextmanager
def _alone_in(folder: Path) -> Generator[None, None, None]:
    """Hold an exclusive `flock` on a directory, which the system drops when a process dies."""
    import fcntl  # POSIX only, as is the need: elsewhere an open file cannot be renamed.

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _trouble(path: Path | None, error: Exception) -> StoreError:
    if isinstance(error, NotPrivateError):
        return error
    if isinstance(error, StoreError):
        reason, hint = error.message, error.hint
    elif is_busy(error):
        reason = f"another program has locked it ({error})"
        hint = "end that program, or set MDTENSOR_CACHE_DIR to another directory"
    else:
        reason, hint = str(error), "set MDTENSOR_CACHE_DIR to a writable local directory"
    where = f" {path}" if path else ""
    return StoreError(
        f"the store{where} cannot be used: {reason}; tuning results are kept in memory only",
        hint=hint,
    )


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
