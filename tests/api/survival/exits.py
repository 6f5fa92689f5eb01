"""Ends of processes at random moments, while daemon threads compile, or wait for kernels."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.api.survival.programs import ended, started

_PROGRAM = """
import threading, time

large = np.ones((200, 200))

def long():
    mdt.einsum("ij,jk->ik", large, large)

call = globals()[sys.argv[4]]

def work():
    while True:
        call()

call()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[3]))
"""


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong with each of so many ends; "" where nothing did."""
    rng = random.Random(seed)
    for number in range(count):
        call = ("new", "long")[number % 2]
        code = rng.choice((0, 3))
        pause = round(rng.uniform(0, 0.6), 3)
        arguments = rng.choice((1, 2)), pause, code, call
        process = ended(started(_PROGRAM, folder / "cache", *arguments))
        yield "" if process.is_clean(code) else f"{call} after {pause} s with {code}: {process}"
