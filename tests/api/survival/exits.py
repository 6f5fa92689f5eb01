"""Ends of processes at random moments, while daemon threads compile, or wait for kernels.

Every other process computes in a handler of its end, too.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tests.api.survival.programs import Process, ended, started

AT_ONCE = 2  # processes: most of one is its begin
_PROGRAM = """
import atexit, threading, time

large = np.ones((200, 200))

def long():
    mdt.einsum("ij,jk->ik", large, large)

call = globals()[sys.argv[4]]

def work():
    while True:
        call()

if sys.argv[5] == "late":  # before the device is opened, so that its own handlers run first
    atexit.register(lambda: (known(), new()))
call()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[3]))
"""


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong with each of so many ends; "" where nothing did."""
    rng = random.Random(seed)
    under_way: deque[tuple[str, int, Process]] = deque()
    for number in range(count):
        call = ("new", "long")[number % 2]
        handler = rng.choice(("late", "none"))
        code = rng.choice((0, 3))
        pause = round(rng.uniform(0, 0.6), 3)
        arguments = rng.choice((1, 2, 4)), pause, code, call, handler
        what = f"{arguments[0]} threads, {call}, {handler}, after {pause} s with {code}"
        under_way.append((what, code, started(_PROGRAM, folder / "cache", *arguments)))
        if len(under_way) == AT_ONCE:
            yield _reason(*under_way.popleft())
    while under_way:
        yield _reason(*under_way.popleft())


def _reason(what: str, code: int, process: Process) -> str:
    end = ended(process)
    return "" if end.is_clean(code) else f"{what}: {end}"
