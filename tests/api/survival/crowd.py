"""Many processes that begin at once on one empty cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.api.survival.programs import ended, started

_PROGRAM = "known(); new(); known()"


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong in each of so many processes; "" where nothing did."""
    del seed
    processes = [started(_PROGRAM, folder / "cache") for _ in range(count)]
    for process in map(ended, processes):
        yield "" if process.is_clean() else str(process)
