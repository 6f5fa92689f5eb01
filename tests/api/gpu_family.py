"""The GPU family's kernels on a processor: a device that stands for a GPU in tests of tuning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mdtensor.api.engine.engine import Engine
from mdtensor.api.tuning import bench_worker
from mdtensor.autotune.store.store import Store
from mdtensor.backends.opencl.opencl_device import OpenCLDevice, devices
from mdtensor.specs import Target
from tests.api import faulty_bench
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


def open_bench(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A worker's entry: the bench of such a device."""
    return bench_worker.Benches(Engine(GpuOnProcessor(), Store.in_memory)).handle


def open_faulty_bench(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The same, with candidates that hang, crash and compute wrongly."""
    return faulty_bench.faulty(bench_worker.Benches(Engine(GpuOnProcessor(), Store.in_memory)))


class FaultError(Exception):
    """What stands for an error of a driver."""


def open_lost_bench(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The same, where every third candidate leaves the device in a state that nobody can use."""
    device = GpuOnProcessor()
    device.faults = (FaultError,)
    device.is_lost = lambda: True  # type: ignore[method-assign]
    load, loaded = device.load, 0

    def faulty_load(compiled: Any) -> Any:
        nonlocal loaded
        loaded += 1
        if loaded % 3 == 0:
            raise FaultError("an illegal memory access was encountered")
        return load(compiled)

    device.load = faulty_load  # type: ignore[method-assign]
    return bench_worker.Benches(Engine(device, Store.in_memory)).handle
