"""Ends of processes at random moments, while daemon threads make first calls and compile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.api.survival.programs import ended, started

_PROGRAM = """
import threading, time

def work():
    while True:
        new()

for _ in range(int(sys.argv[1])):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[3]))
"""


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong with each of so many ends; "" where nothing did."""
    rng = random.Random(seed)
    for _ in range(count):
        code = rng.choice((0, 3))
        pause = round(rng.uniform(0, 0.6), 3)
        process = ended(started(_PROGRAM, folder / "cache", rng.choice((1, 2)), pause, code))
        yield "" if process.is_clean(code) else f"after {pause} s with {code}: {process}"
