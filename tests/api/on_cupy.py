"""All tests of the front ends on a GPU: `python -m pytest -p tests.api.on_cupy tests/api/…`.

Every `md_hom` that a call makes is computed by generated CUDA from copies of its arrays, whose
layout is theirs, in the place of the processor's kernels and of the reference interpreter too.
Tests of processors are deselected.
"""

from __future__ import annotations

from typing import Any

import pytest

from mdtensor.api.calls import program_calls
from mdtensor.api.engine import registry
from mdtensor.translate import reference
from mdtensor.translate.md_hom import MDHom
from tests.api import executors
from tests.api.fronts.on_cupy import Journey

OF_PROCESSORS = {
    "tests/api/frontends/test_convolution.py::test_peak_memory_is_that_of_operands_result_and_padded_copy",
    "tests/api/test_einsum_affine.py::test_a_plan",
}
"""Tests that need a device for NumPy's arrays, which a machine with a GPU may lack."""


def compute_there(md_hom: MDHom, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """Fills the outputs of an `md_hom` on a GPU; over nothing, as calls do, without kernels."""
    if 0 in md_hom.extents.values():
        reference.compute(md_hom, inputs, outputs)
        return
    journey = Journey()
    registry.saw(md_hom, "cupy")
    program = registry.choice_for(md_hom, "cupy").program
    program(*journey.there(inputs), *journey.there(outputs))
    written = {id(array) for array in outputs}
    for here, there in journey.arrays:
        if id(here) in written:
            here[...] = there.get()


def _use_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_calls, "executor", compute_there)


# Before any conftest takes it: tests that ask for the reference get the GPU too.
executors.use_reference = _use_gpu


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.nodeid.partition("[")[0] in OF_PROCESSORS]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes on the GPU."""
    _use_gpu(monkeypatch)
