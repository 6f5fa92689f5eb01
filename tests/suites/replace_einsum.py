"""A pytest plugin that puts mdtensor's functions in the place of others', before collection.

NumPy's `einsum` and `einsum_path`, and opt_einsum's backend functions for NumPy arrays. Statistics
are printed at the end. MDTENSOR_SUITE_EXECUTOR=reference computes by the reference interpreter.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import mdtensor.api.frontends.einsum.einsum as module
from mdtensor.api.calls import program_calls
from mdtensor.api.calls.statistics import stats
from mdtensor.api.frontends.einsum.tensordot import tensordot
from mdtensor.translate import reference

if os.environ.get("MDTENSOR_SUITE_EXECUTOR") == "reference":
    program_calls.executor = reference.compute


def replace_numpy() -> None:
    """Everything that takes einsum from NumPy's namespace now gets mdtensor's."""
    np.einsum = module.einsum
    np.einsum_path = module.einsum_path


def replace_opt_einsum() -> None:
    """opt_einsum contracts NumPy arrays by mdtensor's functions."""
    from opt_einsum.backends import dispatch

    dispatch._cached_funcs["einsum", "numpy"] = module.einsum
    dispatch._cached_funcs["tensordot", "numpy"] = tensordot


{"numpy": replace_numpy, "opt_einsum": replace_opt_einsum}[os.environ["MDTENSOR_SUITE"]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("calls of einsum by engine")
    terminalreporter.write_line(str(stats()))
