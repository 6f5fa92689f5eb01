from __future__ import annotations

import os

import pytest

from mdtensor.api.engine import registry
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


@pytest.fixture
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread finds better kernels in the background, for which tables would be emptied."""
    engine = registry.engine_for()
    engine.settle(timeout=600)
    monkeypatch.setattr(engine.tiers.background, "ask", lambda *_, **__: None)
