"""What the seconds of first calls go to: traces of new processes with empty caches.

`python -m bench.traces [--turns 3]` prints a table for each call, of the process that took least.
`--with-imports` prints milliseconds instead, median and least, from behind the imports of NumPy and
mdtensor to the end of the call, and those of the first import of what is called among them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from statistics import median

CALLS = {
    "ij,jk->ik": "mdt.einsum('ij,jk->ik', ones(512, 256), ones(256, 384))",
    "bhqd,bhkd->bhqk": ("mdt.einsum('bhqd,bhkd->bhqk', ones(2, 8, 128, 64), ones(2, 8, 128, 64))"),
    "padded conv": "mdt.conv(ones(2, 32, 32, 16), ones(32, 3, 3, 16), padding='same')",
    "gaussian_filter": "mdt.ndimage.gaussian_filter(ones(480, 640), 2)",
}
_UNTRACED = """
import time
import numpy as np, mdtensor as mdt
ones = lambda *shape: np.ones(shape, np.float32)
begin = time.perf_counter()
mdt.einsum, mdt.conv, mdt.ndimage.gaussian_filter
imported = time.perf_counter()
{call}
print(time.perf_counter() - begin, imported - begin)
"""
# Imports of what is called are no part of the call, so they come first.
_PROGRAM = """
import numpy as np, mdtensor as mdt
mdt.einsum, mdt.conv, mdt.ndimage.gaussian_filter
ones = lambda *shape: np.ones(shape, np.float32)
with mdt.trace() as t:
    {call}
print(t.calls[0].seconds)
print(t)
"""


def _environment() -> dict[str, str]:
    """This process' variables, but for one by which each process compiles our 300 modules anew."""
    return {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def said_by(program: str) -> str:
    """What a new process with an empty cache prints."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = subprocess.run(
            [sys.executable, "-c", program],
            env={**_environment(), "MDTENSOR_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    return found.stdout


def traced(call: str) -> tuple[float, str]:
    """Seconds and table of a call that is the first one of a process, with an empty cache."""
    seconds, _, table = said_by(_PROGRAM.format(call=call)).partition("\n")
    return float(seconds), table


def with_imports(call: str) -> tuple[float, float]:
    """Milliseconds of such a call with the imports that it needs, and of the first of these."""
    whole, imports = said_by(_UNTRACED.format(call=call)).split()
    return 1e3 * float(whole), 1e3 * float(imports)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--with-imports", action="store_true")
    options = parser.parse_args()
    turns: int = options.turns
    for name, call in CALLS.items():
        if options.with_imports:
            whole, imports = zip(*(with_imports(call) for _ in range(turns)), strict=True)
            said = f"{median(whole):8.0f}{min(whole):8.0f}{median(imports):8.0f}{min(imports):8.0f}"
            print(f"{name:20}{said}", flush=True)
            continue
        _, table = min(traced(call) for _ in range(turns))
        print(f"{name}: {call}\n{table}")


if __name__ == "__main__":
    main()
