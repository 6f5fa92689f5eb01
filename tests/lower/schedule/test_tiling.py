"""Tilings of dims, by whose labels kernels call their variables."""

from __future__ import annotations

from dataclasses import replace

from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.kernel_cases import CASES


def test_variables_have_names_whatever_dims_are_called() -> None:
    case = CASES["dot_split"]
    problem = case.problem()
    for label in ("k", "k_0", "k'", "...0", "0"):
        [tiling] = tilings_of(replace(problem, labels=(label,)), case.schedule)
        name = tiling.var("r")
        assert name.isidentifier()
        assert (name == f"r_{label}") == f"d{label}".isidentifier()
