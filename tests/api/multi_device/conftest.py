"""Two devices for the tests here: the processor, and the processor with another pool.

Modules that say REAL_DEVICES have those of the machine.
"""

import pytest

from mdtensor.api.engine import registry
from mdtensor.api.multi_device import device_list
from mdtensor.backends import select
from mdtensor.bounded import Bounded
from tests.api.multi_device import pools


@pytest.fixture(autouse=True)
def two_devices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(request.module, "REAL_DEVICES", False):
        return
    monkeypatch.setattr(device_list, "_resolved", Bounded(8))
    monkeypatch.setattr(select, "_opencl_devices", pools.found)
    monkeypatch.setattr(select, "_cuda_devices", list)
    monkeypatch.setitem(registry._called, pools.POOL, pools.second_engine())
