"""The suites of others pass whole when the reference interpreter computes.

What is tested is everything around the kernels; `tests.suites.run` without `--reference` runs them
on generated kernels.
"""

from __future__ import annotations

import re

import pytest

from tests.suites.run import run

pytestmark = pytest.mark.campaign


@pytest.mark.parametrize("suite", ["numpy", "convolve"])
def test_suite_passes_whole(suite: str) -> None:
    result = run(suite, reference=True)
    assert result.code == 0, result.out
    assert re.search(r"^\d+ passed in ", result.out, flags=re.MULTILINE), result.out
    assert "generated kernels: 100.0% of the arithmetic" in result.out


@pytest.mark.parametrize("suite", ["replacing", "replacing_einsum", "opt_einsum"])
def test_the_own_tests_of_libraries_pass_where_functions_are_replaced(suite: str) -> None:
    """What they skip and expect to fail is their own.

    opt_einsum compares float32 more closely with JAX than the reference rounds.
    """
    result = run(suite, reference=suite != "opt_einsum")
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
