"""What launches take of the device beyond what their kernels take: singly, and as graphs.

`python -m bench.gpu_launches --out FILE` launches mdtensor's tuned kernels of 3 to 40 µs, by turns:
singly through CuPy's `launchKernel`, as the graphs that calls are launched as, as graphs that were
uploaded before, and beside them torch's. On the legacy stream and, where a case's name says so, on
one of its own. Times are between events on the stream:

- *alone*: around one launch, after more memory was read than the L2 cache holds, each way for
  itself: as searches time candidates;
- *by turns*: the same, when all ways take turns and are enqueued ahead, as in the rows of results;
- *cold code*: the same, after a kernel of more instructions than an instruction cache holds;
- *queued*: of each of 200 launches, all of which are enqueued before the first one begins;
- *with another*: the same, taking turns with an addition by torch: of both together;
- *as enqueued*: of each of 200 launches that begin when they can, the host's time included.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.cuda import Device
from bench.families import EINSUM, named
from bench.gpu_host import host
from bench.gpu_profile import tune
from bench.workloads import Contraction

Call = Callable[[], object]

CASES = (
    "matmul-10x500x64",
    "bmatmul-16x10x500x64",
    "matmul-1x1000x2048",
    "matmul-16x1000x2048",
    "matmul-333x777x513",
    "dot-2^24",
)
WAYS = ("single", "graph", "uploaded", "torch")
COLUMNS = ("alone", "by turns", "cold code", "queued", "with another", "as enqueued")
ROUNDS, BATCH = 21, 200
OWN_STREAM = ("bmatmul-16x10x500x64", "matmul-1x1000x2048")
_SETTLING, _CALLS = 8, 150  # calls until kernels are final, and launched as a graph

# Kernels of 130 kB each, and as little memory: together twice an instruction cache.
_STEPS = 8000
_LONG = ("long_code", "more_code")
_LONG_SOURCE = "".join(
    f'extern "C" __global__ void {name}(float* result, float x) {{\n  float y = x;\n'
    + "".join(f"  y = fmaf(y, x, {n}.{digit}f);\n" for n in range(_STEPS))
    + "  if (y == 1.5f) *result = y;\n}\n"
    for digit, name in enumerate(_LONG)
)


@dataclass(frozen=True, slots=True)
class Recording:
    """Kernels that were recorded as a graph: how each is launched, and where its arguments are."""

    launches: Sequence[Callable[..., None]]
    arguments: int

    def once(self, stream: int) -> None:
        """Launches them one by one."""
        for launch in self.launches:
            launch(stream, self.arguments, 0)


def recording_of(device: Device, call: Call) -> Recording:
    """What a call's program records as a graph on this stream, once no other one takes its place.

    RuntimeError where its calls are never launched as a graph.
    """
    functions, found = device.engine.device.functions, list[Recording]()
    record = functions.recorded

    def recorded(launches: Sequence[Callable[..., None]], arguments: int) -> Any:
        found.append(Recording(tuple(launches), arguments))
        return record(launches, arguments)

    functions.recorded = recorded
    try:
        for _ in range(_SETTLING):  # calls have other programs compiled in the background
            for _ in range(_CALLS):
                call()
            device.engine.settle()
    finally:
        functions.recorded = record
    if not found:
        raise RuntimeError("these calls are never launched as a graph")
    return found[-1]  # the arguments of earlier ones went with their programs


def ways_of(device: Device, workload: Contraction, kept: list[Any]) -> dict[str, Call]:
    """Ways to launch a case's kernels; `kept` takes what they have the addresses of."""
    import mdtensor

    functions, stream = device.engine.device.functions, device.cupy.cuda.get_current_stream()
    operands, outputs = device.operands(workload), device.outputs(workload)
    plan = mdtensor.compile(workload.subscripts, *operands)
    found = recording_of(device, lambda: plan(*operands, out=outputs[0]))
    graph, uploaded = (functions.recorded(found.launches, found.arguments) for _ in range(2))
    uploaded.graph.upload(stream)
    kept.extend((operands, outputs, plan, graph, uploaded))
    tensors = [device.torch.from_dlpack(operand) for operand in operands]
    by_torch = partial(device.torch.einsum, workload.subscripts, *tensors)
    if workload.name.startswith(("matmul", "table6")):
        result = device.torch.from_dlpack(outputs[0])
        by_torch = partial(device.torch.mm, *tensors, out=result)
    return {
        "single": lambda: found.once(stream.ptr),
        "graph": lambda: graph.launch(stream.ptr),
        "uploaded": lambda: uploaded.launch(stream.ptr),
        "torch": by_torch,
    }


class Times:
    """Times of launches between two events on the current stream."""

    def __init__(self, device: Device) -> None:
        cupy = device.cupy
        self.cuda, self.clock = cupy.cuda, device.clock
        module = cupy.cuda.function.Module()
        module.load(device.engine.device.nvrtc.kept(_LONG_SOURCE).code)
        self._long = [module.get_function(name) for name in _LONG]
        self._cores = device.engine.target.cores
        self._arguments = cupy.zeros(1, "f4"), cupy.float32(0.5)

    def after_other_code(self, call: Call) -> float:
        """Seconds of one launch, after kernels that leave it neither memory nor code in caches."""
        self.clock.hold(1e-3)
        for kernel in self._long:
            kernel((self._cores,), (128,), self._arguments)
        self.clock.flush()
        return self._between(call, 1)

    def batch(self, call: Call, *, ahead: bool) -> float:
        """Seconds of one of a batch's launches; `ahead`: all of them are enqueued before."""
        self.cuda.Device().synchronize()
        if ahead:
            begun = time.perf_counter()
            for _ in range(BATCH):
                call()
            host_seconds = time.perf_counter() - begun
            self.cuda.Device().synchronize()
            self.clock.hold(2 * host_seconds + 1e-3)
        return self._between(call, BATCH)

    def _between(self, call: Call, count: int) -> float:
        start, end = self.cuda.Event(), self.cuda.Event()
        start.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return self.cuda.get_elapsed_time(start, end) * 1e-3 / count


def then(first: Call, second: Call) -> Call:
    """A call that makes both."""

    def both() -> None:
        first()
        second()

    return both


def times_of(
    device: Device, ways: dict[str, Call], another: Call, rounds: int
) -> dict[str, list[float]]:
    """Median seconds of every way, a number for each of the columns."""
    for call in ways.values():
        call()
    times, clock = Times(device), device.clock
    by_turns = clock.times(list(ways.values()), rounds, ahead=True)
    found = {
        name: [clock.times([call], rounds)[0], each, [], [], [], []]
        for (name, call), each in zip(ways.items(), by_turns, strict=True)
    }
    for turn in range(rounds):
        for name in ways if turn % 2 == 0 else reversed(ways):
            call = ways[name]
            _, _, cold, queued, turns, enqueued = found[name]
            cold.append(times.after_other_code(call))
            queued.append(times.batch(call, ahead=True))
            turns.append(times.batch(then(call, another), ahead=True))
            enqueued.append(times.batch(call, ahead=False))
    return {name: [statistics.median(each) for each in columns] for name, columns in found.items()}


def rows_of(device: Device, workload: Contraction, another: Call, rounds: int) -> Iterator[str]:
    """The rows of a case, on the streams on which it is launched.

    They are found in a thread of their own, in which no program was launched before: its calls are
    recorded while we look.
    """
    with ThreadPoolExecutor(1) as thread:
        for is_own in (False, True)[: 1 + (workload.name in OWN_STREAM)]:
            found = thread.submit(on_stream, device, workload, another, rounds, is_own)
            name = workload.name + (", own stream" if is_own else "")
            for way, seconds in found.result().items():
                yield f"| {name} | {way} | " + " | ".join(f"{s * 1e6:.2f}" for s in seconds) + " |"


def on_stream(
    device: Device, workload: Contraction, another: Call, rounds: int, is_own: bool
) -> dict[str, list[float]]:
    """Times of a case on the legacy stream or on one of its own."""
    kept, torch = list[Any](), device.torch.cuda
    device.cupy.cuda.Device().use()
    with contextlib.ExitStack() as streams:
        if is_own:
            own = streams.enter_context(device.cupy.cuda.Stream(non_blocking=True))
            streams.enter_context(torch.stream(torch.ExternalStream(own.ptr)))
        return times_of(device, ways_of(device, workload, kept), another, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of a case's search")
    options = parser.parse_args()
    lines: list[str] = []

    def tell(line: str) -> None:
        print(line, flush=True)
        lines.append(line)
        if options.out is not None:
            options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")

    workloads = [named(name) for name in CASES if options.only in name]
    tune(EINSUM, workloads, options.budget)
    device = Device()
    small = device.torch.from_dlpack(device.cupy.ones(4096, "f4"))
    another = partial(device.torch.add, small, small, out=device.torch.empty_like(small))
    for line in host():
        tell(line)
    tell(f"µs of the device, medians of {options.rounds} rounds, batches of {BATCH}")
    tell("| case | way | " + " | ".join(COLUMNS) + " |")
    tell("|---|---|" + "--:|" * len(COLUMNS))
    alone = times_of(device, {"torch.add": another}, lambda: None, options.rounds)["torch.add"]
    tell("| none | torch.add | " + " | ".join(f"{s * 1e6:.2f}" for s in alone) + " |")
    for workload in workloads:
        assert isinstance(workload, Contraction)
        for row in rows_of(device, workload, another, options.rounds):
            tell(row)


if __name__ == "__main__":
    main()
