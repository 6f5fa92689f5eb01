"""The suites of others, run on mdtensor: `python -m tests.suites.run numpy`, or another of SUITES.

Further arguments go to pytest. Ends with the statistics of calls and with pytest's exit status.
`--reference` computes by the reference interpreter instead of generated kernels.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests import children


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests of a package, and the plugin of this folder that puts mdtensor into it.

    `but` is a test that fails without mdtensor, too.
    """

    plugin: str
    tests: tuple[str, ...]
    but: str = ""


_MULTIARRAY = "numpy._core.tests.test_multiarray"
_NUMERIC = "numpy._core.tests.test_numeric"
_LINALG = "numpy.linalg.tests.test_linalg"
_SIGNAL = "scipy.signal.tests.test_signaltools"
SUITES = {
    "numpy": Suite("replace_einsum", ("numpy._core.tests.test_einsum",)),
    "opt_einsum": Suite(
        "replace_einsum",
        tuple(
            f"opt_einsum.tests.test_{name}"
            for name in ("contract", "edge_cases", "blas", "input", "backends", "sharing")
        ),
        "test_jax_jit_gradient",  # pytest.approx takes no arrays of JAX
    ),
    "replacing": Suite(
        "replace_numpy",
        (
            *(
                f"{_MULTIARRAY}::Test{name}"
                for name in (
                    *("Dot", "Vdot", "Inner", "Matmul"),
                    *("MatmulOperator", "MatmulInplace", "Alignment"),
                )
            ),
            *(f"{_NUMERIC}::Test{name}" for name in ("Convolve", "Correlate", "Tensordot")),
            f"{_NUMERIC}::TestNonarrayArgs",
            *(f"{_LINALG}::Test{name}" for name in ("MultiDot", "MatrixPower", "Outer")),
            *(f"{_LINALG}::test_{name}" for name in ("matmul", "tensordot")),
            "numpy.linalg.tests.test_regression",
        ),
    ),
    "replacing_einsum": Suite("replace_numpy", ("numpy._core.tests.test_einsum",)),
    "ndimage": Suite("replace_ndimage", ("scipy.ndimage.tests.test_filters",)),
    "convolve": Suite(
        "replace_signal",
        tuple(f"numpy._core.tests.test_numeric::Test{name}" for name in ("Convolve", "Correlate")),
    ),
    "signal": Suite(
        "replace_signal",
        tuple(
            f"{_SIGNAL}::Test{name}"
            for name in (
                *("Convolve", "AllFreqConvolves"),
                *("Correlate", "CorrelateReal", "CorrelateComplex"),
            )
        ),
    ),
}


def run(suite: str, *arguments: str, reference: bool = False) -> children.Ended:
    """Run a suite in a process of its own, under pytest's defaults."""
    # NumPy tests a dot product on 17 GB where these are free; other tests run beside it.
    environment = {"MDTENSOR_SUITE": suite, "NPY_AVAILABLE_MEM": "4GB", "MDTENSOR_TIER0": "0"}
    without = ("-k", f"not {SUITES[suite].but}") if SUITES[suite].but else ()
    if reference:
        environment["MDTENSOR_SUITE_EXECUTOR"] = "reference"
    return children.run(
        *("-m", "pytest", "-q", "-p", f"tests.suites.{SUITES[suite].plugin}"),
        *("-p", "no:cacheprovider", "-p", "no:benchmark"),
        *("-c", Path(__file__).with_name("pytest.ini")),
        *("--pyargs", *SUITES[suite].tests, *without, *arguments),
        env=environment,
        limit_s=3600,
        code=None,
        stderr=children.STDOUT,
    )


if __name__ == "__main__":
    options = [argument for argument in sys.argv[2:] if argument != "--reference"]
    result = run(sys.argv[1], *options, reference="--reference" in sys.argv)
    print(result.out)
    sys.exit(result.code)
