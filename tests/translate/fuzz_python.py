"""Random functions of Python for every front end that traces them, against Python itself.

`python -m tests.translate.fuzz_python --count 2000 --seed 3` draws programs as text: what they
compute is compared with the same text run by Python on NumPy's scalars. Most are evaluated by the
reference interpreter of `md_hom`s, every 23rd by compiled kernels. A case is its seed, front
end and number: `--case 3/reduce/17` runs one in this process and prints its text, `--shrink`
prints the shortest program instead that fails in the same way.
"""

from __future__ import annotations

import argparse
import linecache
import os
import random
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import program_calls
from mdtensor.errors import TranslationError
from mdtensor.translate import reference
from tests.translate.programs import data, irregular, loops, reductions, stencils
from tests.translate.programs.shrinking import shortest
from tests.workers import REFUSED, RIGHT, Workers, parsed

FRONTS: Mapping[str, Callable[[random.Random, str], None]] = {
    "reduce": lambda rng, name: reductions.check(rng, name, scans=False),
    "scan": lambda rng, name: reductions.check(rng, name, scans=True),
    "formula": reductions.check_formula,
    "loops": loops.check,
    "directive": loops.check_with_operators,
    "irregular": irregular.check,
    "stencil": stencils.check,
}
COMPILED = 23  # every such case runs on kernels; shares no factor with the count of front ends


def outcome(name: str) -> str:
    """Checks a program; raises what is wrong with it. A typed refusal is counted by its class."""
    _, front, number = name.split("/")
    is_compiled = int(number) % COMPILED == 0
    invalidation.clear()
    program_calls.executor = None if is_compiled else reference.compute
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            FRONTS[front](random.Random(name), name)
        except TranslationError as error:
            return f"{REFUSED}: {type(error).__name__}"
        finally:
            program_calls.executor = None
    return f"{RIGHT}, {'compiled' if is_compiled else 'evaluated'}"


def text_of(name: str) -> str:
    """The text of the program that was checked last under a name."""
    return "".join(linecache.getlines(f"<{name}>"))


def failure_of(name: str) -> str:
    """The class of error that a case fails with; empty where it does not."""
    try:
        outcome(name)
    except Exception as error:
        return type(error).__name__
    return ""


def shrunk(name: str) -> str:
    """The shortest program found that fails as a case does."""
    wanted = failure_of(name)
    if not wanted:
        raise SystemExit(f"{name} does not fail")

    def fails(text: str) -> bool:
        data.replaced[name] = text
        return failure_of(name) == wanted

    failure_of(name)
    found = shortest(text_of(name), fails)
    data.replaced[name] = found
    return found


def describe(name: str) -> str:
    """How to run the case of a name alone."""
    return f"python -m tests.translate.fuzz_python --case {name}"


WORKERS = Workers("tests.translate.fuzz_python", describe)


def names_of(seed: int, count: int, first: int = 0) -> list[str]:
    """Names of `count` cases, the front ends by turns."""
    fronts = list(FRONTS)
    return [f"{seed}/{fronts[n % len(fronts)]}/{n}" for n in range(first, first + count)]


def summary(counts: Counter[str], wrong: int) -> str:
    """Outcomes by kind: right, refused by class, wrong."""
    lines = [f"{count:8} {what}" for what, count in counts.most_common()]
    return "\n".join([*lines, f"{wrong:8} wrong"])


def main() -> int:
    """Runs the cases; 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="programs of all front ends")
    parser.add_argument("--report", type=Path, help="file for the summary")
    parser.add_argument("--shrink", action="store_true", help="shorten the case while it fails")
    options = parsed(parser, outcome, describe)
    if options.case:
        return run_case(options.case, shrink=options.shrink)
    report = WORKERS.run(names_of(options.seed, options.count, options.first), verbose=True)
    text = f"{report}\n{summary(report.counts, len(report.failures))}"
    print(text, flush=True)
    if options.report:
        options.report.write_text(f"{conditions(options.seed, options.count)}\n{text}\n")
    return int(bool(report.failures))


def conditions(seed: int, count: int) -> str:
    """What was run, and on what."""
    versions = f"python {sys.version.split()[0]}, numpy {np.__version__}"
    return f"fuzz_python --count {count} --seed {seed}\n{versions}, {os.cpu_count()} cores"


def run_case(name: str, *, shrink: bool) -> int:
    """Runs one case here and prints its text."""
    if shrink:
        shrunk(name)
    try:
        print(outcome(name))
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        print(text_of(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
