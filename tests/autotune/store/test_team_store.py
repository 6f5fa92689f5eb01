"""The team store: its winners serve behind one's own, and nothing is ever written to it."""

from __future__ import annotations

import os
import sqlite3
import stat
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import errors
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.files_backend import FilesBackend
from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.store.team_store import TeamStore
from mdtensor.errors import StoreWarning
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.paths import TEAM
from tests.autotune.hostile_schedules import hostile_texts

HERE, THERE = "cpu-1", "cpu-2"


@pytest.fixture(autouse=True)
def forget_warnings() -> None:
    errors._told.clear()


def filled(store: Store) -> Store:
    for problem, environment, tile in (("a", HERE, 8), ("b", HERE, 9), ("a", THERE, 7)):
        store.set_winner(problem, environment, {"tile": tile}, seconds=1.0)
    return store


def database(folder: Path) -> Path:
    filled(Store.open(folder / "tuning.sqlite3")).close()
    return folder / "tuning.sqlite3"


def folder_with_a_database(folder: Path) -> Path:
    return database(folder).parent


def rows_by_files(folder: Path) -> Path:
    filled(Store(FilesBackend(folder / "tuning.d"), folder / "tuning.d"))
    return folder


def the_rows_themselves(folder: Path) -> Path:
    return rows_by_files(folder) / "tuning.d"


def lines(folder: Path) -> Path:
    filled(Store.in_memory()).export(folder / "rows.jsonl")
    return folder / "rows.jsonl"


FORMS = [database, folder_with_a_database, rows_by_files, the_rows_themselves, lines]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "team"
    folder.mkdir(mode=0o700)
    return folder


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """What lies in a folder, with sizes and times."""
    found = {path: path.stat() for path in folder.rglob("*")}
    return {str(path): (status.st_size, status.st_mtime_ns) for path, status in found.items()}


@pytest.mark.parametrize("form", FORMS)
def test_winners_serve_behind_ones_own(form: Callable[[Path], Path], folder: Path) -> None:
    path = form(folder)
    before = listing(folder)
    store = Store.open(folder.parent / "own", TeamStore(path))
    store.set_winner("b", HERE, {"tile": 1}, seconds=5.0)
    found = {problem: store.winner(problem, HERE) for problem in "abc"}
    assert [row and row.schedule for row in found.values()] == ['{"tile":8}', '{"tile":1}', None]
    assert store.problems(HERE) == {"a", "b"}
    assert [row.problem for row in store.winners(HERE)] == ["b", "a"]
    assert {row.schedule for row in store.hints("a", HERE)} == {'{"tile":8}', '{"tile":7}'}
    assert [entry.problem for entry in store.ls()] == ["b"], "what is listed is one's own"
    assert listing(folder) == before


def test_a_store_in_use_is_read_with_what_its_log_has(folder: Path) -> None:
    with Store.open(folder) as theirs:
        filled(theirs)
        assert (folder / "tuning.sqlite3-wal").stat().st_size > 0
        store = Store.open(folder.parent / "own", TeamStore(folder))
        assert store.winner("a", HERE) is not None
        theirs.set_winner("c", HERE, {"tile": 1}, seconds=1.0)
        assert store.winner("c", HERE) is None, "it is read once"


def test_ones_own_store_may_be_named_too(tmp_path: Path) -> None:
    path = tmp_path / "tuning.sqlite3"
    with Store.open(path, TeamStore(path)) as store:
        filled(store)
        assert store.winner("c", HERE) is None
        store.set_winner("c", HERE, {"tile": 1}, seconds=1.0)
        assert store.winner("c", HERE) is not None
        with Store.open(path) as other:
            assert other.winner("c", HERE) is not None


def test_files_of_others_that_anybody_may_write_are_read(folder: Path) -> None:
    path = lines(folder)
    path.chmod(0o666)
    folder.chmod(0o777)
    assert TeamStore(path).winner("a", HERE) is not None


def empty(path: Path) -> None:
    path.touch()


def of_another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (x)")
    connection.close()


def with_a_view(path: Path) -> None:
    database(path.parent)
    with sqlite3.connect(path.parent / "tuning.sqlite3") as connection:
        connection.execute("create view v as select 1")
    connection.close()
    (path.parent / "tuning.sqlite3").rename(path)


def torn(path: Path) -> None:
    content = database(path.parent).read_bytes()
    path.write_bytes(content[:4096] + b"\0" * (len(content) - 4096))


WRONG: list[Callable[[Path], object]] = [
    *(empty, of_another_program, with_a_view, torn, os.mkfifo, Path.mkdir),
    lambda path: path.write_bytes(b"\xff" * 100),
    lambda path: path.write_text('{"kind": "another"}\n'),
    lambda path: os.symlink(path, path),
    lambda path: None,
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_cannot_be_read_is_warned_of_once(number: int, folder: Path) -> None:
    path = folder / "store"
    WRONG[number](path)
    store = Store.open(folder.parent / "own", TeamStore(path))
    with pytest.warns(StoreWarning, match=r"the team store .* is not used: ") as caught:
        assert store.winner("a", HERE) is None
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.problems(HERE) == set()
        assert Store.open(folder.parent / "own", TeamStore(path)).winner("a", HERE) is None
    store.set_winner("a", HERE, {"tile": 8}, seconds=1.0)
    assert store.winner("a", HERE) is not None


def test_lines_that_are_no_rows_are_left_out(folder: Path) -> None:
    path = lines(folder)
    with path.open("a") as file:
        file.write('{"kind": "winner"}\nnonsense\n')
    assert len(TeamStore(path).winners()) == 3


def test_calls_run_the_teams_winners_and_drop_hostile_ones(folder: Path) -> None:
    a, b = (np.random.default_rng(0).random(shape, np.float32) for shape in ((20, 31), (31, 40)))
    (md_hom,) = mdt.compile("ij,jk->ik", a, b).md_homs
    device = registry.engine_for().device
    problem = registry.engine_for().problem_of(md_hom)
    environment = registry.engine_for().environment
    texts = [text for _, text in hostile_texts({"asm": "cpu"})][:3]
    for text, origin in [(plain(problem).to_json(), "tuned"), *((each, "") for each in texts)]:
        row = WinnerRow(problem_key(problem), environment, text, 1e-6, 1, 1.0, True)
        team = TeamStore(None)
        team._rows = {(row.problem, row.environment): row}
        store = Store.in_memory()
        store._team = team
        engine = Engine(device, lambda store=store: store)
        choice = engine.choose(md_hom)
        assert choice.origin == origin or not origin
        assert (engine.choose(md_hom).origin == "tuned") == bool(origin)
        choice.program(a, b, result := np.empty((20, 40), np.float32))
        np.testing.assert_allclose(result, a.astype(float) @ b, rtol=1e-5)


def test_the_environment_names_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(folder)
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(folder.parent / "own"))
    for named, winners in ((str(path), 3), ("", 0)):
        monkeypatch.setenv(TEAM, named)
        registry.store.cache_clear()
        try:
            assert len(registry.store().hints("a", HERE) + registry.store().winners(HERE)) == (
                winners + 1 if winners else 0
            )
        finally:
            registry.store().close()
            registry.store.cache_clear()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
