"""The store's rows: trials, winners and choices, with their JSON lines."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, fields, replace
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from mdtensor.autotune.trial import STATUSES, Status
from mdtensor.dataclass import dataclass
from mdtensor.errors import StoreError, shown

Schedule: TypeAlias = "str | Mapping[str, object]"

_MOST_CHARACTERS = 1 << 18  # of a line


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One measurement of one schedule. `created` is in seconds since 1970, `id` is unique."""

    problem: str
    environment: str
    schedule: str
    status: Status
    seconds: float | None
    spread: float | None
    detail: str
    created: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True, slots=True)
class WinnerRow:
    """The best schedule known for a problem in an environment, and the effort that found it."""

    problem: str
    environment: str
    schedule: str
    seconds: float
    trials: int
    search_seconds: float
    confirmed: bool
    created: float = field(default_factory=time.time)

    def replaces(self, old: WinnerRow) -> bool:
        """Whether this row is faster than `old`, or from at least as many trials.

        The latter is newer knowledge: a driver was updated, a chip runs cooler.
        """
        return self.seconds < old.seconds or self.trials >= old.trials


@dataclass(frozen=True, slots=True)
class ListedProblem:
    """One line of the store's listing: a problem in an environment."""

    problem: str
    environment: str
    trials: int
    ok: int
    winner: WinnerRow | None
    updated: float


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """A schedule chosen without measuring, under a key that describes the problem.

    `seconds` are expected ones.
    """

    key: str
    schedule: str
    seconds: float
    created: float = field(default_factory=time.time)


Row: TypeAlias = TrialRow | WinnerRow
R = TypeVar("R", TrialRow, WinnerRow, ChoiceRow)
# Problem, environment, trials, those that are ok, when the newest was made.
Count: TypeAlias = tuple[str, str, int, int, float]


class Shelf(Protocol):
    """A storage backend for rows: an SQLite file, memory, or one file per row.

    What is read is checked as what is imported: `dropped` counts what was no row.
    """

    dropped: int

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows; known trials are left, winners replaced by `WinnerRow.replaces`."""
        ...

    def winner(self, problem: str, environment: str) -> WinnerRow | None:
        """The winner of a problem in an environment."""
        ...

    def state(self) -> object:
        """A value that changes with every write by any process; None where that is unknown."""
        ...

    def problems(self, environment: str) -> list[str]:
        """The problems that have a winner in an environment."""
        ...

    def winners(
        self, problem: str | None = None, environment: str | None = None
    ) -> list[WinnerRow]:
        """The winners of a problem, of an environment, of both, or all there are, oldest first."""
        ...

    def trials(self, problem: str | None = None, environment: str | None = None) -> list[TrialRow]:
        """The trials of a problem in an environment, or all there are, in order."""
        ...

    def drop(self, row: WinnerRow) -> None:
        """Remove a winner."""
        ...

    def choice(self, key: str) -> ChoiceRow | None:
        """The schedule chosen without measuring, by key; None if there is none."""
        ...

    def add_choice(self, row: ChoiceRow) -> None:
        """Add a choice, or replace the one of its key; the oldest go beyond a limit."""
        ...

    def entries(self) -> list[ListedProblem]:
        """One entry per problem and environment."""
        ...

    def trim(self) -> None:
        """Remove the oldest quarter of the trials."""
        ...

    def nbytes(self) -> int:
        """Bytes on disk; 0 where they are not counted."""
        ...

    def prune(self, before: float | None, problem: str | None, environment: str | None) -> int:
        """Remove the rows that match all given filters; the number removed."""
        ...

    def close(self) -> None:
        """Close all files."""
        ...


def entries_of(counts: Iterable[Count], winners: Iterable[WinnerRow]) -> list[ListedProblem]:
    """Join trial counts with winners, the last updated entry last."""
    found = {(row.problem, row.environment): row for row in winners}
    entries: list[ListedProblem] = []
    for problem, environment, trials, ok, newest in counts:
        winner = found.pop((problem, environment), None)
        updated = max(newest, winner.created) if winner else newest
        entries.append(ListedProblem(problem, environment, trials, ok, winner, updated))
    entries += [
        ListedProblem(row.problem, row.environment, 0, 0, row, row.created)
        for row in found.values()
    ]
    return sorted(entries, key=lambda entry: entry.updated)


def canonical_schedule(schedule: Schedule) -> str:
    """The canonical text of a schedule: JSON with sorted keys and without spaces.

    >>> canonical_schedule({"tile": (4, 8), "order": "ij"})
    '{"order":"ij","tile":[4,8]}'
    """
    try:
        value = json.loads(schedule) if isinstance(schedule, str) else schedule
        if not isinstance(value, Mapping):
            raise ValueError("it is not a mapping")
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a schedule must be JSON: {error}") from None


def storable(text: str) -> str:
    """The text with characters replaced that UTF-8 cannot encode, such as lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def line_from_row(row: Row | ChoiceRow) -> str:
    """A row as one line of JSON."""
    _, kind = _CHECKS[type(row)]
    return json.dumps({"kind": kind, **asdict(row)}, allow_nan=False)


def row_from_line(line: str) -> Row:
    """Parse a row; `StoreError` says what is wrong with it."""
    kind, given = _fields(line)
    if kind not in ("trial", "winner"):
        raise StoreError(f"unknown kind {shown(kind)}", hint="'trial' or 'winner'")
    row = checked(TrialRow, given) if kind == "trial" else checked(WinnerRow, given)
    return replace(row, schedule=canonical_schedule(row.schedule))


def choice_from_line(line: str) -> ChoiceRow:
    """Parse a choice; `StoreError` says what is wrong with it."""
    kind, given = _fields(line)
    if kind != "choice":
        raise StoreError(f"unknown kind {shown(kind)}", hint="'choice'")
    return checked(ChoiceRow, given)


def _fields(line: str) -> tuple[object, dict[str, object]]:
    """The kind of a JSON line, and its other fields."""
    if len(line) > _MOST_CHARACTERS:
        raise StoreError(f"a line of {len(line)} characters")
    try:
        given: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"not JSON: {error}") from None
    if not isinstance(given, dict):
        raise StoreError("not a JSON object")
    others = cast("dict[str, object]", given)
    return others.pop("kind", None), others


def checked(kind: type[R], given: Mapping[str, object]) -> R:
    """Build a row from validated fields; `StoreError` says what is wrong with them."""
    checks, name_of_kind = _CHECKS[kind]
    if given.keys() != checks.keys():
        odd = ", ".join(sorted(given.keys() ^ checks.keys()))
        raise StoreError(f"missing or unknown fields of a {name_of_kind}: {odd}")
    for name, check in checks.items():
        if not check(given[name]):
            raise StoreError(f"field {name!r} cannot be {shown(given[name])}")
    if given.get("status") == "ok" and given["seconds"] is None:
        raise StoreError("a trial that is ok needs its seconds")
    return kind(**cast("dict[str, Any]", given))


def _is_text(value: object) -> bool:
    # Half a surrogate pair is valid JSON, but no text.
    return isinstance(value, str) and value == storable(value)


def _is_key(value: object) -> bool:
    return _is_text(value) and value != ""


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < 2**63


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


_KEYS = frozenset(("problem", "environment", "id", "key"))
_Checks: TypeAlias = dict[str, Callable[[object], bool]]
_CHECKS_OF_TYPES: _Checks = {
    "str": _is_text,
    "int": _is_count,
    "float": _is_number,
    "float | None": lambda value: value is None or _is_number(value),
    "bool": lambda value: isinstance(value, bool),
    "Status": lambda value: value in STATUSES,
}


def _checks_of(kind: type[Any]) -> _Checks:
    """The validators of a row's fields, by name or type."""
    return {
        each.name: _is_key if each.name in _KEYS else _CHECKS_OF_TYPES[str(each.type)]
        for each in fields(kind)
    }


_CHECKS: dict[type, tuple[_Checks, str]] = {
    TrialRow: (_checks_of(TrialRow), "trial"),
    WinnerRow: (_checks_of(WinnerRow), "winner"),
    ChoiceRow: (_checks_of(ChoiceRow), "choice"),
}
