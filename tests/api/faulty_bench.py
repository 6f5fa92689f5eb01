"""A bench whose candidates sometimes hang, crash, or compute wrongly: for tests of tuning."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Callable
from typing import Any

from mdtensor.api.tuning import bench_worker


def open_bench(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The real bench, with a fault chosen by the schedule's text."""
    return faulty(bench_worker.open_bench(payload).__self__)  # type: ignore[attr-defined]


def faulty(benches: bench_worker.Benches) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A handler of real benches that sometimes fails."""

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "schedule" not in request:
            return benches.handle(request)
        fault = zlib.crc32(request["schedule"].encode()) % 5
        if fault == 0:
            time.sleep(60)
        if fault == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == 2:
            return {"status": "wrong", "detail": _corrupted(benches, request)}
        return benches.handle(request)

    return handle


def _corrupted(benches: bench_worker.Benches, request: dict[str, Any]) -> str:
    """What the check says when one element of the result is off."""
    benches.handle({**request, "best": None})
    arena = benches.bench_of(request["problem"]).arena
    flat = arena.outputs[0]
    flat.memory[flat.origin] += 1
    return arena.wrong()
