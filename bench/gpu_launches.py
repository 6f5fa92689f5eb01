"""What launches as graphs take of the device, beyond what their kernels take.

`python -m bench.gpu_launches --out FILE` launches mdtensor's kernels of 3 to 40 µs, by turns:
singly through CuPy's `launchKernel`, as the graphs that calls are launched as, as graphs that were
uploaded before, and beside them the same by torch. Times are between events on the stream:

- *once*: around one launch, after more memory was read than the L2 cache holds;
- *queued*: of each of 200 launches, all of which are enqueued before the first one begins;
- *with another*: the same, taking turns with an addition by torch: of both together;
- *as enqueued*: of each of 200 launches that begin when they can, the host's time included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.cuda import Device
from bench.families import named
from bench.gpu_host import host
from bench.workloads import Contraction

Call = Callable[[], object]

CASES = (
    "table6-19-2x10x64",
    "matmul-10x500x64",
    "bmatmul-16x10x500x64",
    "matmul-1x1000x2048",
    "matmul-16x1000x2048",
    "matmul-333x777x513",
    "dot-2^24",
)
WAYS = ("single", "graph", "uploaded", "torch")
COLUMNS = ("once", "queued", "with another", "as enqueued")
ROUNDS, BATCH = 21, 200
_SETTLING, _MOST_CALLS = 3, 1000  # calls until kernels are final, and launched as a graph


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
    """What a call's program records, the first time that it is used on this stream.

    RuntimeError where its calls are never launched as a graph.
    """
    functions, found = device.engine.device.functions, list[Recording]()
    record = functions.recorded

    def recorded(launches: Sequence[Callable[..., None]], arguments: int) -> Any:
        found.append(Recording(tuple(launches), arguments))
        return record(launches, arguments)

    functions.recorded = recorded
    try:
        for _ in range(_SETTLING):  # first calls have others compiled in the background
            call()
            device.engine.settle()
        found.clear()
        for _ in range(_MOST_CALLS):
            call()
            if found:
                return found[0]
    finally:
        functions.recorded = record
    raise RuntimeError("these calls are never launched as a graph")


def ways_of(device: Device, workload: Contraction, kept: list[Any]) -> dict[str, Call]:
    """Ways to launch a case's kernels; `kept` takes what they have the addresses of."""
    import mdtensor

    functions, stream = device.engine.device.functions, device.cupy.cuda.get_current_stream()
    operands, outputs = device.operands(workload), device.outputs(workload)
    with mdtensor.tuning("off"):
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


class Batches:
    """Times of many launches in a row, between two events."""

    def __init__(self, device: Device) -> None:
        self.cuda, self.clock = device.cupy.cuda, device.clock

    def seconds(self, call: Call, *, ahead: bool) -> float:
        """Seconds of one of a batch's launches; `ahead`: all of them are enqueued before."""
        self.cuda.Device().synchronize()
        if ahead:
            begun = time.perf_counter()
            for _ in range(BATCH):
                call()
            host_seconds = time.perf_counter() - begun
            self.cuda.Device().synchronize()
            self.clock.hold(2 * host_seconds + 1e-3)
        start, end = self.cuda.Event(), self.cuda.Event()
        start.record()
        for _ in range(BATCH):
            call()
        end.record()
        end.synchronize()
        return self.cuda.get_elapsed_time(start, end) * 1e-3 / BATCH


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
    batches = Batches(device)
    once = device.clock.times(list(ways.values()), rounds, ahead=True)
    found = {name: [[*each], [], [], []] for name, each in zip(ways, once, strict=True)}
    for turn in range(rounds):
        for name in ways if turn % 2 == 0 else reversed(ways):
            call = ways[name]
            _, queued, turns, enqueued = found[name]
            queued.append(batches.seconds(call, ahead=True))
            turns.append(batches.seconds(then(call, another), ahead=True))
            enqueued.append(batches.seconds(call, ahead=False))
    return {name: [statistics.median(each) for each in columns] for name, columns in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    lines: list[str] = []

    def tell(line: str) -> None:
        print(line, flush=True)
        lines.append(line)
        if options.out is not None:
            options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")

    device, kept = Device(), list[Any]()
    small = device.torch.from_dlpack(device.cupy.ones(4096, "f4"))
    another = partial(device.torch.add, small, small, out=device.torch.empty_like(small))
    for line in host():
        tell(line)
    tell(f"µs of the device, medians of {options.rounds} rounds by turns, batches of {BATCH}")
    tell("| case | way | " + " | ".join(COLUMNS) + " |")
    tell("|---|---|" + "--:|" * len(COLUMNS))
    alone = times_of(device, {"torch.add alone": another}, lambda: None, options.rounds)
    for name in (name for name in CASES if options.only in name):
        workload = named(name)
        assert isinstance(workload, Contraction)
        found = times_of(device, ways_of(device, workload, kept), another, options.rounds)
        for way, seconds in {**found, **alone}.items():
            tell(f"| {name} | {way} | " + " | ".join(f"{s * 1e6:.2f}" for s in seconds) + " |")
        alone = {}


if __name__ == "__main__":
    main()
