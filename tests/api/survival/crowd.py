"""Many processes that begin at once on one empty cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.api.survival.programs import LONGEST_S, ended, started

_PROGRAM = "known(); new(); known()"
_SECONDS = 5  # of a process beside the others


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong in each of so many processes; "" where nothing did."""
    del seed
    processes = [started(_PROGRAM, folder / "cache") for _ in range(count)]
    for each in processes:
        process = ended(each, LONGEST_S + count * _SECONDS)
        yield "" if process.is_clean() else str(process)
