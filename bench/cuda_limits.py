"""What a CUDA device can do at best: copies of memory, and multiply-adds in registers.

A case of few bytes is bounded by a copy of as many, between the same events: a kernel takes some
3 µs there beside its bytes, whatever it does. float64 is multiplied by tensor cores as well.
"""

from __future__ import annotations

import statistics
from typing import Any

from bench.results import Limit
from bench.workload import Workload

_COPIED = 1 << 30
_ROUNDS = 9
_GROUPS_PER_CORE, _ITEMS, _CHAINS, _STEPS = 4, 256, 32, 1024
_FLOATS = """
extern "C" __global__ void fma_rate(float* out) {
  float x = out[0], y = out[1], a[CHAINS];
  #pragma unroll
  for (int n = 0; n < CHAINS; n++) a[n] = x + n;
  for (int step = 0; step < STEPS; step++) {
    #pragma unroll
    for (int n = 0; n < CHAINS; n++) a[n] = a[n] * x + y;
  }
  float total = 0;
  #pragma unroll
  for (int n = 0; n < CHAINS; n++) total += a[n];
  if (total == 1.5f) out[0] = total;
}
"""
_MATRICES_OF_DOUBLES = """
#if __CUDA_ARCH__ >= 900
#define MULTIPLY(n) asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 " \\
  "{%0, %1, %2, %3}, {%4, %4}, {%4}, {%0, %1, %2, %3};" \\
  : "+d"(a[n]), "+d"(a[n + 1]), "+d"(a[n + 2]), "+d"(a[n + 3]) : "d"(x));
#else
#define HALF(n) asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 " \\
  "{%0, %1}, {%2}, {%2}, {%0, %1};" : "+d"(a[n]), "+d"(a[n + 1]) : "d"(x));
#define MULTIPLY(n) HALF(n) HALF(n + 2)
#endif
extern "C" __global__ void fma_rate(double* out) {
  const double x = out[0];
  double a[CHAINS];
  #pragma unroll
  for (int n = 0; n < CHAINS; n++) a[n] = x + n;
  for (int step = 0; step < STEPS; step++) {
    #pragma unroll
    for (int n = 0; n < CHAINS; n += 4) { MULTIPLY(n) }
  }
  double total = 0;
  #pragma unroll
  for (int n = 0; n < CHAINS; n++) total += a[n];
  if (total == 1.5) out[0] = total;
}
"""
# By type: a kernel that adds up in registers, and operations of a work-item for each of these.
_KERNELS = {"float32": (_FLOATS, 2.0), "float64": (_MATRICES_OF_DOUBLES, 8.0)}


class CudaLimits:
    """The rates of a device, measured when first asked for, in the process of the cases."""

    def __init__(self, device: Any) -> None:
        self._cupy, self._clock, self._engine = device.cupy, device.clock, device.engine
        self._copies: dict[int, float] = {}
        self._flops: dict[str, float] = {}

    def copy_bytes(self, nbytes: int = 2 * _COPIED) -> float:
        """Bytes a second that a copy reads and writes, of so many both together."""
        half = max(1, nbytes // 2)
        if half not in self._copies:
            source = self._cupy.zeros(half, "u1")
            target = self._cupy.empty_like(source)
            runtime, current = self._cupy.cuda.runtime, self._cupy.cuda.get_current_stream

            def copied() -> None:
                to, kind = target.data.ptr, runtime.memcpyDeviceToDevice
                runtime.memcpyAsync(to, source.data.ptr, half, kind, current().ptr)

            self._copies[half] = 2 * half / self._median(copied)
        return self._copies[half]

    def fma_flops(self, dtype: str) -> float | None:
        """Operations a second of multiply-adds of a type; None for types that are not measured."""
        if dtype not in _KERNELS:
            return None
        if dtype not in self._flops:
            text, operations = _KERNELS[dtype]
            text = text.replace("CHAINS", str(_CHAINS)).replace("STEPS", str(_STEPS))
            module = self._cupy.cuda.function.Module()
            module.load(self._engine.device.nvrtc.kept(text).code)
            kernel = module.get_function("fma_rate")
            memory = self._cupy.full(2, 0.5, dtype)
            groups = self._engine.target.cores * _GROUPS_PER_CORE
            seconds = self._median(lambda: kernel((groups,), (_ITEMS,), (memory,)))
            self._flops[dtype] = operations * groups * _ITEMS * _CHAINS * _STEPS / seconds
        return self._flops[dtype]

    def _median(self, run: Any) -> float:
        run()
        return statistics.median(self._clock.times([run], _ROUNDS)[0])

    def limit(self, workload: Workload) -> Limit:
        """The least seconds of a case that begins with nothing in the L2 cache."""
        rate = self.fma_flops(str(workload.inputs[0].dtype))
        nbytes = workload.bytes_read + workload.bytes_written
        return bound(workload, rate, self.copy_bytes(nbytes))


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
