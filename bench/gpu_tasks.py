"""What is measured and checked on GPUs beside the cases: tasks of fixed commands, and their log."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.cuda_cases import CASES
from bench.gpu_plan import START, Task
from bench.gpu_profile import falling_short

_MODULE = (sys.executable, "-m")
# Tests that need a GPU, by file: others may import what a machine with a GPU does not have.
TESTS = (
    "tests/api/frameworks/test_torch_on_gpu.py",
    "tests/api/test_cupy.py",
    "tests/api/test_cupy_kernels.py",
    "tests/api/test_row_chains_on_gpu.py",
    "tests/api/test_tensors_on_gpu.py",
    "tests/api/test_tune_cuda.py",
    "tests/host/test_host_cuda.py",
    "tests/tuner/test_kernels_cuda.py",
)
# Tests of the front ends that compute with generated CUDA what they compute on processors.
FRONTS = (
    [
        "tests/api/frontends/test_reduce.py",
        "tests/api/test_scan.py",
        "tests/api/frontends/test_convolution.py",
        "tests/api/test_einsum_affine.py",
        "tests/api/test_einsum_semiring.py",
        "tests/api/frontends/test_operators.py",
        "tests/api/frontends/einsum/test_strided_views.py",
        "tests/api/frontends/test_correlation.py",
    ],
    [
        "tests/api/test_listings.py",
        "tests/api/frontends/loops/test_dsl.py",
        "tests/api/frontends/test_stencil.py",
        "tests/api/frontends/loops/test_mdh.py",
        "tests/api/frontends/lazy/test_lazy.py",
        "tests/api/frontends/test_structured_arrays.py",
        "tests/api/frontends/ndimage/test_ndimage.py",
        "tests/api/test_polybench.py",
    ],
)
DTYPES = ("float16", "bfloat16", "tf32")
TENSOR_CASES = (
    *("1024", "4096", "8192", "1024 turned", "4096 turned", "1000", "4000x3000x1000"),
    *("333x777x1000 turned", "1024x1000x777 rows turned", "28x28x128"),
)
_PROFILE = 25.0  # seconds of a case, its search included
# Cases that were never searched for ten minutes, and what one takes: nothing is left of a search
# that is cut off, so that a machine must be held for as long, by calls one right after the other.
UNSEARCHED = ("argmax-rows-4096x4096",)
_SEARCHES = 700.0
_COUNT = 1000  # random cases of a kind


def launches(out: Path, cores: int, seed: int) -> Iterator[Task]:
    """What launches as graphs take of the device."""
    command = (*_MODULE, "bench.gpu_launches", "--out", str(out / "launches.log"))
    yield Task("measure-launches", command, 90)


def host(out: Path, cores: int, seed: int) -> Iterator[Task]:
    """What calls cost the host."""
    yield Task("measure-host", (*_MODULE, "bench.gpu_host", "--out", str(out / "host.log")), 35)


def tensor(out: Path, cores: int, seed: int) -> Iterator[Task]:
    """Products and convolutions on tensor cores; what is printed is in the tasks' logs."""
    for dtype in DTYPES:
        command = (*_MODULE, "bench.gpu_tensor", "--dtype", dtype, "--only", *TENSOR_CASES)
        yield Task(f"measure-{dtype}", command, 10 * len(TENSOR_CASES))


def profiles(out: Path, cores: int, seed: int) -> Iterator[Task]:
    """Counters of the device for cases that fall short; they are in the tasks' logs."""
    for family in CASES:
        if short := falling_short(family):
            command = (*_MODULE, "bench.gpu_profile", "--family", family)
            yield Task(f"profile-{family}", command, START + _PROFILE * len(short))


def searches(out: Path, cores: int, seed: int) -> Iterator[Task]:
    """Searches of a minute against those of ten; the tables are in the tasks' logs."""
    for case in UNSEARCHED:
        command = (*_MODULE, "bench.search_gpu", "--out", str(out / "searches"), "--cases", case)
        yield Task(f"search-{case}", command, _SEARCHES)


def checks(out: Path, cores: int, seed: int) -> Iterator[Task]:
    """The tests that need a GPU, the named cases, random ones, and the tests of the front ends."""
    many = ("-n", str(max(2, cores // 2))) if importlib.util.find_spec("xdist") else ()
    # Where pytest-benchmark is installed, it warns of xdist, which our settings make an error.
    pytest = (*_MODULE, "pytest", "-q", "-p", "no:benchmark", *many)
    yield Task("check-tests", (*pytest, "--gpu", "-m", "gpu", *TESTS), 60)
    for number, files in enumerate(FRONTS, 1):
        command = (*pytest, "-p", "tests.api.on_cupy", *files)
        yield Task(f"check-fronts-{number}", command, 60)
    processes = max(1, cores - 1)
    for number, kind in enumerate(("--md-homs", "")):
        options = [*filter(None, [kind]), "--count", str(_COUNT), "--seed", str(seed + number)]
        options += ["--seconds", "6", "--processes", str(processes)]
        command = (*_MODULE, "tests.lower.fuzz_cuda", *options)
        yield Task(f"check-random{kind}", command, 20 + 0.4 * _COUNT / processes)
    yield Task("check-named", (*_MODULE, "tests.lower.named_cuda"), 25)


KINDS: dict[str, Callable[[Path, int, int], Iterator[Task]]] = {
    "launches": launches,
    "host": host,
    "tensor": tensor,
    "searches": searches,
    "profiles": profiles,
    "checks": checks,
}
"""By name: from the folder of results, the cores of a task and a seed to tasks."""


def log_of(tasks: Sequence[Task], out: Path, head: Sequence[str]) -> str:
    """What checks said that are done: their commands, last lines and failures."""
    lines = [*head]
    for task in tasks:
        done, said = out / f"{task.stem}.json", out / f"{task.stem}.log"
        if not (done.exists() and said.exists()):
            continue
        found = json.loads(done.read_text())
        text = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
        command = shlex.join(("python", *task.command[1:]))
        lines += [command, f"{text[-1].strip(' =') if text else ''} ({found['seconds']:.0f} s)"]
        if found["rc"]:
            lines.append(f"  exit status {found['rc']}")
        lines += [f"  {line}" for line in text if line.startswith(("FAILED", "ERROR"))]
    return "\n".join(lines) + "\n"
