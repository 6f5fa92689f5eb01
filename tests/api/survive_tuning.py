"""Kills tuning runs at random moments and looks at what is left in the store.

`python -m tests.api.survive_tuning --kills 50` prints one line a kill. Every trial whose recording
had returned must be there, the store must open, and the worker process must be gone.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mdtensor.autotune.store import Store
from mdtensor.lower.schedule import Schedule

VICTIM = """
import sys
import mdtensor as mdt
from mdtensor.autotune.store import Store

record = Store.record_trial
count = 0

def counted(self, *arguments):
    global count
    record(self, *arguments)
    count += 1
    print(count, flush=True)

Store.record_trial = counted
plan = mdt.compile("ij,jk->ik", mdt.spec((96, 64)), mdt.spec((64, 80)))
plan.tune(600, quiet=True, again=True)
"""


def kill_once(folder: Path, trials: int, pause_s: float) -> tuple[int, int]:
    """Rows that were reported as written, and rows in the store, of one killed run.

    It is killed a moment after so many trials.
    """
    environment = os.environ | {"MDTENSOR_CACHE_DIR": str(folder)}
    before = rows_in(folder)
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )
    assert victim.stdout is not None
    seen = [victim.stdout.readline() for _ in range(trials)]
    time.sleep(pause_s)
    victim.send_signal(signal.SIGKILL)
    rest, _ = victim.communicate()
    lines = [line for line in (*seen, *rest.splitlines(keepends=True)) if line.endswith("\n")]
    return int(lines[-1]), rows_in(folder) - before


def rows_in(folder: Path) -> int:
    """The number of trials in the store, each of which must be readable."""
    with Store.open(folder) as store:
        assert store.trouble is None
        rows = [
            row for entry in store.ls() for row in store.trials(entry.problem, entry.environment)
        ]
    for row in rows:
        Schedule.from_json(row.schedule)
    return len(rows)


def survive(kills: int, seed: int = 0) -> None:
    """Asserts that no reported trial is lost, and at most one is there beyond those reported."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        for number in range(kills):
            trials, seconds = rng.randint(1, 12), rng.uniform(0.0, 0.6)
            reported, kept = kill_once(Path(name), trials, seconds)
            when = f"{trials} trials and {seconds:.2f} s"
            print(f"kill {number}: after {when}, {reported} reported, {kept} kept", flush=True)
            assert trials <= reported <= kept <= reported + 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    survive(parser.parse_args().kills)
