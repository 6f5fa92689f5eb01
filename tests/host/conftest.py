"""Two devices for the tests here: halves of a processor, each with memory of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mdtensor.backends.opencl import opencl_device
from mdtensor.backends.opencl.opencl_queue import OpenCLQueue
from mdtensor.backends.opencl.opencl_runtime import load_pyopencl
from mdtensor.host import Device, host_devices


@pytest.fixture(scope="session")
def halves() -> list[Device]:
    """A device for each core of the first processor, two at most."""
    cl = load_pyopencl()
    label, whole = opencl_device.devices()[0]
    parts = [whole, whole]
    if whole.max_compute_units > 1:
        parts = whole.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
    return [Device(OpenCLQueue(part, f"{label} {n}")) for n, part in enumerate(parts[:2])]


@pytest.fixture
def two_devices(halves: list[Device], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Device]]:
    """What `host.devices` finds."""
    found = [(each.name, "opencl", lambda: pytest.fail("it is open")) for each in halves]
    monkeypatch.setattr(host_devices, "_found", lambda: (found, None))
    monkeypatch.setattr(host_devices, "_opened", {each.name: each for each in halves})
    return halves
