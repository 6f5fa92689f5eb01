"""What a process of its own for compilers costs, and what calls notice of it.

Fresh processes, each with an empty folder of programs, compile in the background what a product of
matrices is asked for, in this process and in one apart: seconds until the better kernel is there,
the calling process's memory, and how long calls take meanwhile. Run as `python -m bench.compilers`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

_HEAD = """
import json, os, threading, time
from pathlib import Path
import numpy as np
import mdtensor as mdt
import mdtensor.api.engine.compiler_process as compilers
from mdtensor.api.engine.kernel_choice import ranked
from mdtensor.api.engine.registry import engine_for
from mdtensor.lower.problem.problem import problem_from_md_hom

def private(pid="self"):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024

def shared_out(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024

def processor_time(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

engine = engine_for()
a, b = np.ones((64, 800), "f4"), np.ones((800, 500), "f4")
"""

# From a first call on: when the background is done with what that asked for.
_BETTER = """
start = time.perf_counter()
mdt.einsum("ij,jk->ik", a, b)
first = time.perf_counter()
engine.settle()
done = time.perf_counter()
(own,) = [c for c in engine.tiers.table.values() if not c.is_general]
print(json.dumps({
    "device": f"{engine.target.name} x{engine.target.cores}, {engine.target.driver}",
    "first call": (first - start) * 1e3,
    "until the better kernel": (done - first) * 1e3,
    "private memory": private(),
}))
"""

# The worker's start, its first program and later ones, and what it takes of the machine.
_WORKER = """
sources = []
for rows in range(60, 66):
    (md_hom,) = mdt.compile("ij,jk->ik", mdt.spec((rows, 800)), mdt.spec((800, 500))).md_homs
    problem = problem_from_md_hom(md_hom)
    sources.append(engine.source(problem, ranked(problem, engine.target)[0][1]))
apart = compilers.CompilerApart(engine.device)
start = time.perf_counter()
worker = apart._opened()
opened = time.perf_counter()
idle = private(worker.pid), shared_out(worker.pid), processor_time(worker.pid)
machines, there = [], []
for source in sources:
    began = time.perf_counter()
    machines.append(apart._machine_code(worker, "", source))
    there.append(time.perf_counter() - began)
full = private(worker.pid), shared_out(worker.pid)
load, here = [], []
for source, machine in zip(sources, machines):
    began = time.perf_counter()
    engine.device.load(compilers.Compiled(source, machine))
    loaded = time.perf_counter()
    engine.device.compile(source)
    load.append(loaded - began)
    here.append(time.perf_counter() - loaded)
median = lambda found: sorted(found)[len(found) // 2] * 1e3
print(json.dumps({
    "start": (opened - start) * 1e3,
    "start, processor time": idle[2] * 1e3,
    "private memory": idle[0], "its share of memory": idle[1],
    "private memory, later": full[0], "its share of memory, later": full[1],
    "first program": there[0] * 1e3, "program": median(there), "load": median(load),
    "program here": median(here),
}))
apart.close()
"""

# Calls while six programs are compiled.
_CALLS = """
sources = []
for rows in range(60, 66):
    (md_hom,) = mdt.compile("ij,jk->ik", mdt.spec((rows, 800)), mdt.spec((800, 500))).md_homs
    problem = problem_from_md_hom(md_hom)
    sources.append(engine.source(problem, ranked(problem, engine.target)[0][1]))
apart = compilers.CompilerApart(engine.device)
short, long = np.ones((10, 64), "f4"), np.ones((1024, 1024), "f4")
calls = {
    "short": lambda: mdt.einsum("ij,jk->ik", short, short.T),
    "long": lambda: mdt.einsum("ij,jk->ik", long, long),
}
for call in calls.values():
    for _ in range(20):
        call()
        engine.settle()
found = {}
def work():
    for source in sources:
        apart.compile(source)
def until(is_over, call):
    times = []
    while not is_over():
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return sorted(times)
def told(times):
    return [times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6]
for name, call in calls.items():
    end = time.perf_counter() + 1
    found[f"{name}, alone"] = told(until(lambda: time.perf_counter() > end, call))
    folder = compilers.folder_of_kept("binaries")
    for file in folder.glob("*") if folder.exists() else ():
        file.unlink()
    began = time.perf_counter()
    thread = threading.Thread(target=work)
    thread.start()
    times = until(lambda: not thread.is_alive(), call)
    found[f"{name}, meanwhile"] = told(times)
    found[f"{name}, seconds of compiling"] = time.perf_counter() - began
print(json.dumps(found))
apart.close()
"""


def main() -> int:
    """Measures by turns, and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs: int = parser.parse_args().runs
    better: dict[str, list[dict[str, float]]] = {"1": [], "0": []}
    for _ in range(runs):
        for apart, found in better.items():
            found.append(_run(_HEAD + _BETTER, apart))
    print(better["1"][0]["device"])
    for apart, found in better.items():
        print("apart" if apart == "1" else "here", _medians(found))
    print("worker", _medians([_run(_HEAD + _WORKER, "1") for _ in range(runs)]))
    for apart in ("1", "0", "1", "0"):
        found = _run(_HEAD + _CALLS, apart)
        print("calls beside", "apart" if apart == "1" else "here", _shown(found))
    return 0


def _medians(found: list[dict[str, float]]) -> str:
    names = [name for name in found[0] if name != "device"]
    return "; ".join(
        f"{name} {statistics.median(one[name] for one in found):.1f}"
        f" ({min(one[name] for one in found):.1f} to {max(one[name] for one in found):.1f})"
        for name in names
    )


def _shown(found: dict[str, float | list[float]]) -> str:
    def text(value: float | list[float]) -> str:
        if isinstance(value, list):
            return "{:.1f} µs (99 of 100 below {:.1f})".format(*value)
        return f"{value:.2f}"

    return "; ".join(f"{name} {text(value)}" for name, value in found.items())


def _run(code: str, apart: str) -> dict[str, float]:
    """What a fresh process finds, with nothing kept from those before."""
    dropped = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    with TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={
                **kept,
                "MDTENSOR_CACHE_DIR": cache,
                "MDTENSOR_COMPILER_PROCESS": apart,
                "PYTHONPYCACHEPREFIX": str(Path("build", "bytecode").absolute()),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
