"""A pytest plugin that puts mdtensor's `convolve` and `correlate` in the place of others'.

Those of scipy are replaced once its tests are collected, because these look functions up in a table
of their own then. Statistics are printed at the end. MDTENSOR_SUITE_EXECUTOR=reference computes by
the reference interpreter.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest
import scipy.signal
import scipy.signal.tests

import mdtensor.api.calls.program_calls as module
from mdtensor.api.calls.statistics import stats
from mdtensor.api.frontends import correlation
from mdtensor.translate import reference

if os.environ.get("MDTENSOR_SUITE_EXECUTOR") == "reference":
    module.executor = reference.compute

# What is delegated goes to scipy's functions, not to these.
correlation.scipy_signal()


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    return correlation.convolve(in1, in2, mode, method)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    return correlation.correlate(in1, in2, mode, method)


def pytest_collection_finish(session: pytest.Session) -> None:
    """From now on NumPy, or scipy.signal and its tests, have mdtensor's functions."""
    if os.environ["MDTENSOR_SUITE"] == "convolve":
        np.convolve, np.correlate = correlation.convolve, correlation.correlate
        return
    homes = [
        scipy.signal,
        *(sys.modules[name] for name in {i.module.__name__ for i in session.items}),
    ]
    for home in homes:
        for function in (convolve, correlate):
            if hasattr(home, function.__name__):
                setattr(home, function.__name__, function)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("calls of convolve and correlate by engine")
    terminalreporter.write_line(str(stats()))
