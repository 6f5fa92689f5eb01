"""The cases on a CUDA device: `python -m bench.run --device cuda [--family kernels] …`.

Everything is in one process, since what takes turns on a GPU is kernels: the time of a call is
that between two events on the stream, after more memory was read than the L2 cache holds. The
host enqueues ahead, so that its own time is no part of it; what a call costs the host is measured
apart.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.cuda_cases import CASES
from bench.cuda_limits import CudaLimits
from bench.cuda_peers import (
    COMPILING,
    JAX,
    LEAST_SECONDS,
    HostClock,
    call_in_time,
    calls_of,
    peers,
)
from bench.cuda_references import References
from bench.engines import OURS, UNTUNED, Tuned
from bench.families import EINSUM, fits, in_order
from bench.results import CaseResult, Measurement, Run, case_of, read, write
from bench.timing import spread
from bench.workload import CALL, PLAN, Call, Workload
from bench.workloads import Contraction

ROUNDS = 15
SUFFIX = "cuda"
_PACKAGES = ("mdtensor", "cupy-cuda13x", "cupy-cuda12x", "torch", "triton", "jax", "numpy")
# Fewer calls than the device takes before it has ended some: then none waits for another.
_HOST_CALLS = 400
_HOST_ROUNDS = 9
# A call that takes this many times as long as the best one does not take turns.
_RIVALS = 6.0

_NOTHING = 'extern "C" __global__ void nothing(float* a, float* b, float* c) {}'

Arrays = tuple[Any, ...]


class Device:
    """The CUDA device of mdtensor, its clock, and the libraries on it."""

    def __init__(self) -> None:
        import cupy
        import torch

        from mdtensor.api.engine import registry
        from mdtensor.backends.cuda.cuda_timer import CudaClock

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True  # cuDNN may search too
        self.cupy: Any = cupy
        self.torch: Any = torch
        self.engine: Any = registry.engine_for("cupy")
        self.clock = CudaClock(self.engine.device)

    def operands(self, workload: Workload) -> list[Any]:
        """The operands of a case."""
        return [self._copied(operand) for operand in workload.operands()]

    def _copied(self, operand: np.ndarray) -> Any:
        """A copy on the device; of records, of whose fields CuPy knows some, by their bytes."""
        if operand.dtype.names is None:
            return self.cupy.asarray(operand)
        memory = self.cupy.asarray(operand.view(np.uint8)).data
        return self.cupy.ndarray(operand.shape, operand.dtype, memory)

    def outputs(self, workload: Workload) -> Arrays:
        """Arrays for the results."""
        return tuple(self.cupy.empty(spec.shape, spec.dtype) for spec in workload.outputs)

    def contracted(self, subscripts: str, operands: Sequence[Any]) -> Arrays:
        """The right result of a contraction, by torch in float64."""
        wide = [self.torch.from_dlpack(operand.astype("f8")) for operand in operands]
        found = self.torch.einsum(subscripts, *wide)
        return (self.cupy.from_dlpack(found.contiguous()),)

    def error(self, results: Any, references: Arrays) -> float:
        """The largest error, relative to an element plus the typical size of all."""
        found = results if isinstance(results, tuple) else (results,)
        worst = 0.0
        for result, reference in zip(found, references, strict=True):
            array = result if isinstance(result, self.cupy.ndarray) else self._taken(result)
            if array.shape != reference.shape:
                return float("inf")
            if reference.dtype.kind != "f":
                worst = max(worst, 0.0 if bool((array == reference).all()) else float("inf"))
                continue
            wide = reference.astype("f8")
            scale = float(self.cupy.sqrt((wide * wide).mean()))
            relative = abs(array - wide) / (abs(wide) + scale)
            value = float(relative.max())
            worst = max(worst, value if np.isfinite(value) else float("inf"))
        return worst

    def _taken(self, tensor: Any) -> Any:
        whole = tensor.contiguous() if isinstance(tensor, self.torch.Tensor) else tensor
        return self.cupy.from_dlpack(whole)

    def poison(self, outputs: Arrays) -> None:
        """Fills results with what no computation gives."""
        for out in outputs:
            out.fill(np.nan if out.dtype.kind == "f" else np.iinfo(out.dtype).min)

    def versions(self) -> dict[str, str]:
        """Versions of the libraries, of CUDA and of the compiler."""
        found: dict[str, str] = {}
        for package in _PACKAGES:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
        import mdtensor

        found.setdefault("mdtensor", mdtensor.__version__)
        found["torch's CUDA"] = str(self.torch.version.cuda)
        found["cuDNN"] = str(self.torch.backends.cudnn.version())
        return found


class Cases:
    """Tunes and measures cases on a device."""

    def __init__(
        self, device: Device, budget: float, compiled: str, references: References
    ) -> None:
        self.device = device
        self.references = references
        self.budget = budget
        self.compiled = compiled  # the cases that torch's compiler takes part in
        self.peers = peers()
        self.limits = CudaLimits(device)
        self.tuning: dict[str, dict[str, Any]] = {}
        self.compiling = ""  # the case that XLA's compiler has not ended
        self._operands: dict[str, list[Any]] = {}  # of cases that were tuned
        self._kept: dict[str, tuple[Workload, list[Any], Arrays, Arrays]] = {}  # for XLA

    def tune(self, workloads: Sequence[Workload]) -> None:
        """Tunes all cases, each within the budget, by the same processes."""
        import mdtensor

        work: dict[Any, str] = {}
        for workload in workloads:
            operands = self._operands[workload.name] = self.device.operands(workload)
            try:
                with mdtensor.tuning("record") as seen:
                    ours(workload, operands, self.device.outputs(workload))()
            except Exception as error:  # which says why again where it is measured
                print(f"{workload.name}: {error}", file=sys.stderr, flush=True)
                continue
            items = list(seen)
            for item in items:
                work.setdefault(dataclasses.replace(item, label=workload.name), workload.name)
        share = self.budget * len(workloads)
        reports = mdtensor.tune(work, share, quiet=True)
        for name, report in zip(work.values(), reports, strict=False):
            known = self.tuning.setdefault(name, {"budget": self.budget, "trials": 0, "seconds": 0})
            known["trials"] += report.trials
            known["seconds"] += report.elapsed
            print(report, file=sys.stderr, flush=True)

    def measure(self, workload: Workload) -> CaseResult:
        """Checks all calls of a case, and measures them by turns."""
        import mdtensor

        device = self.device
        operands = self._operands.pop(workload.name, None) or device.operands(workload)
        outputs = device.outputs(workload)
        if _by_torch(workload):
            references = device.contracted(workload.formula, operands)
        else:
            references = tuple(map(device.cupy.asarray, self.references.of(workload.name)))
        self._kept[workload.name] = workload, operands, outputs, references
        calls: dict[tuple[str, str], Call] = {
            (engine, name): call
            for engine, library in self.peers.items()
            if engine != JAX
            for name, call in calls_of(
                library,
                workload,
                operands,
                outputs,
                compiled=fits(workload, self.compiled),
            ).items()
        }
        name = PLAN if isinstance(workload, Contraction) else CALL
        calls[OURS, name] = ours(workload, operands, outputs)
        errors: dict[tuple[str, str], float] = {}
        refused: dict[str, str] = {}
        for key in list(calls):
            why = self._checked(key, calls[key], workload, outputs, references, errors)
            if why:
                refused[" ".join(key)] = why
                del calls[key]
        times = self._times(calls)
        with mdtensor.tuning("off"):
            plain = ours(workload, operands, outputs)
            why = self._checked((UNTUNED, name), plain, workload, outputs, references, errors)
            if not why:
                for _ in range(3):  # what first calls had compiled in the background
                    device.engine.settle()
                    plain()
                times |= self._times({(UNTUNED, name): plain})
        return case_of(
            workload,
            date=time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
            processes="one for all",
            measurements=_measurements(times, errors),
            refused=refused,
            limit=self.limits.limit(workload),
            tuning=self.tuning.get(workload.name),
        )

    def with_xla(self, case: CaseResult) -> CaseResult:
        """A measured case with what XLA takes, whose calls take no turns with others.

        Its compiler may take very long, and nothing ends it; then no other case of this process is
        computed by XLA, and lacks it.
        """
        workload, operands, outputs, references = self._kept.pop(case.name)
        if self.compiling or JAX not in self.peers:
            return case
        library, errors = self.peers[JAX], dict[tuple[str, str], float]()
        refused: dict[str, str] = {}
        calls: dict[tuple[str, str], Call] = {}
        said = calls_of(library, workload, operands, outputs, compiled=False)
        for key, call in (((JAX, name), call) for name, call in said.items()):
            try:
                call_in_time(call, COMPILING)
            except TimeoutError as error:
                self.compiling = case.name
                refused[" ".join(key)] = str(error)
                break
            except Exception as error:
                refused[" ".join(key)] = f"{type(error).__name__}: {error}"[:300]
                continue
            if why := self._checked(key, call, workload, outputs, references, errors):
                refused[" ".join(key)] = why
            else:
                calls[key] = call
        times: dict[tuple[str, str], list[float]] = {}
        if calls and not self.compiling:
            wait = self.device.engine.device.cupy.cuda.Device().synchronize
            clock = HostClock(self.device.clock.flush, wait)
            times = dict(zip(calls, clock.times(list(calls.values()), ROUNDS), strict=True))
        for key in list(times):
            if statistics.median(times[key]) < LEAST_SECONDS:
                refused[" ".join(key)] = "shorter than what the host's clock tells"
                del times[key]
        measured = (*case.measurements, *_measurements(times, errors))
        return dataclasses.replace(case, measurements=measured, refused=case.refused | refused)

    def _checked(
        self,
        key: tuple[str, str],
        call: Call,
        workload: Workload,
        outputs: Arrays,
        references: Arrays,
        errors: dict[tuple[str, str], float],
    ) -> str:
        """Why a call takes no part, or an empty string."""
        try:
            for _ in range(2):  # the second call takes the path of all later ones
                self.device.poison(outputs)
                errors[key] = self.device.error(call(), references)
        except Exception as error:  # a peer's words about what it cannot do
            return f"{type(error).__name__}: {error}"[:300]
        if errors[key] <= workload.tolerance:
            return ""
        return f"error {errors[key]:.2e} > {workload.tolerance:.2e}"

    def _times(self, calls: Mapping[tuple[str, str], Call]) -> dict[tuple[str, str], list[float]]:
        """Seconds of calls by turns; slow ones keep those of a first look."""
        keys = list(calls)
        look = self.device.clock.times([calls[key] for key in keys], 3, ahead=True)
        pilot = [statistics.median(each) for each in look]
        rivals = [n for n, seconds in enumerate(pilot) if seconds <= _RIVALS * min(pilot)]
        found = self.device.clock.times([calls[keys[n]] for n in rivals], ROUNDS, ahead=True)
        times = dict(zip(keys, look, strict=True))
        times |= {keys[n]: each for n, each in zip(rivals, found, strict=True)}
        return times


def _measurements(
    times: Mapping[tuple[str, str], list[float]], errors: Mapping[tuple[str, str], float]
) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(*key, statistics.median(each), spread(each), tuple(each), errors[key])
        for key, each in times.items()
    )


def _by_torch(workload: Workload) -> bool:
    """Whether the device computes a case's right result: NumPy would take minutes for some."""
    return isinstance(workload, Contraction) and workload.dtype.startswith("float")


def ours(workload: Workload, operands: list[Any], outputs: Arrays) -> Call:
    calls = Tuned().calls(workload, operands, outputs)
    return calls[PLAN] if PLAN in calls else calls[CALL]


def host_seconds(device: Device) -> dict[str, float]:
    """What a small call costs the host: medians of batches that are not waited for."""
    import mdtensor

    cupy = device.cupy
    a, b = cupy.ones((10, 64), "f4"), cupy.ones((64, 500), "f4")
    out = cupy.empty((10, 500), "f4")
    x, y = device.torch.from_dlpack(a), device.torch.from_dlpack(b)
    nothing = cupy.RawKernel(_NOTHING, "nothing")
    plan, einsum = mdtensor.compile("ik,kj->ij", a, b), mdtensor.einsum
    calls: dict[str, Callable[[], Any]] = {
        "plan, out": lambda: plan(a, b, out=out),
        "plan": lambda: plan(a, b),
        "einsum": lambda: einsum("ik,kj->ij", a, b),
        "torch.matmul": lambda: device.torch.matmul(x, y),
        "cupy.matmul": lambda: cupy.matmul(a, b),
        "cupy.empty": lambda: cupy.empty((10, 500), "f4"),
        "RawKernel": lambda: nothing((1,), (32,), (a, b, out)),
    }
    for call in calls.values():
        call()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_HOST_ROUNDS):
        for name, call in calls.items():
            cupy.cuda.Device().synchronize()
            before = time.perf_counter()
            for _ in range(_HOST_CALLS):
                call()
            found[name].append((time.perf_counter() - before) / _HOST_CALLS)
            cupy.cuda.Device().synchronize()
    return {name: statistics.median(each) for name, each in found.items()}


def main(family: str, only: str | None, budget: float, out: Path | None, compiled: str) -> int:
    """Tunes and measures the cases of a family; 1 where one failed."""
    from bench.run import file_for

    device = Device()
    target = device.engine.target
    workloads = in_order(CASES[family], only)
    run = Run(
        date=time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        device={
            "name": target.name,
            "cores": target.cores,
            "driver": target.driver,
            "vector_bytes": target.vector_bytes,
        },
        system={
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "host_seconds": host_seconds(device) if family == EINSUM else {},
        },
        versions=device.versions(),
        settings={"rounds": ROUNDS, "timer": "events, L2 flushed"},  # budgets are the cases' own
    )
    path = out or file_for(run, f"{family}-{SUFFIX}")
    if path.exists():
        run = dataclasses.replace(run, cases=read(path).cases)
    write(run, path)
    failures, checked = 0, [each.name for each in workloads if not _by_torch(each)]
    with References(family, checked) as references:
        cases = Cases(device, budget, compiled, references)
        cases.tune(workloads)
        left, measured = list(workloads), list[CaseResult]()
        while left:
            workload = next((each for each in left if references.has(each.name)), left[0])
            left.remove(workload)
            try:
                case = cases.measure(workload)
            except Exception as error:
                failures += 1
                why = f"{workload.name}: {type(error).__name__}: {error}"
                print(why, file=sys.stderr, flush=True)
                continue
            measured.append(case)
            run = run.with_case(case)
            write(run, path)
        for plain in measured:
            case = plain
            try:
                case = cases.with_xla(plain)
            except Exception as error:  # what was measured without it is there
                failures += 1
                why = f"{plain.name}: XLA: {type(error).__name__}: {error}"
                print(why, file=sys.stderr, flush=True)
            run = run.with_case(case)
            write(run, path)
            print(_line(case), flush=True)
    for label, value in run.summary().items():
        print(f"{label}: {value:.2f}")
    print({name: f"{seconds * 1e6:.2f} µs" for name, seconds in run.system["host_seconds"].items()})
    print(path, flush=True)
    if cases.compiling:  # XLA's compiler would hold up the end of the process
        print(f"XLA still compiles {cases.compiling}", file=sys.stderr, flush=True)
        os._exit(int(failures > 0))
    return int(failures > 0)


def _line(case: CaseResult) -> str:
    from bench.run import line_of

    tuning = case.tuning or {}
    return f"{line_of(case)}  {tuning.get('trials', 0)} trials"
