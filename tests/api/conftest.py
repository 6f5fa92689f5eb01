from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mdtensor.api.engine import compiler_process, registry, tiers
from mdtensor.api.engine.engine import MOST_STRUCTURES
from tests.api.executors import EXECUTORS, use_reference
from tests.api.told_background import ToldBackground

tiers.Background = ToldBackground  # of all engines of this process


@pytest.fixture(scope="session")
def cupy() -> Any:
    import cupy

    return cupy


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the test's own, with its store."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(folder))
    registry.store.cache_clear()
    registry.forget()
    yield folder
    registry.store().close()
    registry.store.cache_clear()
    registry.forget()


@pytest.fixture
def by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reference interpreter compute: what is tested is all around the kernels.

    MDTENSOR_TEST_EXECUTOR=kernels runs the same tests on generated kernels.
    """
    if os.environ.get("MDTENSOR_TEST_EXECUTOR") != "kernels":
        use_reference(monkeypatch)


@pytest.fixture(params=EXECUTORS)
def executed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A test runs on generated kernels, and again by the reference interpreter."""
    if request.param == "reference":
        use_reference(monkeypatch)
    return request.param


@pytest.fixture(autouse=True)
def undisturbed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the tests before is left to be done, or to empty the tables of calls meanwhile.

    Better kernels empty those, which the background compiles when a test tells it to, and so does
    an engine with many structures. Where a test may begin no processes, no other one compiles.
    """
    if not any(map(request.node.get_closest_marker, ("process", "campaign", "gpu", "gpus"))):
        monkeypatch.setenv(compiler_process.VARIABLE, "0")
    ToldBackground.forget()
    for engine in (*registry._engines.values(), *registry._called.values()):
        if len(engine.structures) > MOST_STRUCTURES // 2:
            engine._let_go()


@pytest.fixture
def device_chosen_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device that a test chooses is that test's; later ones have the one before."""
    with monkeypatch.context() as chosen:
        chosen.setitem(registry._engines, "numpy", registry.engine_for())
        chosen.setattr(registry, "_chosen", list(registry._chosen))
        yield
    registry.forget()
