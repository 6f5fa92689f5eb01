"""OpenCL C: the text of kernels, and that each computes what the oracle computes."""

from __future__ import annotations

import pytest

from mdtensor.kernels.opencl import OPENCL
from tests.kernels.kernel_cases import CASES, source
from tests.lower import fuzz


@pytest.mark.parametrize("name", CASES)
def test_text(name, golden):
    golden(f"kernels/opencl/{name}.cl", source(name, OPENCL).text)


@pytest.mark.parametrize("name", CASES)
def test_result(name):
    assert fuzz.check(CASES[name])
