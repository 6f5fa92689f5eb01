"""A pytest plugin that puts mdtensor's filters in the place of scipy.ndimage's, before collection.

Statistics are printed at the end. MDTENSOR_SUITE_EXECUTOR=reference computes by the reference
interpreter.
"""

from __future__ import annotations

import os

import pytest
import scipy.ndimage
from scipy._lib._array_api import xp_capabilities_table

import mdtensor.api.calls.program_calls as module
from mdtensor.api.calls.statistics import stats
from mdtensor.api.frontends.ndimage import ndimage
from mdtensor.translate import reference

if os.environ.get("MDTENSOR_SUITE_EXECUTOR") == "reference":
    module.executor = reference.compute

for name in ndimage.__all__:
    function = getattr(ndimage, name)
    # scipy's tests look up there which arrays a function takes.
    xp_capabilities_table[function] = xp_capabilities_table[getattr(scipy.ndimage, name)]
    setattr(scipy.ndimage, name, function)
    setattr(scipy.ndimage._filters, name, function)


# scipy refuses float16, which mdtensor computes, and sorts windows that mdtensor refuses.
OUT_OF_SCOPE = (
    "test_gaussian_filter_float16",
    "test_gh_22586_crash_property",
    *(f"test_gh_23075[samples{n}-" for n in range(11, 16)),
    *(f"test_gh_23075_constant[samples{n}-" for n in (2, 3)),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.name.startswith(OUT_OF_SCOPE)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("calls of filters by engine")
    terminalreporter.write_line(str(stats()))
