"""Campaigns of what processes and caches must survive; one line for each kind, and what failed.

`python -m tests.api.survival --kills 1000 --forks 1000 --exits 1000 --crowd 64 --damage 500
--interrupts 3000`
ends with exit code 1 where anything hung, crashed, was lost or wrong. `--report FILE` keeps it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.machine import facts
from tests.api.survival import crowd, damage, exits, forks, interrupts, kills

CAMPAIGNS: dict[str, Callable[[int, int, Path], Iterator[str]]] = {
    "kills": kills.survived,
    "forks": forks.survived,
    "kernels": forks.survived_beside_kernels,
    "ends": forks.survived_ends,
    "exits": exits.survived,
    "crowd": crowd.survived,
    "damage": damage.survived,
    "interrupts": interrupts.survived,
}

_KEPT = 25  # tries after which a report is written


def campaign(
    name: str, count: int, seed: int, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """The outcome of so many tries of one kind, as the report has it; kept on the way, too."""
    began = time.monotonic()

    def outcome() -> dict[str, Any]:
        seconds = round(time.monotonic() - began, 1)
        return {"seed": seed, "tries": tries, "failures": failures, "seconds": seconds}

    with tempfile.TemporaryDirectory(prefix="mdtensor-survival-") as folder:
        failures: list[str] = []
        tries = 0
        for reason in CAMPAIGNS[name](count, seed, Path(folder)):
            tries += 1
            if reason:
                failures.append(reason)
                print(f"{name} {tries}: {reason}", flush=True)
            if tries % _KEPT == 0:
                keep(outcome())
    found = outcome()
    print(f"{name}: {tries} tries, {len(failures)} failed, {found['seconds']} s", flush=True)
    keep(found)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Runs the campaigns that are asked for; 1 where any try failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.api.survival", description=__doc__)
    for name in CAMPAIGNS:
        parser.add_argument(f"--{name}", type=int, default=0, help="tries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="a file of JSON to write")
    options = parser.parse_args(arguments)
    report: dict[str, Any] = facts()

    def keep(found: dict[str, Any]) -> None:
        report[name] = found
        if options.report is not None:
            options.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    for name in CAMPAIGNS:
        if count := getattr(options, name):
            campaign(name, count, options.seed, keep)
    return int(any(report[name]["failures"] for name in CAMPAIGNS if name in report))


if __name__ == "__main__":
    sys.exit(main())
