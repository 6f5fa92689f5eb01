from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from mdtensor.api.arrays import invalidation
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import MOST_STRUCTURES
from mdtensor.api.engine.tiers import Tiers
from tests.api.executors import EXECUTORS, use_reference


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
def undisturbed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing empties the tables of calls meanwhile: tests of those would fail now and then.

    Better kernels do, which no thread compiles unless a test is marked `background`, and so does an
    engine with many structures, as the tests before may leave it.
    """
    for engine in (*registry._engines.values(), *registry._called.values()):
        if len(engine.structures) > MOST_STRUCTURES // 2:
            engine._let_go()
    if any(map(request.node.get_closest_marker, ("background", "gpu", "gpus"))):
        yield
        return

    def opened(tiers: Tiers, *given: Any) -> None:
        init(tiers, *given)
        monkeypatch.setattr(tiers.background, "ask", _never)

    init = Tiers.__init__
    monkeypatch.setattr(Tiers, "__init__", opened)
    for tiers in _tiers():
        monkeypatch.setattr(tiers.background, "ask", _never)
        tiers.background.settle(timeout=600)  # what earlier tests asked for
    yield


def _never(*_: object, **__: object) -> None:
    pass


def _tiers() -> list[Tiers]:
    """Those of all engines that there are."""
    found = [reference() for reference in list(invalidation._listeners.values())]
    return [keeper for keeper in found if isinstance(keeper, Tiers)]


@pytest.fixture
def device_chosen_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device that a test chooses is that test's; later ones have the one before."""
    with monkeypatch.context() as chosen:
        chosen.setitem(registry._engines, "numpy", registry.engine_for())
        chosen.setattr(registry, "_chosen", list(registry._chosen))
        yield
    registry.forget()
