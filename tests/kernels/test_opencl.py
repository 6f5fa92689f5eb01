"""OpenCL C: the text of kernels, and that each computes what the oracle computes."""

from __future__ import annotations

import pytest

from mdtensor.kernels.opencl import OPENCL
from tests import children
from tests.kernels.kernel_cases import CASES, source
from tests.lower import fuzz


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CASES)
def test_text(name, golden):
    golden(f"kernels/opencl/{name}.cl", source(name, OPENCL).text)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
def test_result(name):
    assert fuzz.check(CASES[name])


@pytest.mark.process
def test_compilers_make_no_vectors_of_products_of_complex_numbers():
    # Intel's compiler crashed, and the process with it.
    program = """
from mdtensor.kernels.opencl import OPENCL_FMA
from tests.kernels.kernel_cases import cpu, einsum
from tests.lower import fuzz
rows = einsum("ij,kj->ik", {"i": 3, "j": 31, "k": 2}, "F")
assert fuzz.check(fuzz.Case(rows, cpu(3, (1,))), dialect=OPENCL_FMA)
"""
    children.run("-c", program)
