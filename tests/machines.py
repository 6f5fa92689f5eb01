"""A table of the machines on which the tests have run: `python -m pytest --record` writes it.

One row is a machine with its versions and what was asked of pytest; a later run takes the place of
an earlier one of the same machine, versions and request.
"""

from __future__ import annotations

import os
import platform
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import commit, now, processor
from mdtensor.api.engine import registry
from mdtensor.errors import NoDeviceError

TABLE = Path(__file__).parents[1] / "docs" / "machines.md"
_HEAD = """# Machines

Runs of tests that were recorded by `python -m pytest --record`, which writes a row when it ends, \
whether or not a test failed. Other runs by hand are logs in [bench/results](../bench/results).

"""


@dataclass(frozen=True)
class Run:
    """A run of the tests: the machine, its versions, and how many tests passed and failed."""

    processor: str
    device: str
    python: str
    numpy: str
    tests: str
    commit: str
    date: str
    passed: int
    failed: int

    @property
    def machine(self) -> tuple[str, ...]:
        """What the run is told apart by."""
        return (self.processor, self.device, self.python, self.numpy, self.tests)


def run_here(tests: str, passed: int, failed: int, *, on_gpu: bool) -> Run:
    """A run that ends now, on this machine."""
    return Run(
        f"{processor()}, {os.cpu_count()} cores",
        _gpu() if on_gpu else _cpu(),
        platform.python_version(),
        np.__version__,
        tests,
        commit(),
        now()[:10],
        passed,
        failed,
    )


def _cpu() -> str:
    try:
        target = registry.engine_for().target
    except NoDeviceError as error:
        return str(error).splitlines()[0]
    return target.driver


def _gpu() -> str:
    import cupy

    runtime: Any = cupy.cuda.runtime
    name = runtime.getDeviceProperties(0)["name"].decode()
    return f"{name}, CUDA {runtime.runtimeGetVersion()}, driver {runtime.driverGetVersion()}"


def record(run: Run, path: Path = TABLE) -> None:
    """Writes a run into the table, in the place of an earlier one of the same machine."""
    runs = {each.machine: each for each in recorded(path)}
    runs[run.machine] = run
    columns = [field.name for field in fields(Run)]
    rows = [columns, ["---"] * len(columns)]
    rows += [[_cell(value) for value in astuple(runs[key])] for key in sorted(runs)]
    lines = ("| " + " | ".join(row) + " |\n" for row in rows)
    part = path.with_suffix(".part")
    part.write_text(_HEAD + "".join(lines), encoding="utf-8")
    part.replace(path)


def recorded(path: Path = TABLE) -> list[Run]:
    """The runs in the table; none where there is no table yet."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return [_run(*row) for row in rows[2:]]


def _run(*cells: str) -> Run:
    processor, device, python, numpy, tests, commit, date, passed, failed = cells
    return Run(processor, device, python, numpy, tests, commit, date, int(passed), int(failed))


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "/").split())
