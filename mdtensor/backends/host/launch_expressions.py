"""Values of a kernel's launch expressions."""

from __future__ import annotations

from collections.abc import Mapping

from mdtensor.kernels.kernel_source import LaunchIndex


def evaluated(index: LaunchIndex, values: Mapping[str, int]) -> int:
    """The value of an expression over run-time sizes."""
    total = 0
    for names, coefficient in index.terms:
        product = coefficient
        for name in names:
            product *= values[name]
        total += product
    return total
