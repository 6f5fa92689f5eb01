from __future__ import annotations

import pytest

import mdtensor.api.einsum as module
from mdtensor.api.einsum import Compute
from mdtensor.translate import reference


@pytest.fixture
def by_reference(monkeypatch: pytest.MonkeyPatch) -> Compute:
    """Let einsum compute by the reference interpreter: what is tested is all around it."""
    monkeypatch.setattr(module, "executor", reference.compute)
    return reference.compute
