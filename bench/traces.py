"""What the seconds of first calls go to: traces of new processes with empty caches.

`python -m bench.traces [--turns 3]` prints a table for each call, of the process that took least.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

CALLS = {
    "ij,jk->ik": "mdt.einsum('ij,jk->ik', ones(512, 256), ones(256, 384))",
    "bhqd,bhkd->bhqk": ("mdt.einsum('bhqd,bhkd->bhqk', ones(2, 8, 128, 64), ones(2, 8, 128, 64))"),
    "padded conv": "mdt.conv(ones(2, 32, 32, 16), ones(32, 3, 3, 16), padding='same')",
    "gaussian_filter": "mdt.ndimage.gaussian_filter(ones(480, 640), 2)",
}
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


def traced(call: str) -> tuple[float, str]:
    """Seconds and table of a call that is the first one of a process, with an empty cache."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = subprocess.run(
            [sys.executable, "-c", _PROGRAM.format(call=call)],
            env={**_environment(), "MDTENSOR_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    seconds, _, table = found.stdout.partition("\n")
    return float(seconds), table


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    turns = parser.parse_args().turns
    for name, call in CALLS.items():
        _, table = min(traced(call) for _ in range(turns))
        print(f"{name}: {call}\n{table}")


if __name__ == "__main__":
    main()
