"""Plain Python nests as kernels, against the same functions run by Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mdtensor as mdt
from tests.api.polybench import cases

CASES = cases()


def _copies(arguments: tuple[object, ...]) -> list[object]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


@pytest.mark.parametrize(
    ("function", "arguments"), CASES, ids=[function.__name__ for function, _ in CASES]
)
@pytest.mark.usefixtures("by_reference")
def test_a_nest_computes_what_python_does(
    function: Callable[..., None], arguments: tuple[object, ...]
) -> None:
    expected, got = _copies(arguments), _copies(arguments)
    function(*expected)
    mdt.mdh(function)(*got)
    for given, wanted in zip(got, expected, strict=True):
        if isinstance(given, np.ndarray):
            np.testing.assert_allclose(given, wanted, rtol=1e-12, atol=1e-12)


# Steps in which a computation is done; more would be a fusion that was lost.
COUNTS = {
    "gemm": 1,
    "atax": 2,
    "bicg": 2,
    "gemver": 3,
    "gesummv": 2,
    "two_mm": 2,
    "syrk": 1,
    "trmm": 1,
    "jacobi_1d": 3,
    "softmax": 3,
    "conv2d_bias": 1,
    "floyd_warshall_step": 1,
    "lower_triangle_sums": 1,
    "spmv_ell": 1,
}


@pytest.mark.parametrize("name", COUNTS)
def test_statements_are_fused(name: str) -> None:
    function, arguments = next(case for case in CASES if case[0].__name__ == name)
    assert len(mdt.mdh(function).steps(*arguments)) == COUNTS[name]
