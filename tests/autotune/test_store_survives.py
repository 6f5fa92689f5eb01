"""The store under processes that are killed at any moment, and under many at once."""

import contextlib
import os
import random
import signal
import sqlite3
import time
import warnings

import pytest

from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial
from mdtensor.errors import StoreWarning
from tests import children

pytestmark = pytest.mark.campaign

# Writes a trial and a winner in turn, and says so after each: what it said must survive.
WRITER = """
import os, sys
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial
store = Store.open(sys.argv[1])
at = len(store.trials("p", "e"))
while True:
    at += 1
    store.record_trial("p", "e", {"tile": at}, Trial("ok", 1 / at, detail="x" * (at % 3000)))
    store.set_winner("p", "e", {"tile": at}, seconds=1 / at, trials=at)
    os.write(1, b"%d\\n" % at)
"""

# Opens, records, reads: any exception or warning makes it fail.
MEMBER = """
import sys, warnings
warnings.simplefilter("error")
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial
sys.stdin.readline()
for at in range(int(sys.argv[3])):
    store = Store.open(sys.argv[1])
    for _ in range(5):
        store.record_trial("p", sys.argv[2], {"tile": at}, Trial("ok", 1e-6))
    store.set_winner("p", "shared", {"tile": at}, seconds=1e-6, trials=at)
    assert store.winner("p", "shared") is not None
    assert len(store.trials("p", sys.argv[2])) == 5 * (at + 1)
    store.close()
"""


def killed_at_some_moment(path, rng):
    """Start a writer, kill it at a moment of its work; the last row that it announced."""
    with children.started("-c", WRITER, path) as writer:
        first = writer.stdout.readline()
        assert first, "the writer died by itself"
        time.sleep(rng.uniform(0, 0.02))
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split("\n")
    # The last line may be half written.
    return int(([first.strip(), *rest[:-1]])[-1])


def test_a_kill_at_any_moment_loses_at_most_the_trial_under_way(tmp_path):
    path = tmp_path / "a.sqlite3"
    rng = random.Random(7)
    for _ in range(50):
        announced = killed_at_some_moment(path, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("error", StoreWarning)
            store = Store.open(path)
            tiles = [row.schedule for row in store.trials("p", "e")]
            winner = store.winner("p", "e")
            store.close()
        assert tiles == [f'{{"tile":{at}}}' for at in range(1, len(tiles) + 1)]
        assert len(tiles) in (announced, announced + 1)
        assert winner.schedule in (f'{{"tile":{announced}}}', f'{{"tile":{announced + 1}}}')
    connection = sqlite3.connect(path)
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()
    assert len(tiles) >= 50  # each writer announced one at least


def test_a_kill_while_the_store_is_created_leaves_one_that_opens(tmp_path):
    rng = random.Random(11)
    for at in range(10):
        path = tmp_path / f"{at}.sqlite3"
        with children.started("-c", WRITER, path) as writer:
            while not path.exists() and writer.poll() is None:
                time.sleep(0.0005)
            time.sleep(rng.uniform(0, 0.004))
            writer.kill()
        with warnings.catch_warnings():
            warnings.simplefilter("error", StoreWarning)
            store = Store.open(path)
            assert store.trials("p", "e") is not None
            store.close()


@pytest.mark.parametrize("members", [8])
def test_processes_share_a_store_without_errors_or_lost_rows(tmp_path, members):
    path = tmp_path / "a.sqlite3"
    rounds = 10
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(children.started("-c", MEMBER, path, f"e{at}", str(rounds)))
            for at in range(members)
        ]
        # All begin at once, and race to create the file.
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            end = children.finished(process)
            assert end.code == 0, end.err
    with Store.open(path) as store:
        counts = {entry.environment: entry.trials for entry in store.ls()}
        assert counts == {"shared": 0, **{f"e{at}": 5 * rounds for at in range(members)}}
        assert store.winner("p", "shared").trials == rounds - 1


OTHER = """
import sys
from mdtensor.autotune.store.store import Store
with Store.open(sys.argv[1]) as store:
    print(len(store.trials("p", "e")))
"""


def test_a_second_store_of_a_process_takes_no_locks_from_the_first(tmp_path):
    """Else another process is the last one to close the file, and removes the log in use."""
    path = tmp_path / "a.sqlite3"
    with Store.open(path) as first, Store.open(path):
        for count in range(1, 4):
            first.record_trial("p", "e", {"tile": count}, Trial("ok", 1e-6))
            assert children.run("-c", OTHER, path).out == f"{count}\n"
