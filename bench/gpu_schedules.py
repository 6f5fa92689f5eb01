"""Candidate schedules on a GPU against the libraries: one run, alternating, results as JSON.

`python -m bench.gpu_schedules --out DIRECTORY` measures every case untuned (the cost model's
first choice) and with many candidates, beside CuPy and torch. The L2 cache is flushed by reading
between runs. Every candidate is compared with a product in float64 before its time counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.store import Store
from mdtensor.backends.cuda.cuda_timer import CudaClock
from mdtensor.backends.cuda.cupy_device import CupyDevice, open_device
from mdtensor.lower.gpu.base.block_shapes import blocked
from mdtensor.lower.gpu.base.device_limits import can_stream
from mdtensor.lower.gpu.space.gpu_ranking import fits
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import matrix_candidates
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.problem import points as points_of
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

WORTH_SWATHS = 1 << 34  # points of a problem whose groups are many


@dataclass(frozen=True)
class Case:
    """An einsum on operands of one type."""

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "f4"


CASES = (
    Case("mm 1024", "ik,kj->ij", ((1024, 1024), (1024, 1024))),
    Case("mm 4096", "ik,kj->ij", ((4096, 4096), (4096, 4096))),
    Case("mm 8192", "ik,kj->ij", ((8192, 8192), (8192, 8192))),
    Case("mm 10x500x64", "ik,kj->ij", ((10, 64), (64, 500))),
    Case("bmm 16x10x500x64", "bik,bkj->bij", ((16, 10, 64), (16, 64, 500))),
    Case("mm 16x1000x2048", "ik,kj->ij", ((16, 2048), (2048, 1000))),
    Case("mm 1x1000x2048", "ik,kj->ij", ((1, 2048), (2048, 1000))),
    Case("dot 2^24", "i,i->", ((1 << 24,), (1 << 24,))),
    Case("matvec 4096", "ij,j->i", ((4096, 4096), (4096,))),
    Case("half mm 1024", "ik,kj->ij", ((1024, 1024), (1024, 1024)), "f2"),
    Case("half mm 4096", "ik,kj->ij", ((4096, 4096), (4096, 4096)), "f2"),
    Case("half mm 8192", "ik,kj->ij", ((8192, 8192), (8192, 8192)), "f2"),
    Case("half mm 4096 turned", "ik,jk->ij", ((4096, 4096), (4096, 4096)), "f2"),
    Case("half bmm 32x512x512x512", "bik,bkj->bij", ((32, 512, 512), (32, 512, 512)), "f2"),
    Case("half ccsd(t)", "gdab,efgc->abcdef", ((32, 16, 16, 24), (24, 16, 32, 16)), "f2"),
    Case("ccsd(t)", "gdab,efgc->abcdef", ((24, 16, 16, 24), (24, 16, 24, 16))),
)


def peers(case: Case, arrays: list[Any]) -> dict[str, Callable[[], Any]]:
    """The libraries' ways to compute a case."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    tensors = [torch.from_dlpack(array) for array in arrays]
    found: dict[str, Callable[[], Any]] = {
        "torch.einsum": lambda: torch.einsum(case.text, *tensors)
    }
    if case.text == "i,i->":
        found |= {"torch.dot": lambda: torch.dot(*tensors), "cupy.dot": lambda: cupy.dot(*arrays)}
    elif len(case.shapes[0]) <= 3:
        found |= {
            "torch.matmul": lambda: torch.matmul(*tensors),
            "cupy.matmul": lambda: cupy.matmul(*arrays),
        }
    return found


def problem_of(case: Case) -> Problem:
    """The problem of a case."""
    specs = [TensorSpec.of(shape, case.dtype) for shape in case.shapes]
    return problem_from_md_hom(md_hom_from_einsum(case.text, specs))


def schedules_of(problem: Problem, engine: Engine, sampled: int) -> list[Schedule]:
    """The cost model's favourites, some made by hand, and a sample of the others."""
    order = [schedule for _, schedule in ranked(problem, engine.target)]
    chosen = order[:10]
    matrices = list(matrix_candidates(problem, engine.target))
    chosen += random.Random(1).sample(matrices, min(sampled * 8, len(matrices)))
    if matrices:
        return list(dict.fromkeys(chosen))
    for points, items, depth in (
        ((16, 8), (8, 16), 8),
        ((8, 8), (16, 16), 8),
        ((8, 4), (8, 8), 32),
    ):
        schedule = blocked(problem, points, items, depth)
        if fits(problem, schedule, engine.target):
            chosen.append(schedule)
    chosen += varied(problem, engine, order[:3])
    rng = random.Random(0)
    half = order[10 : max(11, len(order) // 3)]
    chosen += rng.sample(half, min(sampled, len(half)))
    return list(dict.fromkeys(chosen))


def varied(problem: Problem, engine: Engine, favourites: list[Schedule]) -> list[Schedule]:
    """The favourites and some made by hand, with stages, swaths and streaming stores."""
    stages: list[Schedule] = list(favourites)
    for points, items, depth in (
        ((16, 8), (8, 16), 8),
        ((16, 8), (8, 16), 16),
        ((8, 8), (16, 16), 16),
        ((8, 4), (4, 16), 32),
        ((8, 8), (8, 8), 16),
        ((8, 8), (8, 16), 16),
        ((8, 8), (24, 8), 8),
        ((8, 8), (24, 16), 8),
        ((8, 8), (24, 16), 32),
        ((8, 8), (8, 32), 8),
        ((8, 8), (8, 16), 8),
    ):
        schedule = blocked(problem, points, items, depth, by_source=True)
        stages.append(schedule)
        if not any(schedule.staged):
            continue
        stages += [replace(schedule, stages=n) for n in (2, 3)]
        turned = tuple(pad > 0 for pad in schedule.padding)
        chunks = tuple(
            1 if any(t and s.uses(d) for t, s in zip(turned, problem.streams, strict=True)) else c
            for d, c in enumerate(schedule.chunks)
        )
        chunks = tuple(
            c if problem.reduced[d] else n
            for d, (c, n) in enumerate(zip(schedule.chunks, chunks, strict=True))
        )
        stages += [
            replace(schedule, stages=n, as_source=turned, chunks=chunks, prefetch=False)
            for n in (2, 3, 4)
            if any(turned)
        ]
    found = [replace(s, swath=swath) for s in stages for swath in (0, 8)]
    if points_of(problem) < WORTH_SWATHS:
        found = stages
    if can_stream(problem):
        found += [replace(s, streaming=not s.streaming) for s in stages]
    return [s for s in dict.fromkeys(found) if fits(problem, s, engine.target)]


def measured(
    case: Case, device: CupyDevice, engine: Engine, clock: CudaClock, sampled: int
) -> dict[str, Any]:
    """All times of one case."""
    problem = problem_of(case)
    generator = cupy.random.default_rng(0)
    arrays = [
        (generator.random(shape, np.float32) * 2 - 1).astype(case.dtype) for shape in case.shapes
    ]
    exact = cupy.einsum(case.text, *(array.astype(np.float64) for array in arrays))
    begun = time.perf_counter()
    schedules = schedules_of(problem, engine, sampled)
    chosen = time.perf_counter() - begun

    def compiled(schedule: Schedule) -> Any:
        try:
            compiled = device.nvrtc.compiled(engine.source(problem, schedule))
            return device.load(compiled), compiled.machine
        except Exception as error:  # a schedule that cannot be compiled is a result too
            return f"{type(error).__name__}: {error}"[:300]

    begun = time.perf_counter()
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(compiled, schedules))
    compiling = time.perf_counter() - begun
    out = cupy.empty(exact.shape, case.dtype)
    scale = float(cupy.abs(exact).max()) or 1.0
    rows: list[dict[str, Any]] = []
    programs: list[Any] = []
    for schedule, found in zip(schedules, made, strict=True):
        row: dict[str, Any] = {"schedule": json.loads(schedule.to_json())}
        rows.append(row)
        if isinstance(found, str):
            programs.append(None)
            row["error"] = found
            continue
        program, machine = found
        programs.append(program)
        out.fill(np.nan)
        program(*arrays, out)
        row["difference"] = float(cupy.abs(out - exact).max()) / scale
        if not row["difference"] < 1e-3:
            row["error"] = "wrong"
            continue
        row["registers"], row["spilled"] = machine.registers, machine.spilled
        first = clock.times([lambda p=program: p(*arrays, out)], 3)[0]
        row["seconds"] = statistics.median(first)
    libraries = peers(case, arrays)
    names = list(libraries)
    for function in libraries.values():
        function()
    fine = [n for n, row in enumerate(rows) if "seconds" in row]
    best = sorted(fine, key=lambda n: rows[n]["seconds"])[:3]
    turns = [*best, *fine[:1]]
    functions = [*libraries.values(), *(lambda p=programs[n]: p(*arrays, out) for n in turns)]
    times = [statistics.median(t) for t in clock.times(functions, 15, ahead=True)]
    library = dict(zip(names, times, strict=False))
    for n, seconds in zip(turns, times[len(names) :], strict=True):
        rows[n]["confirmed"] = seconds
    fastest = min(library, key=lambda name: library[name])
    tuned = min(rows[n]["confirmed"] for n in best)
    untuned = rows[fine[0]]["confirmed"]
    print(
        f"{case.name:18} {fastest:13} {library[fastest] * 1e6:9.1f} µs;"
        f" untuned {untuned * 1e6:9.1f} ({library[fastest] / untuned:.2f}),"
        f" tuned {tuned * 1e6:9.1f} ({library[fastest] / tuned:.2f});"
        f" {len(fine)} of {len(rows)} in {chosen:.1f} + {compiling:.1f} s",
        flush=True,
    )
    return {
        "case": case.name,
        "text": case.text,
        "shapes": case.shapes,
        "peers": library,
        "untuned": untuned,
        "tuned": tuned,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sampled", type=int, default=30)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the cases' names")
    options = parser.parse_args()
    device = open_device(0)
    engine = Engine(device, Store.in_memory)
    clock = CudaClock(device)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    results = {
        "date": date,
        "device": engine.target.name,
        "driver": engine.target.driver,
        "python": platform.python_version(),
        "cupy": cupy.__version__,
        "cases": [],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{date}-nvidia-h200.json"
    for case in CASES:
        if any(part in case.name for part in options.only):
            try:
                results["cases"].append(measured(case, device, engine, clock, options.sampled))
            except Exception as error:
                print(f"{case.name}: {type(error).__name__}: {error}", flush=True)
            file.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
