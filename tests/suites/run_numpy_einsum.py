"""NumPy's own tests of einsum, run on mdtensor's: `python -m tests.suites.run_numpy_einsum`.

Arguments go to pytest. Ends with the statistics, and with pytest's exit status.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = "numpy._core.tests.test_einsum"


def command(*arguments: str) -> list[str]:
    """The command line of the suite; pytest's configuration of this repository is left out."""
    plugin = "tests.suites.replace_numpy_einsum"
    return [
        *(sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider"),
        *("-c", str(Path(__file__).with_name("pytest.ini")), "-q", "--pyargs", SUITE),
        *arguments,
    ]


if __name__ == "__main__":
    sys.exit(subprocess.run(command(*sys.argv[1:]), cwd=ROOT, check=False).returncode)
