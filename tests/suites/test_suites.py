"""The suites of others pass whole when the reference interpreter computes.

What is tested is everything around the kernels; `tests.suites.run` without `--reference` runs them
on generated kernels.
"""

from __future__ import annotations

import re

import pytest

from tests.suites.run import run

pytestmark = pytest.mark.campaign


@pytest.mark.parametrize("suite", ["numpy", "convolve", "opt_einsum"])
def test_suite_passes_whole(suite: str) -> None:
    result = run(suite, reference=True)
    assert result.code == 0, result.out
    assert re.search(r"^\d+ passed in ", result.out, flags=re.MULTILINE), result.out
    assert "generated kernels: 100.0% of the arithmetic" in result.out


@pytest.mark.parametrize("suite", ["replacing", "replacing_einsum"])
def test_numpys_own_tests_pass_where_its_functions_are_replaced(suite: str) -> None:
    """Products, convolve and correlate; what NumPy skips and expects to fail is its own."""
    result = run(suite, reference=True)
    assert result.code == 0, result.out
    assert re.search(r"^\d+ passed", result.out, flags=re.MULTILINE), result.out
    assert "generated kernels: 100.0% of the arithmetic" in result.out


def test_scipy_signal_passes_whole() -> None:
    """Convolutions by FFT, which scipy computes, are all that is delegated."""
    result = run("signal", reference=True)
    assert result.code == 0, result.out
    assert re.search(r"^\d+ passed, ", result.out, flags=re.MULTILINE), result.out
    delegated = re.findall(r"^numpy +\w+ +\d+  (.*)$", result.out, flags=re.MULTILINE)
    assert set(delegated) == {"method fft"}
