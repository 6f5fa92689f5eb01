"""Memory of a process that calls ever new structures, each with a kernel of its own.

`python -m bench.structures [--count N] [--every N] [--out FILE]` reduces by functions of which each
has another constant, so that all are compiled, and prints what the process holds. It levels off
once the tables are full.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import facts

_PAGE = 4096
_ELEMENTS = np.arange(1.0, 9.0)


def resident_bytes() -> int:
    """The memory that this process has now; Linux says it in pages."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


def call(number: int) -> None:
    """One call of a structure of its own, whose result is compared with Python's."""
    import mdtensor as mdt

    constant = number + 0.5
    total = mdt.reduce("i->", _ELEMENTS, f=lambda x: x * constant)
    if total != sum(element * constant for element in _ELEMENTS.tolist()):
        raise AssertionError(f"structure {number}: {total}")


def measured(count: int, every: int) -> Iterator[dict[str, float]]:
    """Megabytes and seconds after the first and after each `every` structures."""
    began = time.perf_counter()
    for number in range(count):
        call(number)
        if number == 0 or (number + 1) % every == 0:
            megabytes = round(resident_bytes() / 1e6, 1)
            seconds = round(time.perf_counter() - began, 1)
            yield {"structures": number + 1, "megabytes": megabytes, "seconds": seconds}


def main(arguments: list[str] | None = None) -> None:
    """Measures, prints, and writes what was found so far where a file is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.structures", description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="structures")
    parser.add_argument("--every", type=int, default=1000, help="structures from line to line")
    parser.add_argument("--out", type=Path, help="a file of JSON to write")
    options = parser.parse_args(arguments)
    rows: list[dict[str, float]] = []
    found: dict[str, Any] = {**facts(), "rows": rows}
    for row in measured(options.count, options.every):
        rows.append(row)
        print("{structures:>8} structures {megabytes:8.1f} MB {seconds:8.1f} s".format(**row))
        sys.stdout.flush()
        if options.out is not None:
            options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
