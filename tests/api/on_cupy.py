"""All tests of the front ends on a GPU: `python -m pytest -p tests.api.on_cupy tests/api/…`.

Every `md_hom` that a call makes is computed by generated CUDA from copies of its arrays, whose
layout is theirs, in the place of the processor's kernels and of the reference interpreter too.
"""

from __future__ import annotations

from typing import Any

import pytest

import mdtensor.api.einsum as einsum
from mdtensor.api import computation, pipeline
from mdtensor.translate import reference
from mdtensor.translate.md_hom import MDHom
from tests.api import executors
from tests.api.fronts.on_cupy import Journey


def compute_there(md_hom: MDHom, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """Fills the outputs of an `md_hom` on a GPU; over nothing, as calls do, without kernels."""
    if 0 in md_hom.extents.values():
        reference.compute(md_hom, inputs, outputs)
        return
    journey = Journey()
    pipeline.compute(md_hom, journey.there(inputs), journey.there(outputs))
    written = {id(array) for array in outputs}
    for here, there in journey.arrays:
        if id(here) in written:
            here[...] = there.get()


def _use_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (einsum, computation):
        monkeypatch.setattr(module, "executor", compute_there)


# Before any conftest takes it: tests that ask for the reference get the GPU too.
executors.use_reference = _use_gpu


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes on the GPU."""
    _use_gpu(monkeypatch)
