"""A pytest plugin under which all tests run inside of `mdtensor.replacing("numpy")`.

Statistics are printed at the end. MDTENSOR_SUITE_EXECUTOR=reference computes by the reference
interpreter.
"""

from __future__ import annotations

import os

import pytest

from mdtensor.api.calls import program_calls
from mdtensor.api.calls.statistics import stats
from mdtensor.api.replacing import replacing
from mdtensor.translate import reference

if os.environ.get("MDTENSOR_SUITE_EXECUTOR") == "reference":
    program_calls.executor = reference.compute

_replacing = replacing("numpy")


def pytest_sessionstart() -> None:
    """Before collection, so that modules that take functions from NumPy take mdtensor's."""
    _replacing.start()


def pytest_unconfigure() -> None:
    _replacing.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("calls of NumPy's functions by engine")
    terminalreporter.write_line(str(stats()))
