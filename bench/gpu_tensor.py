"""Products of matrices on tensor cores against cuBLAS: one run, by turns, a process for each case.

`python -m bench.gpu_tensor` prints, for every case, the time of `torch.matmul(out=)` and of
schedules with bulk copies, and how far their results are from a product in float64. A process
that hangs is ended. The L2 cache is flushed by reading between runs.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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


def shapes_of(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of a case's operands."""
    text, i, j, k, b = CASES[name]
    extents = {"i": i, "j": j, "k": k, "b": b}
    first, second = text.split("->")[0].split(",")
    return tuple(extents[c] for c in first), tuple(extents[c] for c in second)


def schedules_of(problem: Any, target: Any) -> list[Any]:
    """The cost model's choice, and candidates of every kind."""
    from mdtensor.lower.candidates import ranked
    from mdtensor.lower.gpu_bulk import bulk_candidates

    first = ranked(problem, target)[0][1]
    found = list(bulk_candidates(problem, target))
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
    row, column, _ = schedule.tensor
    block = [schedule.registers[d] * schedule.threads[d] for d in (row, column)]
    parts = "x".join(str(schedule.parts[d]) for d in (*problem.kept, *problem.contracted))
    return (
        f"{block[0]}x{block[1]} stages {schedule.stages} parts {parts}"
        f" swath {schedule.swath} {schedule.results or 'direct'}"
    )


def measure(name: str, kind: str) -> None:
    """Prints the times of one case, of a type of elements or of float32 as tf32."""
    import cupy
    import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16
    import numpy as np
    import torch

    from mdtensor.api.engine import Engine
    from mdtensor.autotune.store import Store
    from mdtensor.backends.cuda_clock import CudaClock
    from mdtensor.backends.cupy import open_device
    from mdtensor.lower.problem import problem_from_md_hom
    from mdtensor.specs import TensorSpec
    from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

    text, shapes = CASES[name][0], shapes_of(name)
    precision = "tf32" if kind == "tf32" else None
    dtype = "float32" if precision else kind
    torch.backends.cuda.matmul.allow_tf32 = precision is not None
    device = open_device(0)
    engine, clock = Engine(device, Store.in_memory), CudaClock(device)
    specs = [TensorSpec.of(shape, dtype) for shape in shapes]
    problem = problem_from_md_hom(md_hom_from_einsum(text, specs, precision=precision))
    generator = cupy.random.default_rng(0)
    arrays = [(generator.random(s, np.float32) * 2 - 1).astype(dtype) for s in shapes]
    exact = cupy.einsum(text, *(a.astype("f8") for a in arrays))
    out = cupy.empty(exact.shape, dtype)
    schedules = schedules_of(problem, engine.target)

    def made(schedule: Any) -> Any:
        try:
            return device.nvrtc.compiled(engine.source(problem, schedule))
        except Exception as error:
            return error

    with ThreadPoolExecutor(16) as pool:
        compiled = list(pool.map(made, schedules))
    element = getattr(torch, dtype)
    bits = f"i{out.dtype.itemsize}"
    first, second = (torch.from_dlpack(a.view(bits)).view(element) for a in arrays)
    first = first.mT if text.startswith("k") else first
    second = second.mT if ",jk" in text else second
    result = torch.empty(exact.shape, dtype=first.dtype, device=first.device)
    torch.matmul(first, second, out=result)
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
    turns = [lambda: torch.matmul(first, second, out=result), functions[0]]
    turns += [functions[n] for n in best]
    times = [statistics.median(t) for t in clock.times(turns, 21, ahead=True)]
    labels = ["torch.matmul", f"untuned: {rows[0][0]}", *(rows[n][0] for n in best)]
    _, i, j, k, b = CASES[name]
    for label, seconds in zip(labels, times, strict=True):
        rate = 2e-12 * b * i * j * k / seconds
        print(
            f"{kind} {name:25} {label:62} {seconds * 1e6:9.1f} µs"
            f" {rate:6.0f} TFLOP/s {times[0] / seconds:.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--dtype", nargs="*", default=list(MOST_WRONG))
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.here:
        for name in options.only:
            measure(name, options.dtype[0])
        return
    import cupy
    import torch

    facts = cupy.cuda.runtime.getDeviceProperties(0)
    print(
        f"{datetime.now(UTC):%Y-%m-%d}: {facts['name'].decode()}, torch {torch.__version__}"
        f" (cuBLAS of CUDA {torch.version.cuda}), CuPy {cupy.__version__},"
        f" Python {platform.python_version()}; ratio: time of torch / ours",
        flush=True,
    )
    for dtype, name in itertools.product(options.dtype, options.only):
        command = [sys.executable, "-m", "bench.gpu_tensor", "--here", "--only", name]
        try:
            subprocess.run([*command, "--dtype", dtype], timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"{name}: hangs", flush=True)


if __name__ == "__main__":
    main()
