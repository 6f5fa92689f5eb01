"""General kernels of a GPU beside those with constants: what they take longer, and to compile.

`python -m bench.general_kernels --out FILE` compiles general kernels by several schedules for each
case, compares what they compute with the first choice's results, and times them by turns with it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from bench.machine import tell
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.generic_selection import launch_sizes, without_parts
from mdtensor.autotune.store.store import Store
from mdtensor.backends.cuda.cuda_timer import CudaClock
from mdtensor.backends.cuda.cupy_device import open_device
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.gpu.space.generic_candidates import general_candidates, in_parts
from mdtensor.lower.gpu.space.gpu_ranking import gpu_schedule
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import estimated
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction

ROUNDS = 3
_MOST = 4  # general schedules of a case, the best by the cost model
SHORT = "bfloat16"


@dataclass(frozen=True)
class Case:
    """An einsum or a reduction of operands of one type."""

    text: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    combine: str = ""
    scans: bool = False

    def md_hom(self) -> MDHom:
        """What is computed."""
        specs = [TensorSpec.of(shape, _dtype(self.dtype)) for shape in self.shapes]
        if not self.combine:
            return md_hom_from_einsum(self.text, specs)
        combine: Any = {"j": self.combine} if self.scans else self.combine
        return md_hom_from_reduction(Reduction(self.text, combine=combine, scans=self.scans), specs)

    def __str__(self) -> str:
        shapes = " ".join("x".join(map(str, shape)) for shape in self.shapes)
        return f"{self.combine or 'einsum'} {self.text} {shapes} {self.dtype}"


def _dtype(name: str) -> np.dtype:
    if name != SHORT:
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def _square(n: int) -> tuple[tuple[int, ...], ...]:
    return ((n, n), (n, n))


CASES = (
    Case("ik,kj->ij", _square(1000)),
    Case("ik,kj->ij", _square(4096)),
    Case("ik,kj->ij", _square(1000), SHORT),
    Case("ik,kj->ij", _square(4096), SHORT),
    Case("ik,jk->ij", ((1777, 4096), (4096, 4096)), SHORT),
    Case("ik,kj->ij", ((16, 2048), (2048, 1000))),
    Case("bhqd,bhkd->bhqk", ((8, 16, 517, 64), (8, 16, 517, 64)), SHORT),
    Case("n h+r w+s c, k r s c -> n h w k", ((16, 30, 30, 128), (128, 3, 3, 128))),
    Case("n h+r w+s c, k r s c -> n h w k", ((16, 30, 30, 128), (128, 3, 3, 128)), SHORT),
    Case("ij->i", ((4096, 4099),), combine="max"),
    Case("ij->i", ((131072, 517),), combine="add"),
    Case("ij->", ((4096, 4099),), combine="add"),
    Case("ij->j", ((4096, 4099),), combine="add"),
    Case("ij,j->ij", ((4096, 4099), (4099,))),
    Case("ij->ji", ((4096, 4099),)),
    Case("ij->ij", ((64, 65537),), combine="add", scans=True),
)


class Kernels:
    """One device, with what is compiled on it."""

    def __init__(self) -> None:
        self.engine = Engine(open_device(0), Store.in_memory)
        self.clock = CudaClock(self.engine.device)  # type: ignore[arg-type]

    def general(self, problem: Problem, schedule: Schedule) -> tuple[float, Any]:
        """Seconds to compile a general kernel, and the program for a problem."""
        structure, sizes = generalised(problem)
        variant = without_parts(problem, schedule)
        begun = time.perf_counter()
        source = self.engine.source(structure, variant)
        program = self.engine.device.compile(source, [1] * len(source.sizes))
        seconds = time.perf_counter() - begun
        spread = in_parts(problem, variant, self.engine.target)
        return seconds, program.bound((*sizes, *launch_sizes(sizes, variant, spread.parts)))

    def measure(self, case: Case) -> list[str]:
        """Lines that say what was found of a case."""
        engine = self.engine
        md_hom = case.md_hom()
        problem = engine.problem_of(md_hom)
        begun = time.perf_counter()
        own = engine.untuned(problem)
        seconds = time.perf_counter() - begun
        target = engine.target
        ranking = sorted(
            general_candidates(problem, target), key=lambda s: estimated(problem, s, target)
        )
        variants = [gpu_schedule(problem, target), *ranking[:_MOST]]
        arrays = [_array(array.spec) for array in md_hom.inputs]
        outs = [cupy.empty(array.spec.shape, array.spec.dtype) for array in md_hom.outputs]
        own.program(*arrays, *outs)
        right = [out.astype("f4") for out in outs]
        lines, runs = [f"{case}"], {f"own, chosen in {seconds:.2f} s": own.program}
        with ThreadPoolExecutor(4) as pool:
            found = [(v, pool.submit(self.general, problem, v)) for v in variants]
        for variant, waiting in found:
            named = f"registers {variant.registers} threads {variant.threads} parts {variant.parts}"
            try:
                seconds, program = waiting.result()
            except (CompileError, LoweringError) as error:
                lines.append(f"  {named}: {str(error).splitlines()[0]}")
                continue
            for out in outs:
                out.data.memset(0, out.nbytes)
            program(*arrays, *outs)
            error = max(_error(*pair) for pair in zip(outs, right, strict=True))
            whole = in_parts(problem, without_parts(problem, variant), target)
            expected = estimated(problem, whole, target)
            named += f" expected {expected * 1e6:.1f} us, compiled in {seconds:.2f} s"
            runs[f"{named}, error {error:.1e}"] = program
        calls = [partial(program, *arrays, *outs) for program in runs.values()]
        times = [statistics.median(each) for each in self.clock.times(calls, ROUNDS)]
        for name, seconds in zip(runs, times, strict=True):
            lines.append(f"  {seconds * 1e6:10.1f} us {seconds / times[0]:7.2f} {name}")
        return lines


def _array(spec: TensorSpec) -> Any:
    made = cupy.random.default_rng(0).integers(-4, 5, spec.shape).astype("f4")
    return made.astype(spec.dtype)


def _error(found: Any, right: Any) -> float:
    wide = found.astype("f4")
    return float(abs(wide - right).max() / (1 + abs(right).max()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the cases and prints what was found, also to a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.general_kernels", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--out", type=Path, help="a file to write")
    options = parser.parse_args(arguments)
    kernels, begun = Kernels(), time.perf_counter()
    for case in CASES:
        if options.only not in str(case):
            continue
        text = "\n".join(kernels.measure(case))
        tell(text, options.out, f"[{time.perf_counter() - begun:5.1f}] ")


if __name__ == "__main__":
    sys.exit(main())
