from __future__ import annotations

from collections.abc import Iterator

import pytest

from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import program_calls
from mdtensor.api.calls.shape_families import Families
from mdtensor.api.engine import registry
from mdtensor.bounded import Bounded


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Families]:
    """No computation is known, nor a family of shapes: a test meets nothing that others built."""
    found: Families = Families(registry.engine_for)
    monkeypatch.setattr(program_calls, "families", found)
    monkeypatch.setattr(program_calls, "_table", Bounded(program_calls._TABLE_SIZE))
    invalidation.clear()
    yield found
    invalidation.clear()
