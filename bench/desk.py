"""Jobs on several GPUs, each a process with a GPU and its share of the cores, kept in files.

A job outlives the process that began it, and leaves a file when it is done: what is there is not
done again, and what is under way is waited for, so that the whole can be done in several calls.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

ROOT = Path(__file__).parents[1]
_LOOK = 0.2  # seconds between looks at what is under way


class Job(Protocol):
    """What a desk knows of a job: the name of its files, which is that of no other job."""

    @property
    def stem(self) -> str: ...


J = TypeVar("J", bound=Job)


def share_of(gpu: str, gpus: Sequence[str], cores: Sequence[int]) -> list[int]:
    """The cores of a GPU's jobs, as many as those of each other one.

    >>> share_of("1", ["0", "1"], [0, 1, 2, 3, 4])
    [2, 3]
    >>> share_of("3", ["0", "1", "2", "3"], [0, 1])
    [0, 1]
    """
    count = len(cores) // len(gpus)
    first = gpus.index(gpu) * count
    return list(cores[first : first + count]) or list(cores)


class Desk(Generic[J]):
    """Begins jobs on so many GPUs, each with one at a time, and keeps account of them in files.

    `command` makes the arguments of a job's process, to which the job's stem is added; the process
    writes the job's result when it is done.
    """

    def __init__(self, out: Path, gpus: Sequence[str], command: Callable[[J], list[str]]) -> None:
        self.out, self.gpus, self.command = out, tuple(gpus), command
        self._children: dict[J, tuple[subprocess.Popen[bytes], str]] = {}

    def result(self, job: J) -> Path:
        """Where a job leaves its result."""
        return self.out / f"{job.stem}.json"

    def _mark(self, job: J) -> Path:
        return self.out / f"{job.stem}.running"

    def gpu_of(self, job: J) -> str | None:
        """The GPU on which a job runs, begun by this process or an earlier one; else None."""
        if job in self._children:
            child, gpu = self._children[job]
            if child.poll() is None:
                return gpu
            del self._children[job]
            self._mark(job).unlink(missing_ok=True)
            return None
        try:
            pid, gpu = self._mark(job).read_text().split()
            running = job.stem in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except (OSError, ValueError):
            return None
        return gpu if running else None

    def begin(self, job: J, gpu: str) -> None:
        """Begins a job, whose process outlives this one."""
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": gpu,
            "MDTENSOR_CACHE_DIR": str(self.out / "stores" / f"{job.stem}-{time.time_ns()}"),
        }
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, share_of(gpu, self.gpus, sorted(cores)))  # a child has its parent's
        try:
            with (self.out / f"{job.stem}.log").open("ab") as log:
                child = subprocess.Popen(
                    [*self.command(job), job.stem],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        finally:
            os.sched_setaffinity(0, cores)
        self._children[job] = child, gpu
        self._mark(job).write_text(f"{child.pid} {gpu}")

    def work(self, jobs: Sequence[J], needs: Callable[[J], Sequence[J]], within: float) -> bool:
        """Does jobs in order, for so many seconds at most; whether all of them are done.

        One that ends without a result is not begun again in this call.
        """
        end, begun = time.monotonic() + within, set[J]()
        while True:
            running = {job: gpu for job in jobs if (gpu := self.gpu_of(job)) is not None}
            left = [job for job in jobs if not self.result(job).exists()]
            free = [gpu for gpu in self.gpus if gpu not in running.values()]
            ready = [
                job
                for job in left
                if job not in running
                and job not in begun
                and all(self.result(need).exists() for need in needs(job))
            ]
            for job, gpu in zip(ready, free, strict=False):
                print(f"{job.stem} on GPU {gpu}", flush=True)
                self.begin(job, gpu)
                begun.add(job)
            if not (ready and free) and (not running or time.monotonic() > end):
                return not left
            time.sleep(_LOOK)
