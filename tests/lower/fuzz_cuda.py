"""Random einsums by random GPU schedules on a CUDA device, against the oracle.

`python -m tests.lower.fuzz_cuda --count 300`. Work-items that forget to wait for each other may
still be right on a CPU, which runs them by turns; here they would not be. Half of the schedules
keep their accumulators in registers.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.backends.cupy import open_device
from mdtensor.errors import LoweringError
from mdtensor.kernels.cstyle import render
from mdtensor.kernels.cuda import CUDA
from mdtensor.lower.lowering import lowered
from tests.lower import fuzz
from tests.lower.random_problems import Operand, Placed, element_values
from tests.lower.random_resident import random_resident_schedule
from tests.lower.running import MismatchError, compare

RUNS = 3


def random_case(number: int, seed: int) -> fuzz.Case:
    """An einsum of fixed extents with a schedule of the GPU family, every other one resident."""
    case = fuzz.random_einsum_case(f"cuda{seed}/gpu/{number}")
    case = replace(case, general=False)
    problem = case.problem()
    rng = random.Random(number)
    if number % 2 and problem.contracted:
        return replace(case, schedule=random_resident_schedule(rng, problem))
    return replace(case, schedule=fuzz.random_schedule(rng, problem, "gpu"))


def placed_on(cupy: Any, operand: Operand, host: np.ndarray) -> Any:
    """A device array with the strides of an operand, elsewhere poisoned."""
    reach = [s * (n - 1) for s, n in zip(operand.strides, operand.shape, strict=True)]
    low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
    # One more element in front, so that not every array begins at a multiple of 16 bytes.
    front = 1 + operand.offset
    memory = cupy.full((high - low + 1 + front) * host.itemsize, 0xFF, np.uint8).view(host.dtype)
    strides = tuple(s * host.itemsize for s in operand.strides)
    view = cupy.ndarray(host.shape, host.dtype, memory[front - low :].data, strides)
    view[...] = cupy.asarray(host)
    return view


def check(device: Any, case: fuzz.Case, program: Any) -> None:
    """Runs a program several times; MismatchError where a result is not the oracle's."""
    rng = np.random.default_rng(case.seed)
    einsum = case.einsum
    small = any(np.dtype(a.dtype).kind in "fc" for a in (*einsum.operands, einsum.out))
    inputs = [
        Placed(o, element_values(o, rng, small=small or einsum.dtype is not None))
        for o in einsum.operands
    ]
    arrays = [placed.array for placed in inputs]
    expected, tolerance = fuzz.expectation(einsum, arrays)
    on_device = [placed_on(device.cupy, o, a) for o, a in zip(einsum.operands, arrays, strict=True)]
    for _ in range(RUNS):
        empty = np.full(einsum.out.shape, 77).astype(einsum.out.dtype)
        out = placed_on(device.cupy, einsum.out, empty)
        program(*on_device, out)
        compare(out.get(), expected, tolerance)


def compiled(device: Any, case: fuzz.Case) -> Any:
    """The program of a case; None where the schedule does not fit the problem."""
    try:
        nests = lowered(case.problem(), case.schedule)
    except LoweringError:
        return None
    return device.compile(render(nests, CUDA))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    device = open_device(0)
    counts: Counter[str] = Counter()
    cases = [random_case(number, options.seed) for number in range(options.count)]
    with ThreadPoolExecutor(16) as pool:
        programs = list(pool.map(lambda case: compiled(device, case), cases))
    for number, (case, program) in enumerate(zip(cases, programs, strict=True)):
        kind = "resident" if case.schedule.resident else "plain"
        if program is None:
            counts[f"{kind} refused"] += 1
            continue
        try:
            check(device, case, program)
            counts[f"{kind} right"] += 1
        except MismatchError as error:
            counts[f"{kind} wrong"] += 1
            print(f"{options.seed}/{number}: {error}\n    {case}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if any(what.endswith("wrong") for what in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
