"""Random cases of `tests.lower.fuzz` on emulated processors, against the oracle.

`python -m tests.cross.fuzz_cross neoverse-v2 --count 500` compiles cases for a processor and runs
them under QEMU: einsums, md_homs (reductions by operators, stencils, scans, records), results far
apart along lanes, and bfloats. Two thirds have random schedules, one that which the cost model
takes for the fastest on the processor. `--case neoverse-v2:0/cpu/17` runs one in this process.
Each is compiled twice, optimised and in haste.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from mdtensor.api.engine.generic_selection import without_parts
from mdtensor.api.engine.kernel_choice import DIALECTS
from mdtensor.lower.search.candidates import ranked
from tests.cross.cross_device import CrossDevice
from tests.cross.emulated import EMULATED
from tests.lower.fuzz import BFLOATS, MD_HOM, TRANSPOSED, Case, check, random_case
from tests.lower.md_hom_cases import MDHomCase
from tests.workers import REFUSED, RIGHT, Workers, parsed

# Kinds of cases, and how many of ten are of one.
_SHARES = (("", 4), (MD_HOM, 4), (TRANSPOSED, 1), (BFLOATS, 1))
# What names of cases end with that run by the schedule that the cost model ranks first.
FAVOURITE = ":favourite"
_KINDS = tuple(kind for kind, share in _SHARES for _ in range(share))


def outcome(name: str) -> str:
    """What comes of the case of a name, as "haswell:0/cpu/17"; raises what its kernel raises."""
    processor, case = name.partition(":")[0], case_of(name)
    devices = [
        partial(CrossDevice, processor, hasty=hasty, whole_pages=True) for hasty in (False, True)
    ]
    language = DIALECTS[EMULATED[processor].processor.target("LLVM").dialect]
    return RIGHT if all(check(case, device, language) for device in devices) else REFUSED


def case_of(name: str) -> Case | MDHomCase:
    """The case of a name, by random schedules or by the processor's favourites."""
    processor, case_name, *by = name.split(":")
    case = random_case(case_name)
    if not by:
        return case
    target = EMULATED[processor].processor.target("LLVM")
    fixed = replace(case, general=False).problems()
    favourites = [ranked(p, target, general=case.general, most=1)[0][1] for p in fixed]
    if case.general:
        favourites = list(map(without_parts, fixed, favourites))
    if isinstance(case, MDHomCase):
        return replace(case, schedules=tuple(favourites))
    return replace(case, schedule=favourites[0])


def describe(name: str) -> str:
    """The case of a name, or why there is none."""
    try:
        return repr(case_of(name))
    except Exception as error:
        return f"no case can be made: {error}"


def names_of(processor: str, seed: int, count: int, first: int = 0) -> list[str]:
    """Names of `count` cases on a processor, of all kinds."""
    return [
        f"{processor}:{seed}/cpu/{number}{_KINDS[number % len(_KINDS)]}"
        + (FAVOURITE if number % 3 == 0 else "")
        for number in range(first, first + count)
    ]


WORKERS = Workers("tests.cross.fuzz_cross", describe, slower=5)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("processors", nargs="*", help=f"among {', '.join(EMULATED)}; default: all")
    parser.add_argument("--count", type=int, default=500)
    options = parsed(parser, outcome, describe)
    if options.case:
        print(describe(options.case))
        print(outcome(options.case))
        return 0
    failures = 0
    for processor in options.processors or EMULATED:
        EMULATED[processor].require()
        report = WORKERS.run(names_of(processor, options.seed, options.count, options.first))
        print(f"{processor}: {report}", flush=True)
        failures += len(report.failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
