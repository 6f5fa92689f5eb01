from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mdtensor.api.engine import registry
from mdtensor.autotune.store.store import Store
from tests.api import stand_in_bench
from tests.api.stand_in_bench import Bench


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store of this test's own, which the engines use while it runs."""
    store = Store.open(tmp_path / "tuning.db")
    monkeypatch.setattr(registry.engine_for(), "_open_store", lambda: store)
    registry.forget()
    yield store
    registry.forget()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """What measures in this test: a stand-in with a clock of its own."""
    return stand_in_bench.use(Bench(), monkeypatch)
