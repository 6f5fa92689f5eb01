"""What a CUDA device can do at best: copies of large memory, and multiply-adds in registers."""

from __future__ import annotations

import statistics
from typing import Any

from bench.results import Limit
from bench.workload import Workload

_COPIED = 1 << 30
_ROUNDS = 9
_GROUPS_PER_CORE, _ITEMS, _CHAINS, _STEPS = 4, 256, 32, 1024
_SOURCE = """
extern "C" __global__ void fma_rate(REAL* out) {
  REAL x = out[0], y = out[1], a[CHAINS];
  #pragma unroll
  for (int n = 0; n < CHAINS; n++) a[n] = x + n;
  for (int step = 0; step < STEPS; step++) {
    #pragma unroll
    for (int n = 0; n < CHAINS; n++) a[n] = a[n] * x + y;
  }
  REAL total = 0;
  #pragma unroll
  for (int n = 0; n < CHAINS; n++) total += a[n];
  if (total == (REAL)1.5) out[0] = total;
}
"""
_TYPES = {"float32": "float", "float64": "double"}


class CudaLimits:
    """The rates of a device, measured when first asked for, in the process of the cases."""

    def __init__(self, device: Any) -> None:
        self._cupy, self._clock, self._engine = device.cupy, device.clock, device.engine
        self._copy: float | None = None
        self._flops: dict[str, float] = {}

    @property
    def copy_bytes(self) -> float:
        """Bytes a second that a copy of a gibibyte reads and writes."""
        if self._copy is None:
            source = self._cupy.zeros(_COPIED, "u1")
            target = self._cupy.empty_like(source)
            runtime = self._cupy.cuda.runtime
            current = self._cupy.cuda.get_current_stream

            def copied() -> None:
                runtime.memcpyAsync(
                    target.data.ptr,
                    source.data.ptr,
                    _COPIED,
                    runtime.memcpyDeviceToDevice,
                    current().ptr,
                )

            self._copy = 2 * _COPIED / self._median(copied)
        return self._copy

    def fma_flops(self, dtype: str) -> float | None:
        """Operations a second of multiply-adds of a type; None for types that are not measured."""
        if dtype not in _TYPES:
            return None
        if dtype not in self._flops:
            text = _SOURCE.replace("REAL", _TYPES[dtype])
            text = text.replace("CHAINS", str(_CHAINS)).replace("STEPS", str(_STEPS))
            module = self._cupy.cuda.function.Module()
            module.load(self._engine.device.nvrtc.kept(text).code)
            kernel = module.get_function("fma_rate")
            memory = self._cupy.full(2, 0.5, dtype)
            groups = self._engine.target.cores * _GROUPS_PER_CORE
            seconds = self._median(lambda: kernel((groups,), (_ITEMS,), (memory,)))
            self._flops[dtype] = 2.0 * groups * _ITEMS * _CHAINS * _STEPS / seconds
        return self._flops[dtype]

    def _median(self, run: Any) -> float:
        run()
        return statistics.median(self._clock.times([run], _ROUNDS)[0])

    def limit(self, workload: Workload) -> Limit:
        """The least seconds of a case that begins with nothing in the L2 cache."""
        rate = self.fma_flops(str(workload.inputs[0].dtype))
        return bound(workload, rate, self.copy_bytes)


def bound(workload: Workload, fma: float | None, copy: float) -> Limit:
    """What bounds a case by rates per second, memory read and written as a copy does.

    >>> from bench.families import named
    >>> bound(named("dot-2^24"), 60e12, 4e12).bound
    'memory'
    >>> bound(named("matmul-1024x1024x1024"), 60e12, 4e12).bound
    'arithmetic'
    """
    arithmetic = workload.flops / fma if fma else 0.0
    memory = (workload.bytes_read + workload.bytes_written) / copy
    what = "arithmetic" if arithmetic >= memory else "memory"
    return Limit(max(arithmetic, memory), what, fma, copy, copy)
