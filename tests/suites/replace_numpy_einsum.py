"""A pytest plugin that puts mdtensor's functions in the place of NumPy's, before collection.

Loaded by `-p tests.suites.replace_numpy_einsum`; prints the statistics at the end.
MDTENSOR_SUITE_EXECUTOR=reference computes by the reference interpreter instead of kernels.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import mdtensor.api.einsum as module
from mdtensor.api.statistics import stats
from mdtensor.translate import reference

if os.environ.get("MDTENSOR_SUITE_EXECUTOR") == "reference":
    module.executor = reference.compute

np.einsum = module.einsum
np.einsum_path = module.einsum_path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("calls of einsum by engine")
    terminalreporter.write_line(str(stats()))
