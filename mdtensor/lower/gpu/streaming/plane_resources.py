"""Local memory use of groups without a reduction, which may stream along a dim."""

from __future__ import annotations

from mdtensor.lower.gpu.base.gpu_resources import local_bytes
from mdtensor.lower.gpu.streaming.planes import planes_of
from mdtensor.lower.gpu.streaming.streamed_output import lengths_of_runs, runs_of
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of

# Bytes beside a plane, and elements beside a run, so that all are aligned.
BESIDE_PLANE, BESIDE_RUN = 1024, 32


def streams_planes(schedule: Schedule) -> bool:
    """Whether groups stream along a dim with prefetched planes."""
    return schedule.march and any(schedule.staged)


def streamed_bytes(problem: Problem, schedule: Schedule) -> int:
    """Bytes of local memory that a group's planes or tiles take."""
    if not streams_planes(schedule):
        return local_bytes(problem, schedule)
    tilings = tilings_of(problem, schedule)
    planes = planes_of(problem, schedule, tilings)
    lengths = lengths_of_runs(problem, schedule, tilings)
    written = [problem.outputs[w.buffer].itemsize for w in problem.writes][: len(lengths)]
    size = sum(p.elements * p.memory.itemsize + BESIDE_PLANE for p in planes)
    runs = runs_of(schedule)
    along = zip(lengths, written, strict=True)
    return size + sum(runs * (n + BESIDE_RUN) * itemsize for n, itemsize in along)
