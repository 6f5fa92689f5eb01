"""A pytest plugin that puts mdtensor's functions in the place of others', before collection.

NumPy's `einsum` and `einsum_path`, or what opt_einsum contracts arrays of NumPy, torch and JAX
with. Statistics are printed at the end. MDTENSOR_SUITE_EXECUTOR=reference computes by the reference
interpreter.
"""

from __future__ import annotations

import importlib
import os

import numpy as np
import pytest

import mdtensor.api.frontends.einsum.einsum as module
from mdtensor.api.calls import program_calls
from mdtensor.api.calls.statistics import stats
from mdtensor.api.replacing import replacing
from mdtensor.translate import reference

if os.environ.get("MDTENSOR_SUITE_EXECUTOR") == "reference":
    program_calls.executor = reference.compute


def replace_numpy() -> None:
    """Everything that takes einsum from NumPy's namespace now gets mdtensor's."""
    np.einsum = module.einsum
    np.einsum_path = module.einsum_path


def replace_opt_einsum() -> None:
    """opt_einsum contracts arrays by mdtensor's functions."""
    for name in ("torch", "jax"):
        importlib.import_module(name)
    replacing("opt_einsum").start()


{"numpy": replace_numpy, "opt_einsum": replace_opt_einsum}[os.environ["MDTENSOR_SUITE"]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("calls of einsum by engine")
    terminalreporter.write_line(str(stats()))
