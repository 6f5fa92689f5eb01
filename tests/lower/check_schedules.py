"""Pairs of a random problem and a random schedule by the interpreter, without a compiler.

`python -m tests.lower.check_schedules --count 100000 --workers 16` checks as many pairs, the
families in turn; `--pair 0/gpu/scan/17` shows one. No device and no OpenCL is needed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lower.checker.pairs import (
    FAMILIES,
    NOT_INTERPRETED,
    OF_A_PROBLEM,
    outcome,
    pair_of,
    smallest,
)
from tests.workers import REFUSED, RIGHT

SHOWN = 50  # failures that a report names


@dataclass
class Report:
    """What came of the pairs of each family: counts, and failures by the names of pairs."""

    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    seconds: float = 0.0

    def add(self, name: str, found: str) -> None:
        """Notes what came of a pair."""
        family = "/".join(name.split("/")[1:3])
        kind = found if found in (RIGHT, REFUSED) or found.startswith(NOT_INTERPRETED) else "wrong"
        self.counts.setdefault(family, Counter())[kind] += 1
        if kind == "wrong":
            self.failures[name] = found

    @property
    def total(self) -> int:
        """Number of pairs."""
        return sum(sum(counter.values()) for counter in self.counts.values())

    def __str__(self) -> str:
        lines = [f"{family}: {dict(counter)}" for family, counter in sorted(self.counts.items())]
        lines += [f"{name}: {found}" for name, found in list(self.failures.items())[:SHOWN]]
        lines.append(f"{self.total} pairs, {len(self.failures)} wrong, {self.seconds:.0f} s")
        return "\n".join(lines)


def batches(seed: int, families: Sequence[str], count: int) -> Iterator[list[str]]:
    """Names of pairs, at least `count` in all: those of one problem at a time."""
    for problem in range(-(-count // (OF_A_PROBLEM * len(families)))):
        for family in families:
            first = problem * OF_A_PROBLEM
            yield [f"{seed}/{family}/{n}" for n in range(first, first + OF_A_PROBLEM)]


def check_batch(names: Sequence[str]) -> list[tuple[str, str]]:
    """What comes of some pairs."""
    return [(name, outcome(pair_of(name))) for name in names]


def run(
    seed: int, families: Sequence[str], count: int, workers: int, seconds: float = math.inf
) -> Report:
    """Checks pairs in so many processes, 1 for this one alone, until `seconds` are over."""
    report, begun = Report(), time.monotonic()
    work = batches(seed, families, count)
    if workers == 1:
        _add_all(report, map(check_batch, work), begun + seconds)
    else:
        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            _add_all(report, pool.imap_unordered(check_batch, work, chunksize=4), begun + seconds)
    report.seconds = time.monotonic() - begun
    return report


def _add_all(report: Report, batches: Iterable[list[tuple[str, str]]], deadline: float) -> None:
    for found in batches:
        for name, what in found:
            report.add(name, what)
        if time.monotonic() > deadline:
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="pairs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="no more than so long")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="default: all in turn")
    parser.add_argument("--report", type=Path, help="file for counts and failures, as JSON")
    parser.add_argument("--shrink", type=int, default=5, help="failures that are made smaller")
    parser.add_argument("--pair", help="name of one pair, which is shown and checked")
    options = parser.parse_args()
    if options.pair:
        recipe = pair_of(options.pair)
        print(recipe, outcome(recipe), f"--replay '{recipe.to_json()}'", sep="\n")
        return 0
    families = options.family or FAMILIES
    report = run(options.seed, families, options.count, options.workers, options.seconds)
    print(report)
    for name in list(report.failures)[: options.shrink]:
        recipe = smallest(pair_of(name))
        print(f"{name}: {outcome(recipe)}\n  python -m tests.lower.fuzz --replay", end=" ")
        print(f"'{recipe.to_json()}'")
    if options.report:
        counts = {family: dict(counter) for family, counter in sorted(report.counts.items())}
        found = {"counts": counts, "failures": report.failures, "seconds": report.seconds}
        options.report.write_text(json.dumps(found, indent=1))
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
