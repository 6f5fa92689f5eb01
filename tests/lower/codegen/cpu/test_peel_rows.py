"""Rows that begin anywhere: whole vectors at multiples of their size, nothing else touched."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.kernels.opencl import OPENCL
from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.cpu.peel_rows import peeled_loops
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.statements import Comment, indented
from tests.kernels.kernel_cases import CASES, source
from tests.lower.codegen.frames import frame_of
from tests.lower.running import compute_from_byte

NAMES = ("peeled_stencil", "peeled_rows", "peeled_general")


@pytest.mark.parametrize("name", NAMES)
def test_loops(name, golden):
    frame = frame_of(name)
    (write,) = frame.problem.writes
    memory = frame.problem.outputs[0]
    destination = Destination("O0", memory, write.strides, as_index(write.offset), True)
    loops = peeled_loops(frame, destination, lambda count: (Comment(f"tile of {count}"),))
    golden(f"passes/peel_rows/{name}.txt", "\n".join(indented(loops)) + "\n")


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", ["peeled_stencil", "peeled_rows"])
@pytest.mark.parametrize("byte", range(0, 64, 4))
def test_wherever_the_results_lie(name, byte):
    md_hom = CASES[name].stages[0].md_hom
    x = np.arange(md_hom.inputs[0].spec.size, dtype="f4").reshape(md_hom.inputs[0].spec.shape)
    compute_from_byte(md_hom, source(name, OPENCL), (x,), byte)


def test_whole_vectors_bypass_the_caches_without_a_test_of_the_address():
    text = source("peeled_stencil", OPENCL).text
    assert "nontemporal_store" in text
    assert "aligned_" not in text
