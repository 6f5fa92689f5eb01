"""The GPU family's kernels on a processor: a device that stands for a GPU in tests of tuning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdtensor.backends.opencl.opencl_device import OpenCLDevice, devices
from mdtensor.specs import Target
from tests.targets import H200


class GpuOnProcessor(OpenCLDevice):
    """A processor that says it is a small GPU; other processes compile."""

    target: Target

    def __init__(self) -> None:
        from mdtensor.backends.opencl.opencl_runtime import load_pyopencl

        super().__init__(load_pyopencl(), devices()[0][1])
        self.target = replace(
            H200, name="small GPU", dialect="opencl", driver="1", cores=4, max_threads=32
        )


class FaultError(Exception):
    """What stands for an error of a driver."""

    words = "an illegal memory access was encountered"


def lost_device() -> GpuOnProcessor:
    """Such a device, which no program can be loaded on and nobody can use after that."""
    device = GpuOnProcessor()
    device.faults = (FaultError,)
    device.is_lost = lambda: True  # type: ignore[method-assign]

    def load(*_: object) -> Any:
        raise FaultError(FaultError.words)

    device.load = load  # type: ignore[method-assign]
    return device
