"""The suites of others, run on mdtensor: `python -m tests.suites.run numpy` or `… opt_einsum`.

Further arguments go to pytest. Ends with the statistics of calls and with pytest's exit status.
`--reference` computes by the reference interpreter instead of generated kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITES = {
    "numpy": ["numpy._core.tests.test_einsum"],
    "opt_einsum": [
        f"opt_einsum.tests.test_{name}" for name in ("contract", "edge_cases", "blas", "input")
    ],
}


def run(suite: str, *arguments: str, reference: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a suite in a process of its own, under pytest's defaults."""
    environment = os.environ | {"MDTENSOR_SUITE": suite}
    if reference:
        environment["MDTENSOR_SUITE_EXECUTOR"] = "reference"
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.suites.replace_einsum"),
            *("-p", "no:cacheprovider", "-p", "no:benchmark"),
            *("-c", str(Path(__file__).with_name("pytest.ini"))),
            *("--pyargs", *SUITES[suite], *arguments),
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    options = [argument for argument in sys.argv[2:] if argument != "--reference"]
    result = run(sys.argv[1], *options, reference="--reference" in sys.argv)
    print(result.stdout)
    sys.exit(result.returncode)
