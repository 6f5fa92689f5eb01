"""A store backend with one file per row, for network file systems, where SQLite's locks fail.

A row is written beside its place and renamed onto it; whatever does not read back as a valid row
(torn, stale, foreign) is a miss. There are no locks: when two machines set a winner at once, the
later stays, which may be the slower of the two.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from mdtensor.autotune.store.rows import (
    ChoiceRow,
    Count,
    ListedProblem,
    Row,
    TrialRow,
    WinnerRow,
    choice_from_line,
    entries_of,
    line_from_row,
    row_from_line,
)
from mdtensor.errors import StoreError
from mdtensor.paths import private_folder, read_private

R = TypeVar("R", TrialRow, WinnerRow)

_MOST_BYTES = 1 << 20  # of a row
NETWORK_TYPES = frozenset(
    {
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs"),
        *("fuse.sshfs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "smb3", "smbfs"),
    }
)


class FilesBackend:
    """Rows under a directory: `<problem>/<environment>/winner.json` and `…/trials/<id>.json`.

    Raises `OSError` as the file system does.
    """

    def __init__(self, path: Path) -> None:
        self.path = private_folder(path)
        self.dropped = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows one by one; known trials are kept, winners replaced by `WinnerRow.replaces`."""
        for row in rows:
            folder = self._folder(row.problem, row.environment)
            if isinstance(row, TrialRow):
                place = folder / "trials" / f"{_digest(row.id)}.json"
                if _read(place, TrialRow) is None:
                    _write(place, line_from_row(row))
                continue
            old = self.winner(row.problem, row.environment)
            if old is None or row.replaces(old):
                _write(folder / "winner.json", line_from_row(row))

    def winner(self, problem: str, environment: str) -> WinnerRow | None:
        """The winner of a problem in an environment."""
        row = _read(self._folder(problem, environment) / "winner.json", WinnerRow)
        return row if row and (row.problem, row.environment) == (problem, environment) else None

    def state(self) -> object:
        """None: changes by other processes cannot be detected."""
        return None

    def problems(self, environment: str) -> list[str]:
        """The problems that have a winner in an environment."""
        return [row.problem for row in self.winners(environment=environment)]

    def winners(
        self, problem: str | None = None, environment: str | None = None
    ) -> list[WinnerRow]:
        """The winners of a problem, of an environment, of both, or all there are, oldest first."""
        of_problem = "*" if problem is None else _digest(problem)
        of_environment = "*" if environment is None else _digest(environment)
        pattern = f"{of_problem}/{of_environment}/winner.json"
        rows = [row for _, row in self._rows(pattern, WinnerRow)]
        return sorted(rows, key=lambda row: row.created)

    def trials(self, problem: str | None = None, environment: str | None = None) -> list[TrialRow]:
        """The trials of a problem in an environment, or all there are, in order of making."""
        if problem is None or environment is None:
            pattern = "*/*/trials/*.json"
        else:
            pattern = f"{_digest(problem)}/{_digest(environment)}/trials/*.json"
        rows = [row for _, row in self._rows(pattern, TrialRow)]
        return sorted(rows, key=lambda row: row.created)

    def drop(self, row: WinnerRow) -> None:
        """Remove a winner."""
        place = self._folder(row.problem, row.environment) / "winner.json"
        place.unlink(missing_ok=True)

    def choice(self, key: str) -> ChoiceRow | None:
        """The schedule chosen without measuring, by key; None if there is none."""
        with suppress(OSError, UnicodeDecodeError, StoreError):
            row = choice_from_line(_text(self._place_of_choice(key)))
            return row if row.key == key else None
        return None

    def add_choice(self, row: ChoiceRow) -> None:
        """Add a choice, or replace the one of its key."""
        _write(self._place_of_choice(row.key), line_from_row(row))

    def _place_of_choice(self, key: str) -> Path:
        return self.path / "choices" / f"{_digest(key)}.json"

    def trim(self) -> None:
        """No-op, as `nbytes` is 0."""

    def nbytes(self) -> int:
        """0: the size of remote files is not counted."""
        return 0

    def entries(self) -> list[ListedProblem]:
        """One entry per problem and environment."""
        counts: dict[tuple[str, str], Count] = {}
        for row in self.trials():
            key = (row.problem, row.environment)
            _, _, trials, ok, newest = counts.get(key, (*key, 0, 0, 0.0))
            ok += row.status == "ok"
            counts[key] = (*key, trials + 1, ok, max(newest, row.created))
        return entries_of(counts.values(), self.winners())

    def prune(self, before: float | None, problem: str | None, environment: str | None) -> int:
        """Remove the rows that match all given filters; the number removed."""
        found: list[tuple[Path, Row]] = [
            *self._rows("*/*/winner.json", WinnerRow),
            *self._rows("*/*/trials/*.json", TrialRow),
        ]
        removed = 0
        for place, row in found:
            if (
                (before is None or row.created < before)
                and (problem is None or row.problem == problem)
                and (environment is None or row.environment == environment)
            ):
                place.unlink(missing_ok=True)
                removed += 1
        return removed

    def close(self) -> None:
        """No-op: no file is open between calls."""

    def _folder(self, problem: str, environment: str) -> Path:
        return self.path / _digest(problem) / _digest(environment)

    def _rows(self, pattern: str, kind: type[R]) -> Iterator[tuple[Path, R]]:
        for place in self.path.glob(pattern):
            row = _read(place, kind)
            if row is not None:
                yield place, row
            else:
                self.dropped += 1


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _text(place: Path) -> str:
    return read_private(place, _MOST_BYTES).decode("utf-8")


def _read(place: Path, kind: type[R]) -> R | None:
    # Stale handles and half-written files are what network file systems show: misses.
    with suppress(OSError, UnicodeDecodeError, StoreError):
        row = row_from_line(_text(place))
        return row if isinstance(row, kind) else None
    return None


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place.with_name(f".{uuid.uuid4().hex}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(place)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        # A rename whose acknowledgement was lost is reported as failed after it happened.
        with suppress(OSError, UnicodeDecodeError):
            if _text(place) == text:
                return
        raise


def is_on_network(path: Path, mounts: str | None = None) -> bool:
    """Whether a path lies on a network file system, by /proc/self/mounts if present.

    >>> is_on_network(Path("/home/ada"), "nas:/ada /home nfs4 rw 0 0")
    True
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    found, longest = "", -1
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(_unescaped(fields[1]))
        # Of several mounts on one place, the last hides the others.
        if path.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = fields[2], len(point.parts)
    return found in NETWORK_TYPES


def _unescaped(field: str) -> str:
    for code in ("040", "011", "012", "134"):
        field = field.replace("\\" + code, chr(int(code, 8)))
    return field
