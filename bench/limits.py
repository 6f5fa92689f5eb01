"""What the device can do at best: multiply-adds in registers, and plain reads and writes.

The limits are calls like those of engines, timed in the same rounds, on the same arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.workload import Arrays, Call, Workload

LIMITS = "limits"
FMA_ROUNDS = 400_000
FMA_ACCUMULATORS = 12
# What fits into caches may be read faster than memory delivers it.
IN_MEMORY_BYTES = 48 << 20

_SOURCE = """
kernel void fma_rate(global REAL* out) {
  REAL VECTOR x = (REAL VECTOR)(out[0]), y = (REAL VECTOR)(out[1]);
  REAL VECTOR DECLARED;
  for (int n = 0; n < ROUNDS; n++) { STEPS }
  REAL VECTOR total = TOTAL;
  out[2 + get_group_id(0)] = total.s0 + total.s1;
}
"""
_READ = """
kernel void read_rate(global const float* a, ulong vectors, global float* out) {
  ulong part = vectors / get_num_groups(0), first = part * get_group_id(0), run = part / STREAMS;
  float16 DECLARED;
  for (ulong n = first; n < first + run; n++) { STEPS }
  vstore16(TOTAL, get_group_id(0), out);
}
"""
_WRITE = """
kernel void write_rate(global float16* a, ulong vectors) {
  ulong part = vectors / get_num_groups(0), first = part * get_group_id(0);
  float16 value = (float16)(1.0f);
  for (ulong n = first; n < first + part; n++) __builtin_nontemporal_store(value, a + n);
}
"""
# How many runs a group reads at once; which is best depends on the prefetchers.
READ_STREAMS = (1, 2, 8)
_TYPES = {"float64": "double", "float32": "float", "float16": "float", "int32": "int"}


class Limits:
    """The calls "fma", "read …" (all operands) and "write" (all results) of a case.

    Integers other than int32 have no arithmetic limit here: what is best for them is no chain of
    multiply-adds of their own type. Neither have records.
    """

    packages = ()

    def __init__(self) -> None:
        from mdtensor.backends.host.aligned_memory import aligned_empty
        from mdtensor.backends.opencl.opencl_device import devices, open_device

        self.device = open_device(devices()[0][1])
        self.aligned_empty = aligned_empty
        self.groups = self.device.target.cores
        self._arithmetic: dict[str, tuple[Call, float]] = {}

    def calls(
        self, workload: Workload, operands: list[np.ndarray], outs: Arrays
    ) -> Mapping[str, Call]:
        """The calls that bound a case; transfers only where the operands exceed the caches."""
        calls: dict[str, Call] = {}
        if (real := _real(workload)) is not None:
            calls["fma"] = self._fma(real)[0]
        if is_in_memory(workload):
            if workload.bytes_read > IN_MEMORY_BYTES:
                calls |= {f"read {n}": self._read(n, operands) for n in READ_STREAMS}
            if workload.bytes_written > IN_MEMORY_BYTES:
                calls["write"] = self._write(outs)
        return calls

    def flops(self, workload: Workload) -> float:
        """Operations of the call "fma" of a case."""
        real = _real(workload)
        assert real is not None
        return self._fma(real)[1]

    def _fma(self, real: str) -> tuple[Call, float]:
        if real in self._arithmetic:
            return self._arithmetic[real]
        lanes = self.device.target.vector_bytes // (8 if real == "double" else 4)
        lanes = max(2, min(16, lanes))
        names = [f"a{n}" for n in range(FMA_ACCUMULATORS)]
        text = (
            _SOURCE.replace("REAL VECTOR", f"{real}{lanes}")
            .replace("REAL", real)
            .replace("ROUNDS", str(FMA_ROUNDS))
            .replace("DECLARED", ", ".join(f"{a} = x + {n}" for n, a in enumerate(names)))
            .replace("STEPS", " ".join(f"{a} = {a} * x + y;" for a in names))
            .replace("TOTAL", " + ".join(names))
        )
        memory = np.full(64 + 4 * self.groups, 0.5, {"double": "f8", "int": "i4"}.get(real, "f4"))
        kernel = self.device.cl.Kernel(self.device.build(text), "fma_rate")
        kernel.set_arg(0, self.device.cl.SVM(memory))
        groups = 2 * self.groups
        call = self._launch(kernel, groups, memory)
        flops = 2.0 * groups * FMA_ROUNDS * FMA_ACCUMULATORS * lanes
        self._arithmetic[real] = call, flops
        return call, flops

    def _read(self, streams: int, operands: list[np.ndarray]) -> Call:
        numbers = range(streams)
        text = (
            _READ.replace("STREAMS", str(streams))
            .replace("DECLARED", ", ".join(f"s{n} = 0" for n in numbers))
            .replace("STEPS", " ".join(f"s{n} += vload16(n + {n} * run, a);" for n in numbers))
            .replace("TOTAL", " + ".join(f"s{n}" for n in numbers))
        )
        program, groups = self.device.build(text), 2 * self.groups
        sums = self.aligned_empty((16 * groups,), np.float32)
        launches: list[Call] = []
        for operand in operands:
            kernel = self.device.cl.Kernel(program, "read_rate")
            kernel.set_arg(0, self.device.cl.SVM(operand))
            kernel.set_arg(1, np.uint64(operand.nbytes // 64))
            kernel.set_arg(2, self.device.cl.SVM(sums))
            launches.append(self._launch(kernel, groups, operand, sums))

        return _one_after_another(launches)

    def _write(self, outs: Arrays) -> Call:
        program = self.device.build(_WRITE)
        launches: list[Call] = []
        for out in outs:
            flat = out.reshape(-1).view(np.uint8)
            flat = flat[-flat.ctypes.data % 64 :]
            kernel = self.device.cl.Kernel(program, "write_rate")
            kernel.set_arg(0, self.device.cl.SVM(flat))
            kernel.set_arg(1, np.uint64(flat.nbytes // 64))
            launches.append(self._launch(kernel, self.groups, flat))
        return _one_after_another(launches)

    def _launch(self, kernel: Any, groups: int, *kept: np.ndarray) -> Call:
        cl, queue = self.device.cl, self.device.queue

        def launch(_: tuple[np.ndarray, ...] = kept) -> None:
            cl.enqueue_nd_range_kernel(queue, kernel, (groups,), (1,))
            queue.finish()

        return launch


def _one_after_another(launches: Sequence[Call]) -> Call:
    def launch_all() -> None:
        for launch in launches:
            launch()

    return launch_all


def _real(workload: Workload) -> str | None:
    """The type of OpenCL C that a case computes with, if its multiply-adds are a limit."""
    return _TYPES.get(workload.inputs[0].dtype.name)


def is_in_memory(workload: Workload) -> bool:
    """Whether a case reads or writes more than caches hold."""
    return workload.bytes_read + workload.bytes_written > IN_MEMORY_BYTES


def bound(
    workload: Workload, fma: float | None, read: float | None, write: float | None
) -> tuple[float, str] | None:
    """The least seconds that a case can take and what bounds it, from rates per second.

    >>> from bench.families import selected
    >>> bound(selected("dot-2^24")[0], 500e9, 100e9, None)
    (0.00134217728, 'memory')
    """
    arithmetic = workload.flops / fma if fma else 0.0
    memory = 0.0
    if is_in_memory(workload):
        memory += workload.bytes_read / read if read else 0.0
        memory += workload.bytes_written / write if write else 0.0
    if not arithmetic and not memory:
        return None
    return (arithmetic, "arithmetic") if arithmetic >= memory else (memory, "memory")
