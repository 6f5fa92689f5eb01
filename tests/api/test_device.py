"""Which device computes, and that choosing it again costs nothing."""

from __future__ import annotations

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api import pipeline
from mdtensor.errors import NoDeviceError


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is chosen here counts here."""
    monkeypatch.setitem(pipeline._engines, "numpy", pipeline.engine_for())
    monkeypatch.setattr(pipeline, "_chosen", list(pipeline._chosen))


def test_a_device_that_is_chosen_again_keeps_its_programs() -> None:
    name, a = mdt.devices()[0], np.ones((5, 6))
    mdt.device(name)
    engine = pipeline.engine_for()
    mdt.einsum("ij->i", a)
    programs = set(engine.structures)
    for _ in range(3):
        mdt.device(name)
        assert pipeline.engine_for() is engine
    assert programs
    assert programs <= set(engine.structures)
    np.testing.assert_array_equal(mdt.einsum("ij->i", a), a.sum(1))


def test_a_name_that_no_device_has_changes_nothing() -> None:
    engine = pipeline.engine_for()
    with pytest.raises(NoDeviceError, match="is called 'abacus'"):
        mdt.device("abacus")
    assert pipeline.engine_for() is engine
