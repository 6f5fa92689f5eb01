"""Faults that are put into a copy, one at a time: the gate must turn red, and soon.

`python -m tests.mutations` takes a copy of the commit that is checked out, changes a line in a room
of the package, and runs the tests as the gate does until one fails: first those that begin no
process, then the others. It prints the test that fails and the minutes until then, and ends with 1
where a fault is not found. `--only NAME …` puts some in, `--list` names them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests import children

ROOT = Path(__file__).parents[1]
LONGEST_S = 3600.0
TIERS = (("-n", "2", "--dist", "loadfile"), ("-m", "process and not campaign"))


@dataclass(frozen=True)
class Mutation:
    """A fault: what stands once in a file of the package, and what is put in its place."""

    name: str
    file: str
    right: str
    wrong: str


MUTATIONS = (
    Mutation(
        "a dilation that is dropped",
        "translate/convolutions/convolution_axes.py",
        "(stride, dilation, -before)",
        "(stride, 1, -before)",
    ),
    Mutation(
        "a border that repeats the last element",
        "translate/stencils/borders.py",
        "select(at_low, -place, -2 - place)",
        "select(at_low, -place, -1 - place)",
    ),
    Mutation(
        "an operator's order",
        "lower/codegen/body/combine_lanes.py",
        "refs = self._held(combined(self.operator, low, high))",
        "refs = self._held(combined(self.operator, high, low))",
    ),
    Mutation(
        "a mask that lets one point more through",
        "lower/codegen/memory/tile_accesses.py",
        'after = name(tiling.var("e")) - first - span',
        'after = name(tiling.var("e")) - first - span + 1',
    ),
    Mutation(
        "carries of groups that are dropped",
        "lower/codegen/scan/scan_tile.py",
        "            if carries:\n",
        "            if carries and u:\n",
    ),
    Mutation(
        "halves that are rounded up",
        "kernels/llvm/conversions.py",
        'odd = builder.emit(f"and {word} {upper}, {_all(1, lanes)}")',
        'odd = builder.emit(f"or {word} {_all(1, lanes)}, {_all(1, lanes)}")',
    ),
    Mutation(
        "memory that two arrays get",
        "backends/host/memory_pool.py",
        "        block = blocks.pop()\n",
        "        block = blocks[-1]\n",
    ),
    Mutation(
        "a type that is no part of a call's key",
        "api/calls/call_key.py",
        "                parts += value.shape, value.strides, value.dtype\n"
        "                arrays.append(value)\n            elif type(value) is str:",
        "                parts += value.shape, value.strides\n"
        "                arrays.append(value)\n            elif type(value) is str:",
    ),
    Mutation(
        "a cotangent that replaces another",
        "api/gradients/tape.py",
        "part if before is None else (lazy(before) + lazy(part)).evaluate()",
        "part",
    ),
    Mutation(
        "edges of parts that are cut one element early",
        "api/parts/cuts.py",
        "inner = [-((offset - edge) // step) for edge in edges[1:-1]]",
        "inner = [-((offset - edge + 1) // step) for edge in edges[1:-1]]",
    ),
    Mutation(
        "trials that are lost where they failed",
        "autotune/store/store.py",
        "        self._add([TrialRow(problem",
        "        seconds and self._add([TrialRow(problem",
    ),
    Mutation(
        "a winner that is slower than what runs untuned",
        "autotune/paired_turns.py",
        "return -math.fsum(ratios) > CERTAIN * error",
        "return -math.fsum(ratios) > -CERTAIN * error",
    ),
)


@dataclass(frozen=True)
class Found:
    """The first test that failed, or an empty text, and the seconds until then."""

    test: str
    seconds: float


def found_by(mutation: Mutation, folder: Path) -> Found:
    """Puts a fault into a copy of the repository and runs the tests of the gate until one fails."""
    children.run("clone", "--quiet", ROOT, folder, executable="git")
    path = folder / "mdtensor" / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.right) != 1:
        raise ValueError(f"{mutation.file} has no one place of {mutation.right!r}")
    path.write_text(text.replace(mutation.right, mutation.wrong), encoding="utf-8")
    begun, environment = time.monotonic(), {"PYTHONPATH": str(folder), "CI": "true"}
    for tier in TIERS:
        words = "-m", "pytest", "-q", "-x", *tier
        end = children.run(
            *words, cwd=folder, env=environment, limit_s=LONGEST_S, code=None, stderr=None
        )
        if end.code:
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", end.out, flags=re.MULTILINE)
            return Found(failed[1] if failed else end.out[-400:], time.monotonic() - begun)
    return Found("", time.monotonic() - begun)


def main() -> int:
    """Puts in what is asked for; 1 where a fault was not found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME", help="faults, by their names")
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    if options.list:
        print(*(mutation.name for mutation in MUTATIONS), sep="\n")
        return 0
    wanted = [each for each in MUTATIONS if not options.only or each.name in options.only]
    missed = 0
    for mutation in wanted:
        with tempfile.TemporaryDirectory() as folder:
            found = found_by(mutation, Path(folder) / "mdtensor")
        missed += not found.test
        print(
            f"{mutation.name}: {found.seconds / 60:.1f} min, {found.test or 'NOT FOUND'}",
            flush=True,
        )
    print(f"{len(wanted) - missed} passed, {missed} failed")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
