"""What memory bounds on a GPU: candidate schedules against copy bandwidth and torch.

`python -m bench.gpu_memory --out DIRECTORY` measures stencils, element-wise kernels, reductions
and scans untuned (the cost model's first choice) and by many candidates, in one run with torch's
ways to compute the same and a copy of the same number of bytes. The L2 cache is flushed by reading
between runs. Every candidate is compared with a result in float64 before its time counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.store import Store
from mdtensor.backends.cuda.cuda_timer import CudaClock
from mdtensor.backends.cuda.cupy_device import open_device
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import bytes_moved
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function

TAPS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
Arrays = Sequence[Any]


@dataclass(frozen=True)
class Case:
    """An md_hom, shapes of its operands, what it gives in float64, and torch's ways."""

    name: str
    md_hom: MDHom
    shapes: tuple[tuple[int, ...], ...]
    exact: Callable[..., Any]
    peers: Callable[..., dict[str, Callable[[], Any]]]
    inside: bool = False  # whether only the inside of the result is written
    bins: int = 0  # of operands that are whole numbers below that


def star(u: Any) -> Any:
    around = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]
    return (u[0, 0, 0] + around) * (1 / 7)


def blur(u: Any) -> Any:
    return sum(TAPS[r] * TAPS[s] * u[r - 2, s - 2] for r in range(5) for s in range(5))


def shifted(u: Any, reach: int, steps: Sequence[int]) -> Any:
    """The inside of an array, moved."""
    return u[tuple(slice(reach + n, s - reach + n) for n, s in zip(steps, u.shape, strict=True))]


def stars(u: Any) -> list[Any]:
    moves = [(0, 0, 0)]
    for axis in range(3):
        moves += [tuple(n if d == axis else 0 for d in range(3)) for n in (-1, 1)]
    return [shifted(u, 1, move) for move in moves]


def blurred(u: Any) -> Any:
    places = ((r, s) for r in range(5) for s in range(5))
    return sum(TAPS[r] * TAPS[s] * shifted(u, 2, (r - 2, s - 2)) for r, s in places)


def torch_star(u: Any) -> dict[str, Callable[[], Any]]:
    import torch

    terms = stars(u)
    out = torch.empty_like(terms[0], memory_format=torch.contiguous_format)

    def sliced() -> Any:
        torch.add(terms[0], terms[1], out=out)
        for term in terms[2:]:
            out.add_(term)
        return out.mul_(1 / 7)

    return {"torch slices": sliced}


def torch_blur(u: Any) -> dict[str, Callable[[], Any]]:
    import torch

    row = torch.tensor(TAPS, device=u.device)
    weights = torch.outer(row, row)[None, None]
    return {"torch conv2d": lambda: torch.nn.functional.conv2d(u[None, None], weights)[0, 0]}


def stencil(name: str, function: Any, shape: tuple[int, ...], border: str) -> Case:
    found = stencil_from_function(function, [TensorSpec.of(shape)])
    md_hom = md_homs_from_stencil(found, Border(border))[0]
    exact = (lambda u: sum(stars(u)) / 7) if function is star else blurred
    peers = torch_star if function is star else torch_blur
    return Case(name, md_hom, (shape,), exact, peers, border != "valid")


def einsum(name: str, text: str, *shapes: tuple[int, ...]) -> Case:
    def peers(*tensors: Any) -> dict[str, Callable[[], Any]]:
        import torch

        found: dict[str, Callable[[], Any]] = {
            "torch.einsum": lambda: torch.einsum(text, *tensors),
        }
        if text == "i,i->i":
            found["torch.mul"] = lambda: torch.mul(*tensors)
        if text == "ij->ji":
            found = {"torch transpose": tensors[0].T.contiguous}
        if text == "i,i->":
            found["torch.dot"] = lambda: torch.dot(*tensors)
        if text == "ij,j->i":
            found["torch.mv"] = lambda: torch.mv(*tensors)
        if text == "ij->j":
            found["torch.sum"] = lambda: tensors[0].sum(0)
        return found

    md_hom = md_hom_from_einsum(text, [TensorSpec.of(shape) for shape in shapes])
    return Case(name, md_hom, shapes, lambda *arrays: cupy.einsum(text, *arrays), peers)


def scan(name: str, shape: tuple[int, ...], axis: int) -> Case:
    letters = "ij"[: len(shape)]
    asked = Reduction(f"{letters}->{letters}", combine={letters[axis]: "add"}, scans=True)

    def peers(tensor: Any) -> dict[str, Callable[[], Any]]:
        import torch

        return {"torch.cumsum": lambda: torch.cumsum(tensor, axis)}

    md_hom = md_hom_from_reduction(asked, [TensorSpec.of(shape)])
    return Case(name, md_hom, (shape,), lambda x: cupy.cumsum(x, axis), peers)


def best_of_rows(name: str, shape: tuple[int, int]) -> Case:
    def peers(tensor: Any) -> dict[str, Callable[[], Any]]:
        import torch

        return {"torch.argmax": lambda: torch.argmax(tensor, 1)}

    md_hom = md_hom_from_reduction(Reduction("ij->i", combine="argmax"), [TensorSpec.of(shape)])
    return Case(name, md_hom, (shape,), lambda x: cupy.argmax(x, 1), peers)


def histogram(name: str, count: int, bins: int) -> Case:
    def peers(tensor: Any) -> dict[str, Callable[[], Any]]:
        import torch

        return {"torch.bincount": lambda: torch.bincount(tensor, minlength=bins)}

    asked = Reduction("e->b", lambda e, *, b: 1 if e == b else 0, extents={"b": bins})
    md_hom = md_hom_from_reduction(asked, [TensorSpec.of((count,), "i4")])
    return Case(name, md_hom, ((count,),), lambda x: _counts(x, bins), peers, bins=bins)


def _counts(x: Any, bins: int) -> Any:
    return cupy.bincount(x.astype(np.int32), minlength=bins)


def min_plus(name: str, n: int) -> Case:
    def peers(a: Any, b: Any) -> dict[str, Callable[[], Any]]:
        return {"torch.amin": lambda: (a[:, :, None] + b[None]).amin(1)}

    def exact(a: Any, b: Any) -> Any:
        return cupy.stack([(row[:, None] + b).min(0) for row in a])

    specs = [TensorSpec.of((n, n))] * 2
    md_hom = md_hom_from_reduction(
        Reduction("ik,kj->ij", lambda a, b: a + b, combine="lesser"), specs
    )
    return Case(name, md_hom, ((n, n), (n, n)), exact, peers)


CASES = (
    stencil("jacobi3d 512", star, (512,) * 3, "valid"),
    stencil("jacobi3d 256", star, (256,) * 3, "valid"),
    stencil("jacobi3d 512 inside", star, (512,) * 3, "constant"),
    stencil("jacobi3d 256 inside", star, (256,) * 3, "constant"),
    stencil("gaussian 4096", blur, (4096, 4096), "valid"),
    einsum("product 2^26", "i,i->i", (1 << 26,), (1 << 26,)),
    einsum("transpose 8192", "ij->ji", (8192, 8192)),
    einsum("outer 8192", "i,j->ij", (8192,), (8192,)),
    einsum("dot 2^24", "i,i->", (1 << 24,), (1 << 24,)),
    einsum("matvec 4096", "ij,j->i", (4096, 4096), (4096,)),
    einsum("column sums 4096", "ij->j", (4096, 4096)),
    best_of_rows("argmax rows 4096", (4096, 4096)),
    histogram("histogram 2^24 in 256", 1 << 24, 256),
    histogram("histogram 2^24 in 4096", 1 << 24, 4096),
    min_plus("min-plus 1024", 1024),
    scan("scan 2^24", (1 << 24,), 0),
    scan("scan 2^27", (1 << 27,), 0),
    scan("scan rows 4096", (4096, 4096), 1),
    scan("scan columns 4096", (4096, 4096), 0),
)


def schedules_of(problem: Problem, engine: Engine, sampled: int) -> list[Schedule]:
    """The cost model's favourites, the best of each kind, and a sample of the others."""
    pairs = ranked(problem, engine.target)[:-1]
    order = [schedule for seconds, schedule in pairs if seconds < 4 * pairs[0][0]]
    chosen = order[:8]
    kinds: dict[object, list[Schedule]] = {}
    for schedule in order:
        near = schedule.chunks[-1:] if problem.kept else ()
        kind = (near, schedule.lead, schedule.streaming, any(schedule.staged))
        kinds.setdefault(kind, []).append(schedule)
    chosen += [schedule for found in kinds.values() for schedule in found[:3]]
    rest = order[8 : max(9, 2 * len(order) // 3)]
    chosen += random.Random(0).sample(rest, min(sampled, len(rest)))
    return list(dict.fromkeys(chosen))


def _drawn(generator: Any, shape: tuple[int, ...], bins: int) -> Any:
    if bins:
        return cupy.random.randint(0, bins, shape).astype(np.int32)
    return generator.random(shape, np.float32) * 2 - 1


def measured(case: Case, engine: Engine, clock: CudaClock, sampled: int) -> dict[str, Any]:
    """All times of one case."""
    import torch

    problem = engine.problem_of(case.md_hom)
    generator = cupy.random.default_rng(0)
    arrays = [_drawn(generator, shape, case.bins) for shape in case.shapes]
    exact = case.exact(*(array.astype(np.float64) for array in arrays))
    schedules = schedules_of(problem, engine, sampled)

    def compiled(schedule: Schedule) -> Any:
        try:
            return engine.specialised(problem, schedule, "", 0.0).program
        except Exception as error:  # a schedule that cannot be compiled is a result too
            return f"{type(error).__name__}: {error}"[:300]

    begun = time.perf_counter()
    with ThreadPoolExecutor(16) as pool:
        programs = list(pool.map(compiled, schedules))
    compiling = time.perf_counter() - begun
    (output,) = case.md_hom.outputs
    out = cupy.empty(output.spec.shape, output.spec.dtype)
    written = out[(slice(1, -1),) * out.ndim] if case.inside else out
    scale = float(cupy.abs(exact).max()) or 1.0
    rows: list[dict[str, Any]] = []
    for schedule, program in zip(schedules, programs, strict=True):
        row: dict[str, Any] = {"schedule": json.loads(schedule.to_json())}
        rows.append(row)
        if isinstance(program, str):
            row["error"] = program
            continue
        worst = 0.0
        for _ in range(2):  # counters of a program must serve its next launch too
            out.fill(np.nan if out.dtype.kind == "f" else -1)
            program(*arrays, out)
            worst = max(worst, float(cupy.abs(written - exact).max()) / scale)
        row["difference"] = worst
        if not worst < 1e-3:
            row["error"] = "wrong"
            continue
        row["seconds"] = statistics.median(clock.times([lambda p=program: p(*arrays, out)], 3)[0])
    nbytes = bytes_moved(problem)
    tensors = [torch.from_dlpack(array) for array in arrays]
    libraries = case.peers(*tensors)
    source, target = (cupy.empty(nbytes // 2, np.uint8) for _ in range(2))
    source.fill(1)
    copy = lambda: cupy.cuda.runtime.memcpyAsync(  # noqa: E731
        target.data.ptr, source.data.ptr, source.nbytes, 3, cupy.cuda.get_current_stream().ptr
    )
    fine = [n for n, row in enumerate(rows) if "seconds" in row]
    best = sorted(fine, key=lambda n: rows[n]["seconds"])[:3]
    turns = [*best, *fine[:1]]
    functions = [copy, *libraries.values(), *(lambda p=programs[n]: p(*arrays, out) for n in turns)]
    for function in functions:
        function()
    times = [statistics.median(t) for t in clock.times(functions, 15, ahead=True)]
    copied, *others = times
    library = dict(zip(libraries, others, strict=False))
    for n, seconds in zip(turns, others[len(libraries) :], strict=True):
        rows[n]["confirmed"] = seconds
    fastest = min(library, key=lambda name: library[name])
    tuned, untuned = min(rows[n]["confirmed"] for n in best), rows[fine[0]]["confirmed"]
    wrong = sum(row.get("error") == "wrong" for row in rows)
    print(
        f"{case.name:20} copy {copied * 1e6:7.1f} µs; {fastest:16} {library[fastest] * 1e6:8.1f};"
        f" untuned {untuned * 1e6:7.1f} (copy {copied / untuned:.2f},"
        f" library {library[fastest] / untuned:.2f});"
        f" tuned {tuned * 1e6:7.1f} ({copied / tuned:.2f}, {library[fastest] / tuned:.2f});"
        f" {len(fine)} of {len(rows)}, {wrong} wrong, compiled in {compiling:.0f} s",
        flush=True,
    )
    return {
        "case": case.name,
        "shapes": case.shapes,
        "bytes": nbytes,
        "copy": copied,
        "peers": library,
        "untuned": untuned,
        "tuned": tuned,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sampled", type=int, default=30)
    parser.add_argument("--only", default="", help="part of the names of the cases to measure")
    parser.add_argument("--without", default="-", help="part of the names of the others")
    options = parser.parse_args()
    device = open_device(0)
    engine, clock = Engine(device, Store.in_memory), CudaClock(device)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    results: dict[str, Any] = {
        "date": date,
        "device": engine.target.name,
        "driver": engine.target.driver,
        "python": platform.python_version(),
        "cupy": cupy.__version__,
        "cases": [],
    }
    part = f"-{options.only.strip()}" if options.only else ""
    file = options.out / f"{date}-nvidia-h200-memory{part}.json"
    for case in CASES:
        if options.only in case.name and options.without not in case.name:
            try:
                results["cases"].append(measured(case, engine, clock, options.sampled))
            except Exception as error:
                print(f"{case.name}: {type(error).__name__}: {error}", flush=True)
            file.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
