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


@pytest.mark.campaign
def test_a_kill_at_any_moment_loses_at_most_the_trial_under_way(tmp_path):
    """At random moments, within lines too."""
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


@pytest.mark.campaign
def test_a_kill_while_the_store_is_created_leaves_one_that_opens(tmp_path):
    """At random moments, within lines too."""
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


# Does its work, and kills itself at a line of the store's code; exits where there are not so many.
LINES = """
import os, signal, sys
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial

def work(path, at):
    store = Store.open(path)
    store.record_trial("p", "e", {"tile": at}, Trial("ok", 1e-6))
    os.write(1, b"%d\\n" % at)
    store.set_winner("p", "e", {"tile": at}, seconds=1e-6)
    store.close()

def killed_at(line, path):
    left = line
    def traced(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.endswith("sqlite_backend.py"):
            return None
        left -= event == "line"
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return traced
    sys.settrace(traced)
    work(path, line)

for line, path in enumerate(sys.argv[1:]):
    if not (child := os.fork()):
        killed_at(line, path)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"end {line} {status}", flush=True)
    if status == 0:
        break
"""


@pytest.mark.process
@pytest.mark.parametrize("is_new", [True, False])
def test_a_kill_at_each_line_loses_at_most_the_trial_under_way(tmp_path, is_new):
    """A file for each line while stores are created; else one file for all."""
    paths = [tmp_path / (f"{n}.sqlite3" if is_new else "all.sqlite3") for n in range(1000)]
    said = children.run("-c", LINES, *paths).lines
    ends = [line.split() for line in said if line.startswith("end")]
    assert {status for *_, status in ends[:-1]} == {"-9"}
    assert ends[-1][-1] == "0", "each line was one to be killed at"
    assert len(ends) > 50
    announced = {f'{{"tile":{line}}}' for line in said if not line.startswith("end")}
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", StoreWarning)
        for path in dict.fromkeys(paths[: len(ends)]):
            with Store.open(path) as store:
                tiles = [row.schedule for row in store.trials("p", "e")]
                winner = store.winner("p", "e")
            assert winner is None or winner.schedule in tiles
            found += tiles
            connection = sqlite3.connect(path)
            assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
            connection.close()
    assert len(set(found)) == len(found)
    assert announced <= set(found)
    assert 0 < len(found) - len(announced) < len(ends) / 4, "killed between writing and saying so"


@pytest.mark.campaign
@pytest.mark.parametrize("members", [8])
def test_processes_share_a_store_without_errors_or_lost_rows(tmp_path, members):
    """They wait for each other by the clock."""
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


@pytest.mark.process
def test_a_second_store_of_a_process_takes_no_locks_from_the_first(tmp_path):
    """Else another process is the last one to close the file, and removes the log in use."""
    path = tmp_path / "a.sqlite3"
    with Store.open(path) as first, Store.open(path):
        for count in range(1, 4):
            first.record_trial("p", "e", {"tile": count}, Trial("ok", 1e-6))
            assert children.run("-c", OTHER, path).out == f"{count}\n"
