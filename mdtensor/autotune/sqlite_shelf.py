"""Rows in an SQLite file: durable at once, readable while others write.

WAL mode: readers never wait for a writer, and a process killed in the middle of a transaction
leaves one that never happened. Threads at work at the same time have a connection each, since on
a shared one a reader would wait for another thread's write; none is carried over a fork.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from mdtensor.autotune.rows import Entry, Row, TrialRow, WinnerRow, entries_of
from mdtensor.errors import StoreError

T = TypeVar("T")

SCHEMA_VERSION = 1
APPLICATION_ID = 0x6D64746E  # "mdtn": which program a file belongs to
BUSY_SECONDS = 20.0

SCHEMA = (
    """create table if not exists trials (
        problem text not null, environment text not null, schedule text not null,
        status text not null, seconds real, spread real, detail text not null,
        created real not null, id text not null unique)""",
    "create index if not exists trials_by_key on trials (problem, environment)",
    """create table if not exists winners (
        problem text not null, environment text not null, schedule text not null,
        seconds real not null, trials integer not null, search_seconds real not null,
        confirmed integer not null, created real not null,
        primary key (problem, environment)) without rowid""",
    f"pragma application_id = {APPLICATION_ID}",
    f"pragma user_version = {SCHEMA_VERSION}",
)
ADD_TRIAL = "insert or ignore into trials values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
SET_WINNER = "insert or replace into winners values (?, ?, ?, ?, ?, ?, ?, ?)"

# Inherited over a fork and never to be used nor closed: kept so that nothing closes them.
_abandoned: list[sqlite3.Connection] = []


class SqliteShelf:
    """The rows in one file, or in memory without a path.

    Raises `sqlite3.Error` as SQLite does; `StoreError` for a file that is not for this version.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._log = f"{path or ''}-wal"
        # With the process that used each: over a fork they are inherited.
        self._idle: list[tuple[sqlite3.Connection, int]] = []
        weakref.finalize(self, _close_own, self._idle)
        # In memory the rows live in the connection, which threads take in turns.
        self._memory_lock = threading.RLock() if path is None else nullcontext()
        self._idle.append((self._opened(), os.getpid()))

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection, None, None]:
        with self._memory_lock:
            connection = self._taken()
            try:
                yield connection
            finally:
                self._idle.append((connection, os.getpid()))

    def _taken(self) -> sqlite3.Connection:
        """An idle connection of this process, or a new one."""
        try:
            while True:
                connection, process = self._idle.pop()
                if process == os.getpid() or self.path is None:
                    return connection
                _abandoned.append(connection)
        except IndexError:
            return self._opened()

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path or ":memory:",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _retried(lambda: _prepare(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection, None, None]:
        with self._connected() as connection:
            # The write lock is taken at once: one taken later fails instead of waiting.
            _retried(lambda: connection.execute("begin immediate"))
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("rollback")
                raise

    def _read(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        with self._connected() as connection:
            return _retried(lambda: connection.execute(sql, values).fetchall())

    def add(self, rows: Iterable[Row]) -> None:
        """Add all rows or none; known trials are left, winners replaced by the rule."""
        with self._writing() as connection:
            for row in rows:
                if isinstance(row, TrialRow):
                    connection.execute(ADD_TRIAL, astuple(row))
                    continue
                old = connection.execute(
                    "select * from winners where problem = ? and environment = ?",
                    (row.problem, row.environment),
                ).fetchone()
                if old is None or row.replaces(_winner(old)):
                    connection.execute(SET_WINNER, astuple(row))

    def winner(self, problem: str, environment: str) -> WinnerRow | None:
        """The winner of a problem in an environment."""
        sql = "select * from winners where problem = ? and environment = ?"
        rows = self._read(sql, (problem, environment))
        return _winner(rows[0]) if rows else None

    def state(self) -> object:
        """The file, time and size of the log, to which every transaction adds."""
        try:
            log = os.stat(self._log)
        except OSError:
            return None
        return log.st_ino, log.st_mtime_ns, log.st_size

    def problems(self, environment: str) -> list[str]:
        """The problems that have a winner in an environment."""
        sql = "select problem from winners where environment = ?"
        return [problem for (problem,) in self._read(sql, (environment,))]

    def winners(self, problem: str | None = None) -> list[WinnerRow]:
        """The winners of a problem in all environments, or all there are."""
        where = "" if problem is None else "where problem = ?"
        values = () if problem is None else (problem,)
        rows = self._read(f"select * from winners {where} order by created", values)
        return [_winner(row) for row in rows]

    def trials(self, problem: str | None = None, environment: str | None = None) -> list[TrialRow]:
        """The trials of a problem in an environment, or all there are, in order of recording."""
        where = "" if problem is None else "where problem = ? and environment = ?"
        values = () if problem is None else (problem, environment)
        rows = self._read(f"select * from trials {where} order by rowid", values)
        return [TrialRow(*row) for row in rows]

    def entries(self) -> list[Entry]:
        """One entry per problem and environment."""
        counts = self._read(
            "select problem, environment, count(*), sum(status = 'ok'), max(created) from trials "
            "group by problem, environment"
        )
        return entries_of(counts, self.winners())

    def prune(self, before: float | None, problem: str | None, environment: str | None) -> int:
        """Remove the rows that match everything given; how many these were."""
        given = {"created < ?": before, "problem = ?": problem, "environment = ?": environment}
        wanted = {rule: value for rule, value in given.items() if value is not None}
        where = f"where {' and '.join(wanted)}" if wanted else ""
        removed = 0
        with self._writing() as connection:
            for table in ("trials", "winners"):
                cursor = connection.execute(f"delete from {table} {where}", tuple(wanted.values()))
                removed += cursor.rowcount
        # Gives the space back; not worth waiting for whoever else is at work.
        with suppress(sqlite3.OperationalError), self._connected() as connection:
            connection.execute("pragma busy_timeout = 0")
            try:
                connection.execute("vacuum")
            finally:
                connection.execute(f"pragma busy_timeout = {int(BUSY_SECONDS * 1000)}")
        return removed

    def close(self) -> None:
        """Close the connections of this process; those that a fork inherited are not its own."""
        _close_own(self._idle)


def _close_own(idle: list[tuple[sqlite3.Connection, int]]) -> None:
    while idle:
        connection, process = idle.pop()
        if process == os.getpid():
            connection.close()
        else:
            _abandoned.append(connection)


def _prepare(connection: sqlite3.Connection) -> None:
    """Check whose file it is, and create what is missing."""
    connection.execute("pragma synchronous = normal")
    connection.execute("begin")  # one look: another process may create them right now
    try:
        version: int = connection.execute("pragma user_version").fetchone()[0]
        owner: int = connection.execute("pragma application_id").fetchone()[0]
        tables: int = connection.execute("select count(*) from sqlite_master").fetchone()[0]
    finally:
        with suppress(sqlite3.Error):
            connection.execute("rollback")
    if version == SCHEMA_VERSION and owner == APPLICATION_ID:
        return
    if tables and owner != APPLICATION_ID:
        raise StoreError("the file is an SQLite database of another program")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the store has format {version}, newer than {SCHEMA_VERSION}",
            hint="update mdtensor, or set MDTENSOR_CACHE_DIR to another directory",
        )
    connection.execute("pragma journal_mode = wal")
    connection.execute("begin exclusive")
    try:
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute("commit")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("rollback")
        raise


def _retried(action: Callable[[], T]) -> T:
    """Run it again while others hold a lock: SQLite's own waiting has gaps.

    Recovery after a crash and the switch to WAL report "busy" at once, without waiting.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    pause = 0.001
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            busy = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _winner(row: Sequence[Any]) -> WinnerRow:
    # SQLite has no booleans.
    return replace(WinnerRow(*row), confirmed=bool(row[6]))


def winners_read_only(path: Path) -> list[WinnerRow]:
    """The winners in a file that cannot be written, as far as they can be read."""
    # A WAL file needs a writable directory, unless nobody is taken to write it.
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        with suppress(sqlite3.Error):
            address = f"file:{quote(str(path))}?{mode}"
            with closing(sqlite3.connect(address, uri=True, timeout=1.0)) as connection:
                if connection.execute("pragma user_version").fetchone()[0] == SCHEMA_VERSION:
                    return [_winner(row) for row in connection.execute("select * from winners")]
    return []


def is_corrupt(error: Exception) -> bool:
    """Whether an error says that the file itself is damaged."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_sound(path: Path) -> bool:
    """Whether a file is a whole database, looked at from a new connection."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            return connection.execute("pragma quick_check(1)").fetchone() == ("ok",)
    except sqlite3.DatabaseError as error:
        return not is_corrupt(error)
