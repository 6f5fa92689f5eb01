"""What came of tests: `python -m tests.outcomes FILE` prints failures, reruns and the slowest.

FILE is what runs of pytest wrote where MDTENSOR_TEST_OUTCOMES named it, a line for each stage.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SLOWEST = 40


def summary(lines: list[str]) -> Iterator[str]:
    """The lines to print: names of tests by outcome, and the seconds of the slowest."""
    of_outcome: dict[str, dict[str, None]] = defaultdict(dict)
    seconds: dict[str, float] = defaultdict(float)
    for line in lines:
        test, _, outcome, duration = json.loads(line)
        of_outcome[outcome][test] = None
        seconds[test] += duration
    slowest = sorted(seconds, key=seconds.__getitem__, reverse=True)[:SLOWEST]
    yield f"{len(seconds)} tests took {sum(seconds.values()):.0f} s; the slowest:"
    yield from (f"{seconds[test]:8.1f} s  {test}" for test in slowest)
    for outcome in ("rerun", "failed"):
        yield f"{len(of_outcome[outcome])} {outcome}{':' if of_outcome[outcome] else ''}"
        yield from (f"    {test}" for test in of_outcome[outcome])


if __name__ == "__main__":
    path = Path(sys.argv[1])
    for line in summary(path.read_text(encoding="utf-8").splitlines() if path.exists() else []):
        print(line)
