from __future__ import annotations

import os

import pytest

import mdtensor.api.einsum as module
from mdtensor.api import computation
from mdtensor.translate import reference


@pytest.fixture
def by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let einsum compute by the reference interpreter: what is tested is all around it.

    MDTENSOR_TEST_EXECUTOR=kernels runs the same tests on generated kernels.
    """
    if os.environ.get("MDTENSOR_TEST_EXECUTOR") != "kernels":
        monkeypatch.setattr(module, "executor", reference.compute)


@pytest.fixture
def loops_by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let computations run by the reference interpreter; see `by_reference`."""
    if os.environ.get("MDTENSOR_TEST_EXECUTOR") != "kernels":
        monkeypatch.setattr(computation, "executor", reference.compute)
