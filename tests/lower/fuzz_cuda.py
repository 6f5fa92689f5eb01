"""Random einsums or md_homs by random schedules of the GPU family, as CUDA, against the oracle.

`python -m tests.lower.fuzz_cuda --count 2000 --seed 1`, with CuPy and a GPU; `--md-homs` for random
md_homs, `--space` for schedules from the space of the search. Work-items that forget to wait for
each other may still be right on a CPU, which runs them by turns; here they would not be. Otherwise
half of the schedules are of work-items that keep what they can in registers. Several processes
share the work, since compiling takes longer than running; a case without an answer runs again,
alone: it crashed its process, as a compiler may (docs/adr/0004), or hangs, or only waited.

`compute-sanitizer --tool memcheck python -m tests.lower.fuzz_cuda --here` finds accesses that miss
an array, and `--tool racecheck` what work-items forget to wait for, in this process alone, some
seven cases a second; `--within` ends it in time.

`--opencl` needs neither: the processor computes by them, whatever has no cluster, and by places and
words that are as narrow as on a GPU.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from types import SimpleNamespace

import numpy as np

from mdtensor.autotune.space.space import Space
from mdtensor.errors import CompileError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.opencl import OPENCL
from mdtensor.lower.gpu.space.gpu_kinds import kinds_of
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.schedule.schedule import MOST_OF_CLUSTER, Schedule
from mdtensor.lower.search.schedule_space import parameters_of, schedule_from
from mdtensor.specs import Target
from tests.lower import fuzz
from tests.lower.md_hom_cases import MDHomCase
from tests.lower.random_resident import random_gpu_schedule
from tests.lower.running import MismatchError, device
from tests.targets import H200

SPACE = "from the space"
OPENCL_TOO = "as OpenCL"
SMALL = replace(H200, max_threads=64)  # what a processor computes by turns
SECONDS = 60  # for one case, compilation included


class OnGpu:
    """A CUDA device whose programs take NumPy arrays: copies there and back, gaps included."""

    def __init__(self) -> None:
        from mdtensor.backends.cuda.cupy_device import open_device

        self.device = open_device(0)
        # Memory of a pool goes on where an array ends, and compute-sanitizer would not know.
        self.device.cupy.cuda.set_allocator(None)

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> Copying:
        return Copying(self.device.cupy, self.device.compile(source, sizes), source)


class Copying:
    """A program for arrays of NumPy."""

    def __init__(self, cupy, program, source: KernelSource) -> None:
        self.cupy, self.program, self.source = cupy, program, source

    def bound(self, sizes: Sequence[int]) -> Copying:
        return Copying(self.cupy, self.program.bound(sizes), self.source)

    def __call__(self, *arrays: np.ndarray) -> None:
        moved = [self._moved(array) for array in arrays]
        self.program(*(there for _, _, there in moved))
        self.cupy.cuda.get_current_stream().synchronize()
        roles = [argument.role for argument in self.source.arguments]
        for (here, memory, _), role in zip(moved, roles, strict=False):
            if role == "output":
                here[...] = memory.get()

    def _moved(self, array: np.ndarray):
        """All bytes between an array's ends, a copy of them on the device, the array in it."""
        low, high = np.lib.array_utils.byte_bounds(array)
        first = array.__array_interface__["data"][0]
        holder = np.lib.stride_tricks.as_strided(array, (1,) * array.ndim, array.strides)
        here = bytes_at(low, high - low, holder)
        # As far from a multiple of 64 bytes as on the host, where not every array begins at one.
        front = low % 64
        memory = self.cupy.empty(front + here.size, np.uint8)[front:]
        memory[...] = self.cupy.asarray(here)
        there = self.cupy.ndarray(
            array.shape, array.dtype, memory.data + (first - low), strides=array.strides
        )
        return here, memory, there


def bytes_at(address: int, count: int, keeps: np.ndarray) -> np.ndarray:
    """The bytes from an address on, as an array."""
    interface = {
        "data": (address, not keeps.flags.writeable),
        "shape": (count,),
        "typestr": "|u1",
        "version": 3,
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


@cache
def gpu() -> OnGpu:
    return OnGpu()


def drawn(problem: Problem, target: Target, rng: random.Random, most: int = 48) -> Schedule:
    """A schedule from the space of a device, of any kind that the problem has.

    `most` are the computations in an unrolled register tile: what the compiler has to do.
    """
    space = Space(parameters_of(problem, target), node_limit=200_000)
    while True:
        kind = rng.choice(list(kinds_of(problem, target)))
        place = space.nearest({**space.sample(rng), "kind": kind}, rng, pinned=["kind"])
        assert place is not None
        schedule = schedule_from(problem, target, place)
        if math.prod(schedule.registers) <= most and not misfit(problem, schedule, target):
            return schedule


def of_cluster(rng: random.Random, problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule, or for a third of those that can: one whose groups are clusters."""
    left, parts = MOST_OF_CLUSTER, list(schedule.parts)
    for d in problem.dims:
        if problem.reduced[d]:
            parts[d] = max(1, min(left, parts[d] if parts[d] > 1 else rng.choice((1, 2, 3, 8))))
            left //= parts[d]
        else:
            parts[d] = 1 << 20  # a group for each block
    found = replace(schedule, parts=tuple(parts), last_group=False, cluster=True)
    can = found.resident and problem.scanned < 0 and found.splits(problem)
    return found if can and rng.random() < 1 / 3 and is_valid(problem, found) else schedule


def case_of(name: str) -> fuzz.Case | MDHomCase:
    """The case of that name, with other schedules for half of its stages, or all from the space."""
    name, _, more = name.partition(" ")
    case, here = fuzz.random_case(name), more.endswith(OPENCL_TOO)
    rng = random.Random(f"{name}/resident")
    if here and isinstance(case, MDHomCase):
        case = replace(case, narrow=True)
    if more.startswith(SPACE):
        case = replace(case, general=False)
        target = SMALL if here else gpu().device.target
        most = 64 if here else 256
        schedules = tuple(drawn(p, target, rng, most) for p in case.problems())
        if isinstance(case, MDHomCase):
            return replace(case, schedules=schedules)
        return replace(case, schedule=schedules[0])
    schedules = tuple(
        random_gpu_schedule(rng, problem)
        if here
        else of_cluster(rng, problem, random_gpu_schedule(rng, problem))
        if rng.random() < 0.5
        else schedule
        for problem, schedule in zip(case.problems(), case.schedules, strict=True)
    )
    if isinstance(case, MDHomCase):
        return replace(case, schedules=schedules)
    (schedule,) = schedules
    return replace(case, schedule=schedule)


def outcome(name: str) -> tuple[str, str]:
    """The name of a case, and what came of it."""
    on, dialect = (device, OPENCL) if name.endswith(OPENCL_TOO) else (gpu, CUDA)
    try:
        return name, "ok" if fuzz.check(case_of(name), on, dialect) else "refused"
    except MismatchError as error:
        return name, f"MISMATCH {error}"
    except CompileError as error:
        return name, f"COMPILE {error}"
    except Exception as error:
        return name, f"ERROR {type(error).__name__}: {str(error)[:300]}"


def alone(run: Callable[[str], tuple[str, str]], name: str, seconds: float) -> str:
    """What comes of a case in a process of its own: a crash is told from what takes too long.

    A pool says nothing of a process that ended: its case is never answered.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_told, args=(run, name, sender), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return f"HUNG no answer in {seconds:g} s, alone"
        return receiver.recv()
    except EOFError:
        process.join()
        return f"CRASHED the process ended with {process.exitcode}"
    finally:
        process.kill()


def _told(run: Callable[[str], tuple[str, str]], name: str, sender: Connection) -> None:
    sender.send(run(name)[1])


def run_here(names: Sequence[str], within: float) -> int:
    """Runs cases in this process, and shows each; 1 where one is wrong."""
    start = time.monotonic()
    counts: Counter[str] = Counter()
    for name in names:
        if time.monotonic() - start > within:
            break
        result = outcome(name)[1]
        counts[result.partition(" ")[0]] += 1
        print(name, result, flush=True)
    print(dict(counts), f"in {time.monotonic() - start:.0f} s", flush=True)
    return int(sum(counts.values()) != counts["ok"] + counts["refused"])


def main() -> int:
    """Runs the cases; 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--md-homs", action="store_true", help="random md_homs, not einsums")
    parser.add_argument("--space", action="store_true", help="schedules from the search's space")
    parser.add_argument("--opencl", action="store_true", help="on the processor, without a GPU")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="before it runs alone")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds for all cases")
    parser.add_argument("--here", action="store_true", help="one case after the other, all shown")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    options = parser.parse_args()
    kind = fuzz.MD_HOM if options.md_homs else ""
    names = fuzz.names_of(options.seed, ("gpu",), options.count, options.first, kind)
    if options.space:
        names = [f"{name} {SPACE}" for name in names]
    if options.opencl:
        names = [f"{name} {OPENCL_TOO}" for name in names]
    if options.here:
        return run_here(names, options.within)
    start = time.monotonic()
    counts: Counter[str] = Counter()
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes) as pool:
        waiting = [(name, pool.apply_async(outcome, (name,))) for name in names]
        for number, (name, job) in enumerate(waiting, start=1):
            try:
                result = job.get(options.seconds)[1]
            except multiprocessing.TimeoutError:
                result = alone(outcome, name, SECONDS)
            kind = result.partition(" ")[0]
            counts[kind] += 1
            if kind not in ("ok", "refused"):
                print(name, result, flush=True)
            if number % 200 == 0:
                print(number, dict(counts), f"{time.monotonic() - start:.0f} s", flush=True)
            if time.monotonic() - start > options.within:
                break
    print(dict(counts), f"in {time.monotonic() - start:.0f} s", flush=True)
    return int(sum(counts.values()) != counts["ok"] + counts["refused"])


if __name__ == "__main__":
    sys.exit(main())
