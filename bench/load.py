"""How long a process takes to its first result by a tuned plan.

One process tunes a product of matrices and ends; then fresh ones import mdtensor, open the device
(the OpenCL runtime starts), and load the winner from the store: the three times in the result.
Python keeps its bytecode, as it does for installed packages. Run as `python -m bench.load`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.machine import now

RESULTS = Path(__file__).parent / "results" / "load"

_TUNE = """
import numpy as np, mdtensor as mdt
plan = mdt.compile("ij,jk->ik", mdt.spec((64, 800)), mdt.spec((800, 500)))
print(plan.tune(10, quiet=True)[0])
"""

_LOAD = """
import json, time
import numpy as np
a, b = np.ones((64, 800), "f4"), np.ones((800, 500), "f4")
start = time.perf_counter()
import mdtensor as mdt
mdt.compile, mdt.einsum  # public names are imported when they are first used
imported = time.perf_counter()
from mdtensor.api.engine.registry import engine_for
target = engine_for().target
opened = time.perf_counter()
plan = mdt.compile("ij,jk->ik", a, b)
result = plan(a, b)
first = time.perf_counter()
assert result[0, 0] == 800
(choice,) = plan.choices()
assert choice.origin == "tuned", choice.origin
(report,) = plan.tune(10, quiet=True)
print(json.dumps({
    "import": imported - start,
    "open": opened - imported,
    "plan": first - opened,
    "trials": report.trials,
    "device": f"{target.name} x{target.cores}",
    "driver": target.driver,
}))
"""


def main() -> int:
    """Measures, prints and writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs: int = parser.parse_args().runs
    with TemporaryDirectory() as cache:
        print(_run(_TUNE, cache).strip())
        found = [json.loads(_run(_LOAD, cache)) for _ in range(runs)]
    names = ("import", "open", "plan")
    medians = {name: statistics.median(one[name] for one in found) for name in names}
    plans = [one["plan"] for one in found]
    report: dict[str, Any] = {
        "date": now(),
        "device": found[0]["device"],
        "driver": found[0]["driver"],
        "python": platform.python_version(),
        "seconds": medians,
        "seconds_of_plan": {"median": medians["plan"], "largest": max(plans)},
        "trials": max(one["trials"] for one in found),
        "runs": [{name: one[name] for name in names} for one in found],
    }
    device = re.sub(r"[^a-z0-9]+", "-", report["device"].lower()).strip("-")
    path = RESULTS / f"{report['date'][:10]}-{device}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report["seconds"]), path)
    return 0


def _run(code: str, cache: str) -> str:
    """What a fresh process prints, on a store of its own."""
    dropped = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **kept,
            "MDTENSOR_CACHE_DIR": str(Path(cache)),
            "PYTHONPYCACHEPREFIX": str(Path(cache, "bytecode")),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
