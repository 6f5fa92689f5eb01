"""Products and convolutions on tensor cores against cuBLAS and cuDNN: by turns, in one run.

`python -m bench.gpu_tensor` prints, for every case, the time of `torch.matmul(out=)` or of
`torch.nn.functional.conv2d` (channels last, `cudnn.benchmark`) and of schedules with bulk copies,
and how far their results are from those in float64. Every case has a process, which is ended if it
hangs. The L2 cache is flushed by reading between runs.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

SECONDS = 60
SHOWN = 3
MOST_WRONG = {"float16": 1e-3, "bfloat16": 8e-3, "tf32": 1e-3}  # of the largest result
# Einsum, extents of rows, columns and reduction, and how many of them.
CASES = {
    "1024": ("ik,kj->ij", 1024, 1024, 1024, 1),
    "2048": ("ik,kj->ij", 2048, 2048, 2048, 1),
    "4096": ("ik,kj->ij", 4096, 4096, 4096, 1),
    "8192": ("ik,kj->ij", 8192, 8192, 8192, 1),
    "4096 turned": ("ik,jk->ij", 4096, 4096, 4096, 1),
    "4096 both turned": ("ki,jk->ij", 4096, 4096, 4096, 1),
    "1024 turned": ("ik,jk->ij", 1024, 1024, 1024, 1),
    "8192 turned": ("ik,jk->ij", 8192, 8192, 8192, 1),
    "1000": ("ik,kj->ij", 1000, 1000, 1000, 1),
    "2000": ("ik,kj->ij", 2000, 2000, 2000, 1),
    "4000x3000x1000": ("ik,kj->ij", 4000, 3000, 1000, 1),
    "333x777x1000 turned": ("ik,jk->ij", 333, 777, 1000, 1),
    "1024x1000x777 rows turned": ("ki,kj->ij", 1024, 1000, 777, 1),
    "256x256x16384": ("ik,kj->ij", 256, 256, 16384, 1),
    "512x512x8192": ("ik,kj->ij", 512, 512, 8192, 1),
    "32 of 512": ("bik,bkj->bij", 512, 512, 512, 32),
}


# Images NHWC, filters KRSC, stride and padding: those of ResNet-50, which has 16 images here.
CONVOLUTIONS = {
    "28x28x128": ((16, 28, 28, 128), (128, 3, 3, 128), 1, 1),
    "30x30x128 without padding": ((16, 30, 30, 128), (128, 3, 3, 128), 1, 0),
    "56x56x64": ((16, 56, 56, 64), (64, 3, 3, 64), 1, 1),
    "14x14x256": ((16, 14, 14, 256), (256, 3, 3, 256), 1, 1),
    "7x7x512": ((16, 7, 7, 512), (512, 3, 3, 512), 1, 1),
    "56x56x128 by twos": ((16, 56, 56, 128), (128, 3, 3, 128), 2, 1),
    "56x56x256 by twos, 1x1": ((16, 56, 56, 256), (512, 1, 1, 256), 2, 0),
    "28x28x128 of 128": ((128, 28, 28, 128), (128, 3, 3, 128), 1, 1),
}


@dataclass(frozen=True)
class Workload:
    """What is computed: its `md_hom`, operands, exact result, and how torch computes it."""

    md_hom: Any
    arrays: list[Any]
    exact: Any
    peer: str
    said: Callable[[], Any]


def shapes_of(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of a case's operands."""
    if name in CONVOLUTIONS:
        return CONVOLUTIONS[name][:2]
    text, i, j, k, b = CASES[name]
    extents = {"i": i, "j": j, "k": k, "b": b}
    first, second = text.split("->")[0].split(",")
    return tuple(extents[c] for c in first), tuple(extents[c] for c in second)


def workload(name: str, kind: str) -> Workload:
    """A case with operands between -1 and 1."""
    import cupy
    import numpy as np
    import torch

    precision = "tf32" if kind == "tf32" else None
    dtype = "float32" if precision else kind
    torch.backends.cuda.matmul.allow_tf32 = precision is not None
    generator = cupy.random.default_rng(0)
    arrays = [(generator.random(s, np.float32) * 2 - 1).astype(dtype) for s in shapes_of(name)]
    element, bits = getattr(torch, dtype), f"i{arrays[0].dtype.itemsize}"
    tensors = [torch.from_dlpack(a.view(bits)).view(element) for a in arrays]
    if name in CONVOLUTIONS:
        return _convolution(name, arrays, tensors)
    return _product(name, arrays, tensors, precision)


def _product(name: str, arrays: list[Any], tensors: list[Any], precision: str | None) -> Workload:
    import cupy
    import torch

    from mdtensor.api.arrays.operands import spec_of
    from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

    text = CASES[name][0]
    md_hom = md_hom_from_einsum(text, list(map(spec_of, arrays)), precision=precision)
    exact = cupy.einsum(text, *(a.astype("f8") for a in arrays))
    first = tensors[0].mT if text.startswith("k") else tensors[0]
    second = tensors[1].mT if ",jk" in text else tensors[1]
    result = torch.empty(exact.shape, dtype=first.dtype, device=first.device)
    said = functools.partial(torch.matmul, first, second, out=result)
    return Workload(md_hom, arrays, exact, "torch.matmul", said)


def _convolution(name: str, arrays: list[Any], tensors: list[Any]) -> Workload:
    import cupy
    import torch

    from mdtensor.api.arrays.operands import spec_of
    from mdtensor.translate.convolutions.convolution_layout import (
        Geometry,
        convolution_from_layout,
        parse_layout,
    )
    from mdtensor.translate.convolutions.md_hom_from_convolution import md_homs_from_convolution

    _, (_, *window, _), stride, padding = CONVOLUTIONS[name]
    two = (stride,) * 2, ((padding,) * 2,) * 2, (1, 1)
    blocks = md_homs_from_convolution(
        convolution_from_layout(
            parse_layout("NHWC,KRSC->NPQK"),
            Geometry(*two, 1, False, (0, 0)),
            list(map(spec_of, arrays)),
        )
    )
    md_hom = blocks.whole or blocks.md_homs[0]
    image, taps = (array.astype("f8") for array in arrays)
    image = cupy.pad(image, ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
    shape = md_hom.outputs[0].spec.shape
    exact = cupy.zeros(shape)
    for r, s in itertools.product(*map(range, window)):
        rows, columns = (
            slice(first, first + (count - 1) * stride + 1, stride)
            for first, count in zip((r, s), shape[1:3], strict=True)
        )
        exact += image[:, rows, columns] @ taps[:, r, s].T
    torch.backends.cudnn.benchmark = True
    channels_first = [tensor.permute(0, 3, 1, 2) for tensor in tensors]  # as they lie in memory
    options = {"stride": stride, "padding": padding}
    said = functools.partial(torch.nn.functional.conv2d, *channels_first, **options)
    return Workload(md_hom, arrays, exact, "torch conv2d", said)


def schedules_of(problem: Any, target: Any, most: int) -> list[Any]:
    """The cost model's choice, and candidates of every kind, no more than `most` of each."""
    from mdtensor.lower.gpu.tma.tma_candidates import bulk_candidates
    from mdtensor.lower.gpu.tma.tma_cost import bulk_estimate
    from mdtensor.lower.search.candidates import ranked

    first = ranked(problem, target)[0][1]
    candidates = bulk_candidates(problem, target)
    found = sorted(candidates, key=lambda s: bulk_estimate(problem, s, target))[:most]
    alone = [s for s in found if all(s.parts[d] == 1 for d in problem.contracted)]
    whole = [replace(s, parts=_one_block_each(problem, s)) for s in alone]
    return list(dict.fromkeys([first, *found, *whole]))


def _one_block_each(problem: Any, schedule: Any) -> tuple[int, ...]:
    kept = {
        d: -(-problem.extent(d) // (schedule.registers[d] * schedule.threads[d]))
        for d in problem.kept
    }
    return tuple(kept.get(d, n) for d, n in enumerate(schedule.parts))


def said(problem: Any, schedule: Any) -> str:
    """A schedule in a line."""
    if not schedule.bulk:
        return "no bulk copies"
    column = schedule.tensor[1]
    length = {d: schedule.registers[d] * schedule.threads[d] for d in problem.kept}
    rows = [length[d] for d in schedule.loop_order if d != column and length[d] > 1]
    block = ["·".join(map(str, rows)), length[column]]
    parts = "x".join(str(schedule.parts[d]) for d in (*problem.kept, *problem.contracted))
    return (
        f"{block[0]}x{block[1]} stages {schedule.stages} parts {parts}"
        f" swath {schedule.swath} {schedule.results or 'direct'}"
    )


def measure(name: str, kind: str, most: int) -> None:
    """Prints the times of one case, of a type of elements or of float32 as tf32."""
    import cupy
    import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16
    import numpy as np

    from mdtensor.api.engine.engine import Engine
    from mdtensor.api.engine.kernel_choice import DIALECTS
    from mdtensor.autotune.store.store import Store
    from mdtensor.backends.cuda.cuda_timer import CudaClock
    from mdtensor.backends.cuda.cupy_device import open_device
    from mdtensor.kernels.program import program_of
    from mdtensor.lower.problem.problem import problem_from_md_hom

    device = open_device(0)
    engine, clock = Engine(device, Store.in_memory), CudaClock(device)
    work = workload(name, kind)
    problem, arrays, exact = problem_from_md_hom(work.md_hom), work.arrays, work.exact
    dtype = "float32" if kind == "tf32" else kind
    out = cupy.empty(exact.shape, dtype)
    schedules = schedules_of(problem, engine.target, most)

    def made(schedule: Any) -> Any:
        try:
            return device.nvrtc.compiled(
                program_of(problem, schedule, DIALECTS[engine.target.dialect], only_aligned=True)
            )
        except Exception as error:
            return error

    with ThreadPoolExecutor(16) as pool:
        compiled = list(pool.map(made, schedules))
    work.said()
    scale = float(cupy.abs(exact).max())
    rows: list[tuple[str, float, float, str]] = []
    functions: list[Any] = []
    for schedule, program in zip(schedules, compiled, strict=True):
        line = said(problem, schedule)
        if isinstance(program, Exception):
            print(f"  {line}: {type(program).__name__}: {program}"[:300], flush=True)
            continue
        loaded = device.load(program)
        out.fill(np.nan)
        loaded(*arrays, out)
        cupy.cuda.get_current_stream().synchronize()
        wrong = float(cupy.abs(out.astype("f8") - exact).max()) / scale
        seconds = statistics.median(clock.times([lambda p=loaded: p(*arrays, out)], 5)[0])
        machine = program.machine
        notes = f"{machine.registers} registers" + f", {machine.spilled} spilled" * bool(
            machine.spilled
        )
        rows.append((line, wrong, seconds, notes))
        functions.append(lambda p=loaded: p(*arrays, out))
        bad = "" if wrong < MOST_WRONG[kind] else "WRONG "
        print(f"  {bad}{line}: {seconds * 1e6:.1f} µs, off by {wrong:.1e}, {notes}", flush=True)
    right = [n for n, row in enumerate(rows) if row[1] < MOST_WRONG[kind]]
    best = sorted(right, key=lambda n: rows[n][2])[:SHOWN]
    turns = [work.said, functions[0]]
    turns += [functions[n] for n in best]
    times = [statistics.median(t) for t in clock.times(turns, 21, ahead=True)]
    labels = [work.peer, f"untuned: {rows[0][0]}", *(rows[n][0] for n in best)]
    products = math.prod(map(problem.extent, problem.dims))
    for label, seconds in zip(labels, times, strict=True):
        rate = 2e-12 * products / seconds
        print(
            f"{kind} {name:25} {label:62} {seconds * 1e6:9.1f} µs"
            f" {rate:6.0f} TFLOP/s {times[0] / seconds:.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[*CASES, *CONVOLUTIONS])
    parser.add_argument("--dtype", nargs="*", default=list(MOST_WRONG))
    parser.add_argument("--most", type=int, default=100, help="candidates of a case")
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.here:
        for name in options.only:
            measure(name, options.dtype[0], options.most)
        return
    import cupy
    import torch

    facts = cupy.cuda.runtime.getDeviceProperties(0)
    print(
        f"{datetime.now(UTC):%Y-%m-%d}: {facts['name'].decode()}, torch {torch.__version__}"
        f" (cuBLAS of CUDA {torch.version.cuda},"
        f" cuDNN {torch.backends.cudnn.version()}), CuPy {cupy.__version__},"
        f" Python {platform.python_version()}; ratio: time of torch / ours",
        flush=True,
    )
    for dtype, name in itertools.product(options.dtype, options.only):
        if dtype == "tf32" and name in CONVOLUTIONS:
            continue  # the precision of einsum alone
        command = [sys.executable, "-m", "bench.gpu_tensor", "--here", "--only", name]
        try:
            command += ["--dtype", dtype, "--most", str(options.most)]
            subprocess.run(command, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"{name}: hangs", flush=True)


if __name__ == "__main__":
    main()
