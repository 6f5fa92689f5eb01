"""The store: what it keeps, what replaces what, and who may use it at once."""

import gc
import json
import re
import sqlite3
import stat
import time
from functools import partial

import pytest

from mdtensor.autotune.store import sqlite_backend
from mdtensor.autotune.store.files_backend import FilesBackend
from mdtensor.autotune.store.rows import TrialRow, canonical_schedule
from mdtensor.autotune.store.sqlite_backend import SqliteBackend
from mdtensor.autotune.store.store import Imported, Store
from mdtensor.autotune.trial import Trial
from mdtensor.errors import StoreError
from mdtensor.paths import cache_directory
from tests import children
from tests.hurried import at_once

PROBLEM, HERE, THERE = "md_hom[i:64](mul)", "cpu-1", "gpu-1"


@pytest.fixture(params=["sqlite", "files", "memory"])
def store(request, tmp_path):
    shelves = {
        "sqlite": lambda: Store.open(tmp_path / "a.sqlite3"),
        "files": lambda: Store(FilesBackend(tmp_path / "a.d"), tmp_path / "a.d"),
        "memory": Store.in_memory,
    }
    with shelves[request.param]() as opened:
        yield opened


def facts(row: TrialRow):
    return (row.schedule, row.status, row.seconds, row.spread, row.detail)


def test_trials_come_back_in_order(store):
    store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 2e-6, 1e-7))
    store.record_trial(PROBLEM, HERE, {"tile": 9}, Trial("compile_error", detail="line 3: ünknown"))
    store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 3e-6))
    store.record_trial(PROBLEM, THERE, {"tile": 8}, Trial("ok", 1e-6))
    assert [facts(row) for row in store.trials(PROBLEM, HERE)] == [
        ('{"tile":8}', "ok", 2e-6, 1e-7, ""),
        ('{"tile":9}', "compile_error", None, None, "line 3: ünknown"),
        ('{"tile":8}', "ok", 3e-6, None, ""),
    ]
    assert store.trials("another", HERE) == []
    assert abs(store.trials(PROBLEM, HERE)[0].created - time.time()) < 60


def test_what_ran_untuned_is_kept_beside_the_winner(store):
    assert store.untuned(PROBLEM, HERE) is None
    store.keep_untuned(PROBLEM, HERE, {"tile": 8}, 2e-6)
    store.keep_untuned(PROBLEM, HERE, {"tile": 9}, 3e-6)
    store.keep_untuned(PROBLEM, HERE, {"tile": 9}, float("inf"))
    kept = store.untuned(PROBLEM, HERE)
    assert (kept.schedule, kept.seconds) == ('{"tile":9}', 3e-6)
    assert store.untuned(PROBLEM, THERE) is None
    assert store.trials(PROBLEM, HERE) == []
    assert store.winner(PROBLEM, HERE) is None


def test_whatever_a_compiler_says_can_be_stored_and_exported(store, tmp_path):
    detail = "caf\udce9 " + "x" * 100_000
    store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 1e-6, float("inf"), detail))
    (row,) = store.trials(PROBLEM, HERE)
    assert row.spread is None
    assert row.detail.startswith("caf? x")
    assert len(row.detail) == 10_000
    assert store.export(tmp_path / "rows.jsonl") == 1


def test_winners_of_an_environment_come_oldest_first(store):
    for number, (problem, environment) in enumerate([("b", HERE), ("a", HERE), ("a", THERE)]):
        store.set_winner(problem, environment, {"tile": number}, seconds=1.0)
    assert [row.problem for row in store.winners(HERE)] == ["b", "a"]
    assert [row.schedule for row in store.winners(THERE)] == ['{"tile":2}']
    assert store.winners("elsewhere") == []


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_a_winner_needs_its_time(store, seconds):
    with pytest.raises(StoreError, match="needs its time"):
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "trials", "replaces"),
    [(1e-6, 1, True), (3e-6, 99, False), (3e-6, 100, True), (2e-6, 100, True), (2e-6, 5, False)],
)
def test_a_faster_or_equal_effort_winner_replaces(store, seconds, trials, replaces):
    store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6, trials=100, confirmed=True)
    found = store.set_winner(PROBLEM, HERE, {"tile": 9}, seconds=seconds, trials=trials)
    assert found == store.winner(PROBLEM, HERE)
    assert found.schedule == ('{"tile":9}' if replaces else '{"tile":8}')
    assert found.confirmed is (not replaces)


def test_another_environment_is_a_hint_never_a_hit(store):
    store.set_winner(PROBLEM, THERE, {"tile": 8}, seconds=1e-6)
    store.set_winner(PROBLEM, "gpu-2", {"tile": 4}, seconds=2e-6)
    assert store.winner(PROBLEM, HERE) is None
    assert [row.environment for row in store.hints(PROBLEM, HERE)] == ["gpu-2", THERE]
    assert [row.environment for row in store.hints(PROBLEM, THERE)] == ["gpu-2"]
    assert store.hints("another") == []


def test_ls_has_one_entry_per_problem_and_environment(store):
    store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 2e-6))
    store.record_trial(PROBLEM, HERE, {"tile": 9}, Trial("wrong"))
    store.set_winner(PROBLEM, THERE, {"tile": 4}, seconds=2e-6)
    store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6, trials=2)
    entries = store.ls()
    found = [(each.environment, each.trials, each.ok, each.winner.schedule) for each in entries]
    assert found == [(THERE, 0, 0, '{"tile":4}'), (HERE, 2, 1, '{"tile":8}')]


def test_prune_removes_what_matches_everything_given(store):
    for environment in (HERE, THERE):
        store.record_trial(PROBLEM, environment, {"tile": 8}, Trial("ok", 2e-6))
        store.set_winner(PROBLEM, environment, {"tile": 8}, seconds=2e-6)
    assert store.prune(older_than_s=3600) == 0
    assert store.prune(environment=THERE, problem="another") == 0
    assert store.prune(environment=THERE) == 2
    assert [entry.environment for entry in store.ls()] == [HERE]
    assert store.prune(older_than_s=-1) == 2
    assert store.ls() == []
    with pytest.raises(StoreError, match="prune what"):
        store.prune()


def test_export_and_import_keep_every_row_once(store, tmp_path):
    store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 2e-6, 1e-7))
    store.record_trial(PROBLEM, HERE, {"tile": 9}, Trial("timeout", detail="line\nbreak \u2028"))
    store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6, trials=2, confirmed=True)
    file = tmp_path / "rows.jsonl"
    assert store.export(file) == 3
    with Store.in_memory() as other:
        assert other.import_(file) == Imported(3)
        assert other.import_(file) == Imported(3)
        assert other.trials(PROBLEM, HERE) == store.trials(PROBLEM, HERE)
        assert other.winner(PROBLEM, HERE) == store.winner(PROBLEM, HERE)
    assert store.import_(file) == Imported(3)
    assert len(store.trials(PROBLEM, HERE)) == 2


def test_import_does_not_replace_a_faster_winner(store, tmp_path):
    with Store.in_memory() as other:
        other.set_winner(PROBLEM, HERE, {"tile": 4}, seconds=5e-6, trials=3)
        other.export(tmp_path / "rows.jsonl")
    store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6, trials=9)
    store.import_(tmp_path / "rows.jsonl")
    assert store.winner(PROBLEM, HERE).schedule == '{"tile":8}'


def exported_lines(tmp_path):
    with Store.in_memory() as other:
        for tile in range(3):
            other.record_trial(PROBLEM, HERE, {"tile": tile}, Trial("ok", 2e-6))
        other.set_winner(PROBLEM, HERE, {"tile": 1}, seconds=2e-6)
        other.export(tmp_path / "rows.jsonl")
    return (tmp_path / "rows.jsonl").read_text().splitlines()


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "fine"}, "field 'status' cannot be 'fine'"),
        ({"status": ["ok"]}, r"field 'status' cannot be \['ok'\]"),
        ({"seconds": "2e-6"}, "field 'seconds' cannot be '2e-6'"),
        ({"seconds": None}, "a trial that is ok needs its seconds"),
        ({"seconds": -1}, "field 'seconds'"),
        ({"seconds": float("nan")}, "field 'seconds'"),
        ({"problem": ""}, "field 'problem'"),
        ({"schedule": "tile 8"}, "a schedule must be JSON"),
        ({"schedule": "[8]"}, "a schedule must be JSON: it is not a mapping"),
        ({"kind": "pickle"}, "unknown kind 'pickle'"),
        ({"kind": []}, "unknown kind"),
        ({"created": 10**400}, "field 'created'"),
        ({"detail": "\ud800"}, "field 'detail'"),
        ({"code": "x"}, "missing or unknown fields of a trial: code"),
    ],
)
def test_import_refuses_what_is_no_row_and_takes_the_rest(store, tmp_path, change, message):
    lines = exported_lines(tmp_path)
    lines[2] = json.dumps({**json.loads(lines[2]), **change})
    (tmp_path / "bad.jsonl").write_text("\n".join(lines))
    found = store.import_(tmp_path / "bad.jsonl")
    assert [each.line for each in found.refused] == [3]
    assert re.match(message, found.refused[0].reason)
    assert found.rows == 3
    assert len(store.trials(PROBLEM, HERE)) == 2
    assert store.winner(PROBLEM, HERE).schedule == '{"tile":1}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: not an exported store"),
        ('{"kind": "mdtensor store", "version": 2}\n', "line 1: not an exported store"),
        ("{}\n{header}\n", "line 1: not an exported store"),
    ],
)
def test_import_refuses_other_files(store, tmp_path, text, message):
    header = '{"kind": "mdtensor store", "version": 1}'
    (tmp_path / "bad.jsonl").write_text(text.replace("{header}", header))
    with pytest.raises(StoreError, match=message):
        store.import_(tmp_path / "bad.jsonl")
    with pytest.raises(StoreError, match="cannot read"):
        store.import_(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("missing/rows.jsonl", "No such file or directory"),
        ("/", "it is no file"),
        ("folder", "Is a directory"),
        ("nul\0", "its name has a null character"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_said(store, tmp_path, file, reason):
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError) as caught:
        store.export(tmp_path / file)
    assert caught.value.message == f"cannot write {tmp_path / file}: {reason}"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("line", ["{", "7", "[" * 100_000, "x" * 1_000_000])
def test_a_line_that_is_no_row_is_refused(store, tmp_path, line):
    header = '{"kind": "mdtensor store", "version": 1}'
    (tmp_path / "bad.jsonl").write_text(f"{header}\n{line}\n")
    found = store.import_(tmp_path / "bad.jsonl")
    assert found.rows == 0
    assert [each.line for each in found.refused] == [2]


def test_schedules_have_one_text():
    assert canonical_schedule('{"b": [1, 2], "a": true}') == '{"a":true,"b":[1,2]}'
    assert canonical_schedule({"b": (1, 2), "a": True}) == '{"a":true,"b":[1,2]}'
    for bad in ({"a": {1}}, {"a": float("nan")}, "{", "7"):
        with pytest.raises(StoreError, match="a schedule must be JSON"):
            canonical_schedule(bad)


def test_the_place_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path / "own"))
    assert cache_directory() == tmp_path / "own"
    with Store.open() as store:
        assert store.path == tmp_path / "own" / "tuning.sqlite3"
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700
    monkeypatch.delenv("MDTENSOR_CACHE_DIR")
    assert cache_directory() == tmp_path / "xdg" / "mdtensor"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == tmp_path / "home" / ".cache" / "mdtensor"


def test_opening_a_store_that_is_there_makes_nothing(tmp_path, monkeypatch):
    with Store.open(tmp_path) as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
    statements = []
    connect = sqlite3.connect

    def traced(*given, **options):
        connection = connect(*given, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    with Store.open(tmp_path) as store:
        assert store.winner(PROBLEM, HERE).seconds == 2e-6
    assert 0 < len(statements) < 12, statements
    assert {each.split()[0].lower() for each in statements} <= {
        *("pragma", "select"),
        *("begin", "rollback"),
    }


def test_a_reader_does_not_wait_for_a_writer(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_backend, "BUSY_SECONDS", 0.0)  # whoever has to wait, fails
    with Store.open(tmp_path) as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
        writer = sqlite3.connect(store.path, isolation_level=None)
        writer.execute("begin immediate")
        writer.execute("delete from winners")
        assert store.winner(PROBLEM, HERE).seconds == 2e-6
        writer.execute("rollback")
        writer.close()
        assert store.trouble is None


def test_threads_share_a_store(store):
    def record(thread):
        for tile in range(20):
            store.record_trial(PROBLEM, f"cpu-{thread}", {"tile": tile}, Trial("ok", 1e-6))
            store.winner(PROBLEM, HERE)

    at_once(*(partial(record, each) for each in range(4)))
    assert [entry.trials for entry in store.ls()] == [20] * 4


FORKING = """
import os, sys
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial
store = Store.open(sys.argv[1])
def records(tile):
    store.record_trial("p", "e", {"tile": tile}, Trial("ok", 1e-6))
records(1)
if (child := os.fork()) == 0:
    records(2)
    store.close()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
records(3)
print(len(store.trials("p", "e")))
"""


@pytest.mark.process
def test_a_forked_child_uses_a_connection_of_its_own(tmp_path):
    assert children.run("-c", FORKING, tmp_path).out == "3\n"


def test_connections_are_reused():
    shelf = SqliteBackend(None)
    assert len(shelf._idle) == 1
    shelf.winners()
    assert len(shelf._idle) == 1
    shelf.close()


def test_a_store_without_rows_is_an_empty_file_until_it_is_written_to(tmp_path):
    store, other = Store.open(tmp_path), Store.open(tmp_path)
    assert store.winner("a", "cpu") is store.choice("b") is None
    assert not store.trials("a", "cpu")
    assert not store.ls()
    assert store.state() == "empty"
    assert (tmp_path / "tuning.sqlite3").stat().st_size == 0
    assert not store._shelf._idle
    other.set_winner("a", "cpu", {"tile": 8}, seconds=1.0)
    assert store.state() not in ("empty", None)
    assert store.winner("a", "cpu").schedule == '{"tile":8}'


def test_a_store_that_is_forgotten_closes_its_connections(tmp_path):
    store = Store.open(tmp_path)
    store.set_winner("a", "cpu", {}, seconds=1.0)
    [(connection, _)] = store._shelf._idle
    store.itself = store
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")
