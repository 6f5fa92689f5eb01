"""The team store: a read-only store shared by others, whose winners are read once.

It holds facts only, so it may belong to anybody; rows are checked like those of any store.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mdtensor.autotune.store.exported_rows import rows_in
from mdtensor.autotune.store.files_backend import is_on_network
from mdtensor.autotune.store.rows import WinnerRow, canonical_schedule, row_from_line
from mdtensor.autotune.store.sqlite_backend import FAILURES, MOST_WINNERS, winners_in
from mdtensor.errors import StoreError, tell
from mdtensor.paths import TEAM, read_regular

_FILE_NAME, _FOLDER_NAME = "tuning.sqlite3", "tuning.d"
_MOST_BYTES = 256 << 20  # of an exported file
_MOST_BYTES_OF_ROW = 1 << 20


class TeamStore:
    """The winners of a shared store in a folder or file; empty for a path of None.

    Read when they are first needed. What cannot be read is warned of once, and has no winners.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self._rows: dict[tuple[str, str], WinnerRow] | None = None if path is not None else {}

    @classmethod
    def of_environment(cls) -> TeamStore:
        """The store that `MDTENSOR_TEAM_STORE` names."""
        return cls(os.environ.get(TEAM) or None)

    def winner(self, problem: str, environment: str) -> WinnerRow | None:
        """The winner of a problem in an environment."""
        return self._known().get((problem, environment))

    def winners(
        self, environment: str | None = None, problem: str | None = None
    ) -> list[WinnerRow]:
        """The winners of an environment, of a problem, of both, or all there are."""
        return [
            row
            for row in list(self._known().values())
            if environment in (None, row.environment) and problem in (None, row.problem)
        ]

    def drop(self, row: WinnerRow) -> None:
        """Drop a winner without a valid schedule, in this process only."""
        if self._known().get((row.problem, row.environment)) == row:
            self._known().pop((row.problem, row.environment), None)

    def _known(self) -> dict[tuple[str, str], WinnerRow]:
        if self._rows is None:
            self._rows = self._read()  # two threads at once read the same
        return self._rows

    def _read(self) -> dict[tuple[str, str], WinnerRow]:
        found: dict[tuple[str, str], WinnerRow] = {}
        try:
            for row in _winners_at((self.path or Path()).expanduser()):
                key = row.problem, row.environment
                if key not in found or row.replaces(found[key]):
                    found[key] = row
        except (*FAILURES, StoreError, ValueError, RuntimeError) as error:
            reason = error.message if isinstance(error, StoreError) else str(error)
            hint = f"{TEAM} names a store's folder, its file, or one that export wrote"
            tell(StoreError(f"the team store {self.path} is not used: {reason}", hint=hint))
        return found


def _winners_at(path: Path) -> list[WinnerRow]:
    """The winners in a folder or file, of either backend or an export."""
    if not path.is_dir():
        return _winners_in_file(path)
    if (path / _FILE_NAME).exists():
        return _winners_in_file(path / _FILE_NAME)
    folder = path / _FOLDER_NAME
    rows = list(_rows_below(folder if folder.is_dir() else path))
    if not rows and not folder.is_dir():
        raise StoreError(f"there is no {_FILE_NAME} in it")
    return rows


def _winners_in_file(path: Path) -> list[WinnerRow]:
    """The winners in an SQLite file, or in an exported one."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise StoreError(f"{path} is no file")
    # A log tells of who writes right now, whose locks are respected; without one there is nothing
    # that would have to be put beside the file.
    unchanging = is_on_network(path.resolve()) or not os.path.exists(f"{path}-wal")
    try:
        # By SQLite first: a process that opens and closes a database by itself loses its locks.
        return winners_in(path, unchanging=unchanging)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB:
            raise
    text = read_regular(path, _MOST_BYTES).decode("utf-8")
    rows, _ = rows_in(text.split("\n"), canonical_schedule)
    return [row for row in rows if isinstance(row, WinnerRow)]


def _rows_below(folder: Path) -> Iterator[WinnerRow]:
    """The winners in a folder of `FilesBackend`, one file each."""
    for number, place in enumerate(folder.glob("*/*/winner.json")):
        if number >= MOST_WINNERS:
            return
        with suppress(OSError, UnicodeDecodeError, StoreError):
            row = row_from_line(read_regular(place, _MOST_BYTES_OF_ROW).decode("utf-8"))
            if isinstance(row, WinnerRow):
                yield row
