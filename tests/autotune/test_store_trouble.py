"""The store where its place is no good: full, read-only, damaged, foreign or on a network."""

import shutil
import sqlite3
import threading
import warnings
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from mdtensor import errors
from mdtensor.autotune.store import sqlite_backend
from mdtensor.autotune.store import store as store_module
from mdtensor.autotune.store.files_backend import FilesBackend, is_on_network
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial
from mdtensor.errors import StoreError, StoreWarning
from tests import children

PROBLEM, HERE = "md_hom[i:64](mul)", "cpu-1"


@pytest.fixture(autouse=True)
def forget_warnings():
    errors._told.clear()


def check_damage_was_told(caught, path):
    """One warning, which says what became of the file."""
    (warning,) = caught
    (aside,) = path.parent.glob(f"{path.name}.corrupt-*")
    assert str(warning.message) == (
        f"the store {path} was damaged; it begins anew\n  hint: moved to {aside}"
    )
    return aside


def check_memory_store(store):
    assert store.path is None
    assert isinstance(store.trouble, StoreError)
    store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 2e-6))
    assert len(store.trials(PROBLEM, HERE)) == 1
    assert repr(store) == "Store(in memory)"


def test_an_impossible_place_gives_a_store_in_memory_and_one_warning(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.warns(StoreWarning, match="cannot be used") as caught:
        store = Store.open(tmp_path / "file" / "deeper" / "a.sqlite3")
    assert isinstance(caught[0].message.error, StoreError)
    check_memory_store(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Store.open(tmp_path / "file" / "deeper" / "a.sqlite3").close()
    store.close()


def test_a_read_only_store_still_serves_its_winners(tmp_path, monkeypatch):
    with Store.open(tmp_path / "a.sqlite3") as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
    connect = sqlite3.connect

    def read_only(path, **options):
        if path == ":memory:" or options.get("uri"):
            return connect(path, **options)
        return connect(f"file:{path}?mode=ro", uri=True, **options)

    # Permissions do not stop the superuser, under whom tests may run.
    monkeypatch.setattr(sqlite3, "connect", read_only)
    with Store.open(tmp_path / "a.sqlite3") as store:
        with pytest.warns(StoreWarning, match="readonly"):
            store.record_trial(PROBLEM, HERE, {"tile": 9}, Trial("ok", 1e-6))
        assert store.winner(PROBLEM, HERE).schedule == '{"tile":8}'
        assert [row.schedule for row in store.trials(PROBLEM, HERE)] == ['{"tile":9}']


FULL_DISK = """
import resource, sys, warnings
from mdtensor.autotune.store.store import Store
from mdtensor.errors import StoreWarning
from mdtensor.autotune.trial import Trial
warnings.simplefilter("always")
store = Store.open(sys.argv[1])
store.set_winner("p", "e", {"tile": 8}, seconds=2e-6)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
with warnings.catch_warnings(record=True) as caught:
    for at in range(300):
        store.record_trial("p", "e", {"tile": at}, Trial("wrong", detail="x" * 5000))
assert [each.category for each in caught] == [StoreWarning], caught
assert store.path is None and store.winner("p", "e").seconds == 2e-6
print(len(store.trials("p", "e")))
"""


@pytest.mark.process
def test_a_full_disk_gives_a_store_in_memory_and_one_warning(tmp_path):
    in_memory = int(children.run("-c", FULL_DISK, tmp_path / "a.sqlite3").out)
    with Store.open(tmp_path / "a.sqlite3") as store:
        on_disk = len(store.trials("p", "e"))
    assert 0 < in_memory < 300
    assert on_disk + in_memory == 300


def test_a_file_that_another_program_locks_is_done_without(tmp_path, monkeypatch):
    with Store.open(tmp_path / "a.sqlite3") as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
    waits = []
    clock = SimpleNamespace(monotonic=lambda: float(len(waits)), sleep=waits.append)
    monkeypatch.setattr(sqlite_backend, "time", clock)
    with closing(sqlite3.connect(tmp_path / "a.sqlite3", isolation_level=None)) as other:
        other.execute("pragma locking_mode = exclusive")
        other.execute("begin exclusive")
        other.execute("delete from winners")
        with pytest.warns(StoreWarning, match="another program has locked it") as caught:
            store = Store.open(tmp_path / "a.sqlite3")
    assert "end that program" in str(caught[0].message)
    assert store.path is None
    assert len(waits) == sqlite_backend.OPENING_SECONDS + 1
    store.close()


@pytest.mark.parametrize("damage", ["not a database", "pages"])
def test_a_damaged_file_is_moved_aside_and_begun_anew(tmp_path, damage):
    path = tmp_path / "a.sqlite3"
    with Store.open(path) as store:
        for tile in range(300):
            store.record_trial(PROBLEM, HERE, {"tile": tile}, Trial("ok", 2e-6, detail="x" * 200))
    content = bytearray(path.read_bytes())
    if damage == "pages":
        content[4096:] = b"\xff" * (len(content) - 4096)
    else:
        content[:100] = b"not a database" + bytes(86)
    path.write_bytes(content)
    with pytest.warns(StoreWarning) as caught:
        store = opened_and_used(path)
    assert len(store.trials(PROBLEM, HERE)) == 1
    assert store.path == path
    store.close()
    assert check_damage_was_told(caught, path).read_bytes() == content


def test_damage_that_shows_later_does_not_reach_the_caller(tmp_path):
    path = tmp_path / "a.sqlite3"
    with Store.open(path) as store:
        for tile in range(300):
            store.record_trial(PROBLEM, HERE, {"tile": tile}, Trial("ok", 2e-6, detail="x" * 200))
    with Store.open(path) as store:
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (path.stat().st_size - 4096))
        with pytest.warns(StoreWarning, match="damaged"):
            found = store.trials(PROBLEM, HERE)
        assert found == []
        assert store.path == path


def test_a_newer_format_is_not_touched(tmp_path):
    path = tmp_path / "a.sqlite3"
    Store.open(path).close()
    newer = sqlite3.connect(path)
    newer.execute("pragma user_version = 99")
    newer.execute("pragma journal_mode = delete")
    newer.close()
    content = path.read_bytes()
    with pytest.warns(StoreWarning, match="format 99, newer than 2"):
        store = Store.open(path)
    check_memory_store(store)
    assert "update mdtensor" in store.trouble.hint
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_not_touched(tmp_path):
    path = tmp_path / "a.sqlite3"
    foreign = sqlite3.connect(path)
    foreign.execute("create table recipes (name text)")
    foreign.close()
    content = path.read_bytes()
    with pytest.warns(StoreWarning, match="another program"):
        store = Store.open(path)
    check_memory_store(store)
    assert path.read_bytes() == content


MOUNTS = """\
/dev/vda / ext4 rw 0 0
nas:/home /home nfs4 rw 0 0
/dev/vdb /home/ada/fast ext4 rw 0 0
//nas/x /mnt/a\\040b cifs rw 0 0
tmpfs /home/eve tmpfs rw 0 0
"""


def _written(path):
    with Store.open(path) as other:
        other.set_winner("b", "cpu", {}, seconds=1.0)


@pytest.mark.parametrize("statement", range(1, 8))
def test_another_creates_it_between_two_statements(tmp_path, monkeypatch, statement):
    path, connect, other = tmp_path / "a.sqlite3", sqlite3.connect, []

    class Interrupted(sqlite3.Connection):
        executed = 0

        def execute(self, *arguments):
            self.executed += 1
            if self.executed == statement:
                monkeypatch.setattr(sqlite3, "connect", connect)
                other.append(threading.Thread(target=lambda: _written(path)))
                other[0].start()
                other[0].join(0.2)  # or it waits for us
            return super().execute(*arguments)

    monkeypatch.setattr(sqlite3, "connect", partial(connect, factory=Interrupted))
    with Store.open(path) as store:
        store.set_winner("a", "cpu", {}, seconds=1.0)
        assert store.path == path
        assert store.trouble is None
        assert store.winner("a", "cpu") is not None
    other[0].join()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/cache", False),
        ("/home/ada/.cache", True),
        ("/home/ada/fast/cache", False),
        ("/home/ada/faster", True),
        ("/mnt/a b/cache", True),
        ("/home/eve/.cache", False),
        ("/homework", False),
    ],
)
def test_network_file_systems_are_told_from_the_mounts(path, expected):
    assert is_on_network(Path(path), MOUNTS) is expected


def test_a_network_file_system_gets_one_file_per_row(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "is_on_network", lambda path: True)
    with Store.open(tmp_path) as store:
        assert store.path == tmp_path / "tuning.d"
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
    with Store.open(tmp_path) as store:
        assert store.winner(PROBLEM, HERE).seconds == 2e-6
    assert not list(tmp_path.glob("*.sqlite3*"))


def test_a_torn_file_is_a_miss(tmp_path):
    shelf = FilesBackend(tmp_path / "a.d")
    store = Store(shelf, shelf.path)
    store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
    (place,) = shelf.path.glob("*/*/winner.json")
    whole = place.read_text()
    for length in range(len(whole)):
        place.write_text(whole[:length])
        assert store.winner(PROBLEM, HERE) is None
    place.write_bytes(b"\xff\xfe")
    assert store.winner(PROBLEM, HERE) is None
    store.set_winner(PROBLEM, HERE, {"tile": 9}, seconds=9e-6)
    assert store.winner(PROBLEM, HERE).schedule == '{"tile":9}'


def test_a_lost_directory_of_files_is_survived(tmp_path):
    shelf = FilesBackend(tmp_path / "a.d")
    store = Store(shelf, shelf.path)
    shutil.rmtree(shelf.path)
    (tmp_path / "a.d").write_text("in the way")
    with pytest.warns(StoreWarning, match="cannot be used"):
        store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 2e-6))
    assert len(store.trials(PROBLEM, HERE)) == 1


def opened_and_used(path):
    store = Store.open(path)
    store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 2e-6))
    return store


@pytest.mark.parametrize(
    "statement",
    [
        "create trigger t after insert on trials begin delete from winners; end",
        "drop table winners",
        "alter table winners add column more text",
        "alter table trials rename column detail to other",
        "create view v as with recursive n(x) as (select 1 union all select x from n) select x",
        "drop index trials_by_key",
    ],
)
def test_other_tables_than_a_stores_are_set_aside(tmp_path, statement):
    path = tmp_path / "a.sqlite3"
    _written(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            statement.replace("select x from n) select x", "select x from n) select x from n")
        )
    with pytest.warns(StoreWarning) as caught:
        store = opened_and_used(path)
    check_damage_was_told(caught, path)
    assert len(store.trials(PROBLEM, HERE)) == 1
    assert store.path == path
    store.close()


def test_a_text_that_is_no_utf_8_does_not_reach_the_caller(tmp_path):
    path = tmp_path / "a.sqlite3"
    with Store.open(path) as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
    content = path.read_bytes()
    assert b"CREATE TABLE winners" in content
    path.write_bytes(content.replace(b"CREATE TABLE winners", b"CREATE TABLE \xff\xfenners"))
    with pytest.warns(StoreWarning) as caught:
        store = opened_and_used(path)
    check_damage_was_told(caught, path)
    assert len(store.trials(PROBLEM, HERE)) == 1
    store.close()
    path.unlink()
    with Store.open(path) as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
        with store._shelf._writing() as connection:
            connection.execute("update winners set schedule = cast(x'ff00fe' as text)")
        with pytest.warns(StoreWarning, match="damaged|cannot be used"):
            assert store.winner(PROBLEM, HERE) is None


@pytest.mark.parametrize(
    "change",
    [
        *("seconds = 'soon'", "seconds = -1.0", "seconds = 9e999", "trials = 1.5", "trials = -1"),
        *(
            "confirmed = 2",
            "confirmed = 'yes'",
            "created = x'00'",
            "environment = 'cpu-1' || x'00'",
        ),
        *("schedule = x'7b7d'", "search_seconds = 'x'", "trials = x'01'"),
    ],
)
def test_a_row_that_is_none_is_dropped_and_counted(tmp_path, change):
    with Store.open(tmp_path / "a.sqlite3") as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
        store.set_winner("another", HERE, {"tile": 8}, seconds=2e-6)
        with store._shelf._writing() as connection:
            connection.execute("pragma ignore_check_constraints = on")
            connection.execute(f"update winners set {change} where problem = ?", (PROBLEM,))
        assert store.winner(PROBLEM, HERE) is None
        assert [entry.problem for entry in store.ls() if entry.winner] == ["another"] or (
            "environment" in change
        )
        assert store.dropped > 0 or "environment" in change
        store.set_winner(PROBLEM, HERE, {"tile": 9}, seconds=9e-6)
        assert store.winner(PROBLEM, HERE).schedule == '{"tile":9}'


def test_a_folder_that_is_removed_in_use_is_made_again(tmp_path):
    path = tmp_path / "cache" / "a.sqlite3"
    with Store.open(path) as store:
        store.record_trial(PROBLEM, HERE, {"tile": 8}, Trial("ok", 2e-6))
        shutil.rmtree(path.parent)
        with pytest.warns(StoreWarning) as caught:
            store.record_trial(PROBLEM, HERE, {"tile": 9}, Trial("ok", 2e-6))
        assert [str(each.message) for each in caught] == [
            f"the store {path} was removed in use; it begins anew"
        ]
        assert store.path == path
        store.set_winner(PROBLEM, HERE, {"tile": 9}, seconds=2e-6)
    with Store.open(path) as store:
        assert [row.schedule for row in store.trials(PROBLEM, HERE)] == ['{"tile":9}']
        assert store.winner(PROBLEM, HERE) is not None


def test_a_store_of_the_first_format_is_taken_over(tmp_path):
    path = tmp_path / "a.sqlite3"
    with Store.open(path) as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("drop table choices")
        database.execute("pragma user_version = 1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = Store.open(path)
        assert store.winner(PROBLEM, HERE).schedule == '{"tile":8}'
        store.keep_choice("key", {"tile": 8}, 1e-6)
        assert store.choice("key").seconds == 1e-6
    store.close()


def test_trials_have_an_end_and_winners_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("MDTENSOR_CACHE_LIMIT", "1M")
    with Store.open(tmp_path / "a.sqlite3") as store:
        store.set_winner(PROBLEM, HERE, {"tile": 8}, seconds=2e-6)
        for tile in range(3000):
            store.record_trial(PROBLEM, HERE, {"tile": tile}, Trial("wrong", detail="x" * 1000))
        rows = store.trials(PROBLEM, HERE)
        assert 100 < len(rows) < 2900
        assert rows[-1].schedule == '{"tile":2999}'
        assert store.winner(PROBLEM, HERE) is not None
