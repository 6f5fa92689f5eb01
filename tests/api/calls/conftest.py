from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mdtensor.api.calls import computation
from mdtensor.api.calls.shape_families import Families
from mdtensor.api.engine import registry
from mdtensor.bounded import Bounded


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Families[Any]]:
    """No computation is known, nor a family of shapes: a test meets nothing that others built."""
    found: Families[Any] = Families(registry.engine_for)
    monkeypatch.setattr(computation, "families", found)
    monkeypatch.setattr(computation, "_table", Bounded(computation._TABLE_SIZE))
    computation.forget()
    yield found
    computation.forget()
