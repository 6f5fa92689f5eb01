"""Caches that are damaged in every way, or were written by somebody hostile, and read then.

A call must find its results without an error or a hang, and nothing may run that lies there.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tests.api.survival.programs import ended, started
from tests.autotune.hostile_schedules import hostile_texts

_MAKER = """
from mdtensor.tuner import evaluations
known()
new()
with mdt.tuning("record") as seen:
    known()
mdt.tune(seen, budget=3600, quiet=True, abort=evaluations(6))
"""
_READER = """
known()
known()
new()
from mdtensor.api.engine.registry import store
print(sum(entry.trials for entry in store().ls()))
"""


class _Hostile:
    """A pickle that makes a file where it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def _flipped(file: Path, rng: random.Random, _: Path) -> None:
    content = bytearray(file.read_bytes() or b"\0")
    for _ in range(rng.choice((1, 1, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def _cut(file: Path, rng: random.Random, _: Path) -> None:
    os.truncate(file, rng.randrange(file.stat().st_size + 1))


def _empty(file: Path, _: random.Random, __: Path) -> None:
    file.write_bytes(b"")


def _random(file: Path, rng: random.Random, _: Path) -> None:
    file.write_bytes(rng.randbytes(file.stat().st_size))


def _longer(file: Path, rng: random.Random, _: Path) -> None:
    file.write_bytes(file.read_bytes() + rng.randbytes(rng.randrange(1, 5000)))


def _swapped(file: Path, rng: random.Random, root: Path) -> None:
    other = rng.choice([each for each in _files(root) if "programs" in each.parts])
    content, others = file.read_bytes(), other.read_bytes()
    file.write_bytes(others)
    other.write_bytes(content)


def _pickled(file: Path, _: random.Random, root: Path) -> None:
    file.write_bytes(pickle.dumps(_Hostile(root.parent / "marker")))


def _deep(file: Path, _: random.Random, __: Path) -> None:
    file.write_text("[" * 100_000, encoding="ascii")


def _linked(file: Path, rng: random.Random, root: Path) -> None:
    target = rng.choice((Path("/etc/passwd"), Path("/dev/zero"), root / "missing"))
    file.unlink()
    file.symlink_to(target)


def _folder(file: Path, _: random.Random, __: Path) -> None:
    file.unlink()
    file.mkdir()


def _pipe(file: Path, _: random.Random, __: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _open_to_all(file: Path, rng: random.Random, _: Path) -> None:
    rng.choice((file, file.parent)).chmod(0o777)


def _unreadable(file: Path, _: random.Random, __: Path) -> None:
    file.chmod(0)


WAYS = {
    "flipped": _flipped,
    "cut": _cut,
    "empty": _empty,
    "random": _random,
    "longer": _longer,
    "swapped": _swapped,
    "pickled": _pickled,
    "deep": _deep,
    "linked": _linked,
    "a folder": _folder,
    "a pipe": _pipe,
    "open to all": _open_to_all,
    "unreadable": _unreadable,
}
_COLUMNS = {
    "winners": ("schedule", "problem", "environment", "seconds", "trials"),
    "trials": ("schedule", "status", "seconds", "spread", "detail"),
    "choices": ("schedule", "seconds", "created"),
}
_VALUES = (None, -1, 1 << 62, 1.5, float("inf"), "", "x" * 300_000, b"\xff\xfe", "0x1")
_STATEMENTS = (
    "drop table winners",
    "drop table trials",
    "alter table winners rename to others",
    "pragma user_version = 99",
    "pragma user_version = -1",
    "create trigger t after insert on trials begin delete from winners; end",
    "create table more (x)",
    "delete from winners",
    "pragma application_id = 7",
)


def _hostile_store(file: Path, rng: random.Random) -> str:
    """Damages rows or tables of the store, by its own means; what was done."""
    with closing(sqlite3.connect(file)) as connection, connection:
        if rng.random() < 0.25:
            statement = rng.choice(_STATEMENTS)
            connection.execute(statement)
            return statement
        table = rng.choice(list(_COLUMNS))
        column = rng.choice(_COLUMNS[table])
        value = rng.choice(_VALUES)
        if column == "schedule" and rng.random() < 0.8:
            value = _hostile_schedule(connection, table, rng)
        connection.execute("pragma ignore_check_constraints = on")
        try:
            connection.execute(f"update {table} set {column} = ?", (value,))
        except sqlite3.Error as error:  # the table's own constraint
            return f"{table}.{column}: {error}"
        return f"{table}.{column} = {value!r:.60}"


def _hostile_schedule(connection: sqlite3.Connection, table: str, rng: random.Random) -> str:
    row = connection.execute(f"select schedule from {table}").fetchone()
    fields = json.loads(row[0]) if row else {}
    _, text = rng.choice(list(hostile_texts(fields)))
    return text


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def made(whole: Path) -> int:
    """Makes a cache; the number of trials in its store."""
    for program in (_MAKER, _READER):
        process = ended(started(program, whole))
        if not process.is_clean():
            raise AssertionError(f"no cache could be made: {process}")
    return int(process.shown)


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong with each of so many damaged caches; "" where nothing did."""
    whole = folder / "whole" / "cache"
    trials = made(whole)
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        where = folder / f"{number}"
        shutil.copytree(whole, where / "cache")
        yield _read(where / "cache", _damaged(where / "cache", rng), trials)
        shutil.rmtree(where, ignore_errors=True)


def read_where_all_programs_are(way: str, cache: Path, trials: int) -> str:
    """What goes wrong with a cache whose programs are all damaged in one way."""
    rng = random.Random(0)
    for file in _files(cache / "programs"):
        WAYS[way](file, rng, cache)
    return _read(cache, f"programs: {way}", trials, times=("first",))


def _damaged(cache: Path, rng: random.Random) -> str:
    """Damages a cache; what was done."""
    if rng.random() < 0.35:
        return f"store: {_hostile_store(cache / 'tuning.sqlite3', rng)}"
    file = rng.choice(_files(cache))
    way = rng.choice(list(WAYS))
    WAYS[way](file, rng, cache)
    return f"{file.relative_to(cache)}: {way}"


def _read(cache: Path, damage: str, trials: int, times: Sequence[str] = ("first", "second")) -> str:
    """What went wrong in a process that reads a damaged cache, and in the next one."""
    for time in times:
        process = ended(started(_READER, cache))
        if not process.is_clean():
            return f"{damage}, {time} process: {process}"
        if damage.startswith("programs") and int(process.shown) != trials:
            return f"{damage}: {process.shown} trials of {trials} are left"
        if (cache.parent / "marker").exists():
            return f"{damage}: what it says was run"
    return ""
