"""Timing of runs on a GPU by CUDA events, with a flushed L2 cache."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.backends.cuda.cupy_device import CupyDevice

Run = Callable[[], Any]

_SECONDS = 0.04
_LEAST, _MOST = 3, 20
_ROUNDS = 8
_LONGEST_WAIT = 2.0
# Bytes that are read before each run, and by how much they exceed the cache at least. Read and not
# written: lines that must be written back first would slow the run down.
_FLUSHED, _TIMES_CACHE = 256 << 20, 4
_WIDE, _ITEMS, _GROUPS_PER_CORE = 16, 256, 8
_SOURCE = """
extern "C" __global__ void read_all(const float4* memory, long long count, float* result) {
  float total = 0.0f;
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long n = (long long)blockIdx.x * blockDim.x + threadIdx.x; n < count; n += step) {
    const float4 four = memory[n];
    total += four.x + four.y + four.z + four.w;
  }
  if (total == 1.5f) *result = total;
}
__device__ long long now() {
  long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}
extern "C" __global__ void wait(long long nanoseconds) {
  const long long begun = now();
  while (now() - begun < nanoseconds) {}
}
"""


class CudaClock:
    """Times runs that enqueue kernels on the current stream of a device.

    The time that the host needs to enqueue a run passes while the memory is read that precedes it.
    """

    def __init__(self, device: CupyDevice) -> None:
        self.cuda = device.cupy.cuda
        nbytes = max(_FLUSHED, _TIMES_CACHE * device.target.l2_bytes)
        module = self.cuda.function.Module()
        module.load(device.nvrtc.kept(_SOURCE).code)
        self._reading = module.get_function("read_all")
        self._waiting = module.get_function("wait")
        self._memory = device.cupy.zeros(nbytes // 4, "f4")
        self._result = device.cupy.zeros(1, "f4")
        self._int64 = device.cupy.int64
        self._count = self._int64(nbytes // _WIDE)
        self._groups = device.target.cores * _GROUPS_PER_CORE

    def flush(self) -> None:
        """Enqueues the reading of more memory than the L2 cache holds."""
        arguments = (self._memory, self._count, self._result)
        self._reading((self._groups,), (_ITEMS,), arguments)

    def timed(self, run: Run) -> float:
        """Seconds of one run."""
        return self.times([run], 1)[0][0]

    def times(self, runs: Sequence[Run], rounds: int, *, ahead: bool = False) -> list[list[float]]:
        """Seconds of runs in turn, `rounds` of each.

        Where the host takes longer to enqueue a run than the memory is read, it must be `ahead`:
        the device waits until all of a round is enqueued, or for two seconds at most. It is no more
        than a round since a stream that has a thousand kernels before it takes no more.
        """
        waiting = 0.0
        if ahead:
            begun = time.perf_counter()
            for run in runs:
                run()
            host = time.perf_counter() - begun
            waiting = min(_LONGEST_WAIT, 1.5 * host + 1e-4 * len(runs))
        events: list[list[tuple[Any, Any]]] = [[] for _ in runs]
        for _ in range(rounds):
            if ahead:
                self.cuda.get_current_stream().synchronize()
                self.hold(waiting)
            for run, pairs in zip(runs, events, strict=True):
                self.flush()
                start, end = self.cuda.Event(), self.cuda.Event()
                start.record()
                run()
                end.record()
                pairs.append((start, end))
        self.cuda.get_current_stream().synchronize()
        elapsed = self.cuda.get_elapsed_time
        return [[elapsed(start, end) * 1e-3 for start, end in pairs] for pairs in events]

    def hold(self, seconds: float) -> None:
        """Enqueue a kernel that spins for some seconds."""
        self._waiting((1,), (1,), (self._int64(seconds * 1e9),))

    def slowdown(self) -> float:
        """Always 1, as a GPU is taken to have no other users."""
        return 1.0

    def steady(self, run: Run) -> tuple[float, float]:
        """The median time of a run and its interquartile range, in seconds."""
        (first,) = self.times([run], _LEAST)
        count = int(_SECONDS / statistics.median(first))
        times = self.times([run], max(_LEAST, min(_MOST, count)))[0]
        quartiles = statistics.quantiles(times, n=4)
        return statistics.median(times), quartiles[2] - quartiles[0]

    def by_turns(
        self, runs: Sequence[Run | None], seconds: float = math.inf
    ) -> list[list[float] | None]:
        """Seconds of runs in turn, so that clock changes affect all alike; None for a missing run.

        Each has about as many turns as fit in the seconds, behind a first one, which takes longer
        and counts only where there is time for no other.
        """
        possible = [run for run in runs if run is not None]
        begun = time.perf_counter()
        found = self.times(possible, 1)
        fitting = int(min(_ROUNDS, seconds / max(time.perf_counter() - begun, 1e-6) - 1))
        each = iter(self.times(possible, fitting) if fitting > 0 else found)
        return [None if run is None else next(each) for run in runs]
