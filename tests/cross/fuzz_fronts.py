"""Random calls of `tests.api.fuzz` on emulated processors: all of mdtensor above the kernels.

`python -m tests.cross.fuzz_fronts neoverse-v2 --count 20` makes so many calls of every front end
and compares their results with NumPy's, SciPy's or Python's; `--case neoverse-v2:3/conv/17` makes
those of one case in this process. Kernels are chosen by the cost model for the processor.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache

from mdtensor.api.engine import registry
from mdtensor.backends import select
from tests.api import fuzz
from tests.cross.cross_device import CrossDevice
from tests.cross.emulated import EMULATED
from tests.workers import Workers, parsed


def outcome(name: str) -> str:
    """Makes the calls of a case, as "haswell:3/conv/17"; raises what is wrong with one."""
    processor, _, case = name.partition(":")
    compute_on(processor)
    return fuzz.outcome(case)


@cache  # in this process once: engines keep their devices
def compute_on(processor: str) -> None:
    """Puts an emulated processor in the place of LLVM's device."""
    registry._engines.clear()
    registry.forget()
    found = select.UsableDevice(
        f"emulated {processor}", "numpy", lambda: CrossDevice(processor), "llvm"
    )
    select._llvm_devices = lambda: [found]


def describe(name: str) -> str:
    """What a case is in words."""
    return fuzz.describe(name.partition(":")[2])


def names_of(processor: str, seed: int, count: int) -> list[str]:
    """Names of `count` cases of every front end on a processor."""
    return [
        f"{processor}:{name}" for front in fuzz.FRONTS for name in fuzz.names_of(seed, front, count)
    ]


WORKERS = Workers("tests.cross.fuzz_fronts", describe, slower=5)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("processors", nargs="*", help=f"among {', '.join(EMULATED)}; default: all")
    parser.add_argument("--count", type=int, default=10, help="cases of every front end")
    options = parsed(parser, outcome, describe)
    if options.case:
        print(outcome(options.case))
        return 0
    failures = 0
    for processor in options.processors or EMULATED:
        EMULATED[processor].require()
        report = WORKERS.run(names_of(processor, options.seed, options.count))
        print(f"{processor}: {report}", flush=True)
        failures += len(report.failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
