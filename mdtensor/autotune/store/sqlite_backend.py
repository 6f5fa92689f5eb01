"""A store backend in an SQLite file: durable commits, reads concurrent with writes.

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
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from mdtensor.autotune.store.rows import (
    ChoiceRow,
    ListedProblem,
    R,
    Row,
    TrialRow,
    WinnerRow,
    checked,
    entries_of,
)
from mdtensor.errors import StoreError
from mdtensor.forks import keep_over_forks

T = TypeVar("T")

SCHEMA_VERSION = 2  # 1 had no choices
APPLICATION_ID = 0x6D64746E  # "mdtn": which program a file belongs to
# Seconds to wait for others' locks; a first call waits for the file to open.
BUSY_SECONDS, OPENING_SECONDS = 20.0, 1.0
# Seconds for which the state of the log counts: looking at it took a tenth of a first call.
_STATED_S = 0.005
_writes = 0  # of this process

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
    """create table if not exists choices (
        key text not null primary key, schedule text not null, seconds real not null,
        created real not null) without rowid""",
    f"pragma application_id = {APPLICATION_ID}",
    f"pragma user_version = {SCHEMA_VERSION}",
)
ADD_TRIAL = "insert or ignore into trials values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
SET_WINNER = "insert or replace into winners values (?, ?, ?, ?, ?, ?, ?, ?)"
SET_CHOICE = "insert or replace into choices values (?, ?, ?, ?)"
MOST_CHOICES = 1 << 14
MOST_BYTES_OF_ROW = 1 << 22
MOST_WINNERS = 1 << 17  # that are read together

# Error codes that tell of a file which is not what this program wrote; ERROR is that of tables and
# columns which are not there.
_OF_DAMAGE = frozenset(
    (
        *(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_INTERNAL, sqlite3.SQLITE_CORRUPT),
        *(sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH),
        *(sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_NOTADB),
    )
)
# What reading and writing may raise: texts that are no UTF-8, numbers beyond 64 bits.
FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError, OverflowError)

# SQLite has locks of the process, which a thread may hold while another one forks.
_in_sqlite = threading.RLock()
keep_over_forks(_in_sqlite)
# Inherited over a fork and never to be used nor closed: kept so that nothing closes them.
_abandoned: list[sqlite3.Connection] = []


class OtherTablesError(sqlite3.DatabaseError):
    """A file claims to be a store of this version, but has other tables."""


class LostFileError(OSError):
    """The database file was removed or replaced while open."""


class SqliteBackend:
    """The rows in one file, or in memory without a path.

    An empty file has no rows, and gets its tables with the first one: they take 13 ms, for which
    first calls would wait. Raises `FAILURES` as SQLite does; `StoreError` for a file that is not
    for this version.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.dropped = 0
        if path is not None:
            _create_private(path)
        self._file = self._identity()
        self._log = f"{path or ''}-wal"
        self._state: object = None
        self._writes, self._until = -1, 0.0  # for which that holds
        # With the process that used each: over a fork they are inherited.
        self._idle: list[tuple[sqlite3.Connection, int]] = []
        weakref.finalize(self, _close_own, self._idle)
        if not self._is_empty():
            with _in_sqlite:
                self._idle.append((self._opened(OPENING_SECONDS), os.getpid()))

    def _is_empty(self) -> bool:
        """Whether the file has 0 bytes; SQLite writes to its log (WAL) only afterwards."""
        try:
            return self.path is not None and os.stat(self.path).st_size == 0
        except OSError:
            return False

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection, None, None]:
        with _in_sqlite:
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
            return self._opened(BUSY_SECONDS)

    def _opened(self, busy_s: float) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path or ":memory:",
            timeout=0.0,  # `_retried` waits
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES_OF_ROW)
            _retried(lambda: _prepare(connection), busy_s)
        except BaseException:
            connection.close()
            raise
        return connection

    def _identity(self) -> object:
        """Device and inode, to detect that the file was replaced; None if it is missing."""
        try:
            status = os.stat(self.path or "")
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection, None, None]:
        global _writes
        if self._file != self._identity():
            raise LostFileError("the file was removed")  # SQLite would write to it all the same
        with self._connected() as connection:
            # The write lock is taken at once: one taken later fails instead of waiting.
            _retried(lambda: connection.execute("begin immediate"), BUSY_SECONDS)
            try:
                with _committed(connection):
                    yield connection
            finally:
                _writes += 1

    def _read(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        if self._is_empty():
            return []
        with self._connected() as connection:
            return _retried(lambda: connection.execute(sql, values).fetchall(), BUSY_SECONDS)

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows in one transaction; known trials are kept, winners replaced by `replaces`."""
        with self._writing() as connection:
            for row in rows:
                if isinstance(row, TrialRow):
                    connection.execute(ADD_TRIAL, astuple(row))
                    continue
                old = connection.execute(
                    "select * from winners where problem = ? and environment = ?",
                    (row.problem, row.environment),
                ).fetchall()
                if all(row.replaces(each) for each in self._rows(WinnerRow, old)):
                    connection.execute(SET_WINNER, astuple(row))

    def winner(self, problem: str, environment: str) -> WinnerRow | None:
        """The winner of a problem in an environment."""
        sql = "select * from winners where problem = ? and environment = ?"
        rows = self._rows(WinnerRow, self._read(sql, (problem, environment)))
        return rows[0] if rows else None

    def state(self) -> object:
        """Inode, mtime and size of the write-ahead log, which every transaction changes.

        Writes by other processes are seen some milliseconds later.
        """
        now = time.monotonic()
        if self._writes != _writes or now >= self._until:
            self._writes, self._until = _writes, now + _STATED_S
            self._state = self._state_now()
        return self._state

    def _state_now(self) -> object:
        try:
            log = os.stat(self._log)
        except OSError:
            return "empty" if self._is_empty() else None
        return log.st_ino, log.st_mtime_ns, log.st_size

    def problems(self, environment: str) -> list[str]:
        """The problems that have a winner in an environment."""
        sql = "select problem from winners where environment = ?"
        found = [problem for (problem,) in self._read(sql, (environment,))]
        return [problem for problem in found if isinstance(problem, str)]

    def winners(
        self, problem: str | None = None, environment: str | None = None
    ) -> list[WinnerRow]:
        """The winners of a problem, of an environment, of both, or all there are, oldest first."""
        given = {"problem = ?": problem, "environment = ?": environment}
        wanted = {rule: value for rule, value in given.items() if value is not None}
        where = f"where {' and '.join(wanted)}" if wanted else ""
        values = tuple(wanted.values())
        rows = self._read(f"select * from winners {where} order by created", values)
        return self._rows(WinnerRow, rows)

    def trials(self, problem: str | None = None, environment: str | None = None) -> list[TrialRow]:
        """The trials of a problem in an environment, or all there are, in order of recording."""
        where = "" if problem is None else "where problem = ? and environment = ?"
        values = () if problem is None else (problem, environment)
        rows = self._read(f"select * from trials {where} order by rowid", values)
        return self._rows(TrialRow, rows)

    def _rows(self, kind: type[R], found: Iterable[Sequence[object]]) -> list[R]:
        """The valid rows of a table; invalid ones are counted."""
        rows = [row_from_values(kind, values) for values in found]
        self.dropped += sum(row is None for row in rows)
        return [row for row in rows if row is not None]

    def drop(self, row: WinnerRow) -> None:
        """Remove a winner, unless its schedule was replaced meanwhile."""
        with self._writing() as connection:
            connection.execute(
                "delete from winners where problem = ? and environment = ? and schedule = ?",
                (row.problem, row.environment, row.schedule),
            )

    def choice(self, key: str) -> ChoiceRow | None:
        """The schedule chosen without measuring, by key; None if there is none."""
        rows = self._rows(ChoiceRow, self._read("select * from choices where key = ?", (key,)))
        return rows[0] if rows else None

    def add_choice(self, row: ChoiceRow) -> None:
        """Add a choice, or replace the one of its key; beyond MOST_CHOICES the oldest go."""
        with self._writing() as connection:
            connection.execute(SET_CHOICE, astuple(row))
            connection.execute(
                "delete from choices where key in "
                f"(select key from choices order by created desc limit -1 offset {MOST_CHOICES})"
            )

    def entries(self) -> list[ListedProblem]:
        """One entry per problem and environment."""
        counts = self._read(
            "select problem, environment, count(*), sum(status = 'ok'), max(created) from trials "
            "group by problem, environment"
        )
        known = [count for count in counts if _is_count(count)]
        self.dropped += len(counts) - len(known)
        return entries_of(known, self.winners())

    def trim(self) -> None:
        """Remove the oldest quarter of the trials."""
        with self._writing() as connection:
            connection.execute(
                "delete from trials where rowid in (select rowid from trials order by created "
                "limit (select count(*) / 4 + 1 from trials))"
            )
        self._give_back()

    def nbytes(self) -> int:
        """The size of the file in bytes."""
        try:
            return os.stat(self.path or "").st_size
        except OSError:
            return 0

    def prune(self, before: float | None, problem: str | None, environment: str | None) -> int:
        """Remove the rows that match all given filters; the number removed."""
        given = {"created < ?": before, "problem = ?": problem, "environment = ?": environment}
        wanted = {rule: value for rule, value in given.items() if value is not None}
        where = f"where {' and '.join(wanted)}" if wanted else ""
        removed = 0
        with self._writing() as connection:
            for table in ("trials", "winners"):
                cursor = connection.execute(f"delete from {table} {where}", tuple(wanted.values()))
                removed += cursor.rowcount
            if problem is environment is None:
                connection.execute(f"delete from choices {where}", tuple(wanted.values()))
        self._give_back()
        return removed

    def _give_back(self) -> None:
        """Vacuum the file, unless others hold a lock."""
        with suppress(sqlite3.OperationalError), self._connected() as connection:
            connection.execute("vacuum")

    def close(self) -> None:
        """Close this process's connections; those inherited over a fork are not its own."""
        _close_own(self._idle)


def _create_private(path: Path) -> None:
    """Create the file with mode 0600 before SQLite does, which would follow the umask.

    A file that is there is not opened: a process that closes one loses all its locks on it (POSIX),
    those of SQLite too, and others then remove the log that its connections write to.
    """
    with _in_sqlite, suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _close_own(idle: list[tuple[sqlite3.Connection, int]]) -> None:
    while idle:
        connection, process = idle.pop()
        if process == os.getpid():
            with _in_sqlite:
                connection.close()
        else:
            _abandoned.append(connection)


def _prepare(connection: sqlite3.Connection) -> None:
    """Check that the database is a store, and create missing tables."""
    connection.execute("pragma synchronous = normal")
    connection.execute("begin")  # one look: another process may create them right now
    try:
        version: int = connection.execute("pragma user_version").fetchone()[0]
        owner: int = connection.execute("pragma application_id").fetchone()[0]
        tables = _tables(connection)
    finally:
        with suppress(sqlite3.Error):
            connection.execute("rollback")
    if owner == APPLICATION_ID and 0 < version <= SCHEMA_VERSION:
        # Others would have triggers run what they say, or views never end.
        if not tables <= _TABLES or (version == SCHEMA_VERSION and tables != _TABLES):
            raise OtherTablesError("the file has other tables than a store")
        if version == SCHEMA_VERSION:
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
    with _committed(connection):
        for statement in SCHEMA:
            connection.execute(statement)


@contextmanager
def _committed(connection: sqlite3.Connection) -> Generator[None, None, None]:
    """Commit the open transaction, or roll it back on an exception."""
    try:
        yield
        connection.execute("commit")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("rollback")
        raise


def _retried(action: Callable[[], T], busy_s: float) -> T:
    """Retry an action for `busy_s` while others hold a lock: SQLite's own busy wait has gaps.

    Recovery after a crash and the switch to WAL report "busy" at once, without waiting.
    """
    deadline = time.monotonic() + busy_s
    pause = 0.001
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _tables(connection: sqlite3.Connection) -> frozenset[str]:
    """The database's schema: the normalised SQL of all its tables and indices."""
    sql = "select sql from sqlite_master where sql is not null"
    return frozenset(_spelt(str(statement)) for (statement,) in connection.execute(sql))


def _spelt(statement: str) -> str:
    return " ".join(statement.lower().replace(" if not exists", "").split())


_TABLES = frozenset(_spelt(each) for each in SCHEMA if each.startswith("create"))


def row_from_values(kind: type[R], values: Sequence[object]) -> R | None:
    """Build a row from a table's values; None if they are invalid."""
    names = [field.name for field in fields(kind)]
    if len(values) != len(names):
        return None
    given = dict(zip(names, values, strict=True))
    if given.get("confirmed") in (0, 1):  # SQLite has no booleans
        given["confirmed"] = bool(given["confirmed"])
    try:
        return checked(kind, given)
    except StoreError:
        return None


def _is_count(values: Sequence[object]) -> bool:
    """Whether values have the types of a count: problem, environment, two numbers, a time."""
    kinds = (str, str, int, int, float)
    return all(isinstance(value, kind) for value, kind in zip(values, kinds, strict=True))


def winners_read_only(path: Path) -> list[WinnerRow]:
    """The winners of a file without write access, as far as they are readable."""
    # A WAL file needs a writable directory, unless nobody is taken to write it.
    for unchanging in (False, True):
        with suppress(*FAILURES, StoreError):
            return winners_in(path, unchanging=unchanging)
    return []


def winners_in(path: Path, *, unchanging: bool) -> list[WinnerRow]:
    """The winners of a file opened read-only; `unchanging` if no process writes it.

    Raises `FAILURES` as SQLite does, and StoreError for a database that is no store.
    """
    address = f"file:{quote(str(path))}?mode=ro{'&immutable=1' * unchanging}"
    with _in_sqlite, closing(sqlite3.connect(address, uri=True, timeout=1.0)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES_OF_ROW)
        version = connection.execute("pragma user_version").fetchone()[0]
        if version not in range(1, SCHEMA_VERSION + 1) or not _tables(connection) <= _TABLES:
            raise StoreError("it is no store of this version")
        sql = f"select * from winners order by created limit {MOST_WINNERS}"
        rows = [row_from_values(WinnerRow, values) for values in connection.execute(sql)]
        return [row for row in rows if row is not None]


def is_busy(error: Exception) -> bool:
    """Whether an error indicates another program's lock."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_corrupt(error: Exception) -> bool:
    """Whether an error indicates a damaged file."""
    if isinstance(error, (UnicodeDecodeError, OverflowError, OtherTablesError)):
        return True
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_DAMAGE


def is_sound(path: Path) -> bool:
    """Whether a fresh connection passes SQLite's quick check; True for other programs' files."""
    try:
        with _in_sqlite, closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            _prepare(connection)
            return connection.execute("pragma quick_check(1)").fetchone() == ("ok",)
    except StoreError:
        return True  # of another program or version
    except FAILURES as error:
        return not is_corrupt(error)
