"""A bench on a CUDA device whose candidates sometimes hang or write where nothing is."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from mdtensor.api.tuning import bench_worker

_SOURCE = """
extern "C" __global__ void hang(volatile int* flag) { while (*flag == 0) {} }
extern "C" __global__ void stray(int* place) { place[1ll << 40] = 1; }
"""


def open_bench(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The real bench; before some candidates it runs a kernel that does what none should."""
    benches: bench_worker.Benches = bench_worker.open_bench(payload).__self__  # type: ignore[attr-defined]
    device: Any = benches.engine.device
    module = device.cupy.cuda.function.Module()
    module.load(device.nvrtc.kept(_SOURCE).code)
    flag = device.cupy.zeros(4, "i4")

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        fault = zlib.crc32(request.get("schedule", "").encode()) % 6
        if "schedule" in request and fault < 2:
            name = ("hang", "stray")[fault]
            module.get_function(name)((1,), (1,), (flag,))
        return benches.handle(request)

    return handle
