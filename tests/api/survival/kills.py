"""Kills of runs that tune or compute, at random moments, and what is left in the store.

Every trial whose recording had returned must be there, and the store must open.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

from mdtensor.autotune.store.store import FILE_NAME, Store
from mdtensor.lower.schedule.schedule import Schedule
from tests import children
from tests.api.survival.programs import ended, started

VICTIM = """
import sys
import mdtensor as mdt
from mdtensor.autotune.store.store import FILE_NAME, Store

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
    before = rows_in(folder)
    with children.started("-c", VICTIM, env={"MDTENSOR_CACHE_DIR": folder}) as victim:
        assert victim.stdout is not None
        seen = [victim.stdout.readline() for _ in range(trials)]
        time.sleep(pause_s)
        victim.kill()
        rest = children.finished(victim).out
    lines = [line for line in (*seen, *rest.splitlines(keepends=True)) if line.endswith("\n")]
    return int(lines[-1]), rows_in(folder) - before


def rows_in(folder: Path) -> int:
    """The number of trials in the store, each of which must be readable."""
    with Store.open(folder / FILE_NAME) as store:
        assert store.trouble is None
        rows = [
            row for entry in store.ls() for row in store.trials(entry.problem, entry.environment)
        ]
    for row in rows:
        Schedule.from_json(row.schedule)
    return len(rows)


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong with each of so many kills; "" where nothing did.

    No reported trial may be lost, and at most one be there beyond those reported. Every other
    process computes only, and is killed at any moment; the next one must not notice.
    """
    rng = random.Random(seed)
    for number in range(count):
        if number % 2:
            yield _killed_while_it_computes(folder / "cache", rng.uniform(0.0, 1.0))
            continue
        trials, seconds = rng.randint(1, 6), rng.uniform(0.0, 0.6)
        reported, kept = kill_once(folder / "cache", trials, seconds)
        is_whole = trials <= reported <= kept <= reported + 1
        when = f"after {trials} trials and {seconds:.2f} s"
        yield "" if is_whole else f"{when}, {reported} reported, {kept} kept"


def _killed_while_it_computes(cache: Path, pause_s: float) -> str:
    victim = started("while True: known(); new()", cache)
    time.sleep(pause_s)
    victim.kill()
    trouble = victim.communicate()[1]
    after = ended(started("known(); new()", cache))
    if trouble or not after.is_clean():
        return f"killed after {pause_s:.2f} s: {trouble}; the next process: {after}"
    return ""
