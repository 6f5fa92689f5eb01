"""Loops of 1,000 calls in mode "online" and without: `python -m bench.online [--share 0.1]`.

Each case has two processes with empty caches, one in the mode, that take turns: while one makes
its calls, the other stands still with all processes that it began, so that a machine with other
work is slow for both. Only seconds of calls count, and in them all that these processes do beside
them. The totals say what the mode took or gave, by the clock and by the processor time of all these
processes, of which other work on the machine takes nothing; the last fifth says what calls take at
the end. Then both are asked for a result, which is compared with NumPy's in float64.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import commit, facts, processor

CALLS, TURN = 1000, 20
LAST = CALLS // 5
# A call gives its result, and what that must be in float64.
Case = tuple[Callable[[], np.ndarray], Callable[[], np.ndarray]]


def cases() -> dict[str, Callable[[], Case]]:
    """The loops, made on demand."""
    return {
        "training, 64 of 256-128-10": _training,
        "product 384^3": lambda: _product(384, 384, 384),
        "product 64, 500, 1000": lambda: _product(64, 500, 1000),
        "convolution 3x3, 4 of 14x14x64": _convolution,
        "Gaussian 5x5, 1024^2": _gaussian,
        "sum of rows, 2000 x 1000": _sums,
        "product 10, 50, 64": lambda: _product(10, 50, 64),
    }


def _drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)


def _product(n: int, m: int, k: int) -> Case:
    import mdtensor as mdt

    a, b = _drawn(n, m), _drawn(m, k)
    return (lambda: mdt.einsum("ij,jk->ik", a, b)), (lambda: a.astype(np.float64) @ b)


def _convolution() -> Case:
    import mdtensor as mdt

    images, filters = _drawn(4, 16, 16, 64), _drawn(64, 3, 3, 64)
    text = "n h+r w+s c, k r s c -> n h w k"

    def exact() -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
        return np.einsum("nhwcrs,krsc->nhwk", windows, filters.astype(np.float64), optimize=True)

    return (lambda: mdt.einsum(text, images, filters)), exact


def _gaussian() -> Case:
    import mdtensor as mdt
    from bench.fresh_results import _blurred, _blurred_by_slices

    image, blurred = _drawn(1024, 1024), mdt.stencil(_blurred)
    return (lambda: blurred(image)), (lambda: _blurred_by_slices(image.astype(np.float64)))


def _sums() -> Case:
    import mdtensor as mdt

    rows = _drawn(2000, 1000)
    return (lambda: mdt.einsum("ij->i", rows)), (lambda: rows.sum(axis=1, dtype=np.float64))


def _training() -> Case:
    """Steps of a network of two layers: five products each, and NumPy between them."""
    import mdtensor as mdt

    rng = np.random.default_rng(0)
    sizes = (256, 128, 10)
    pairs = list(itertools.pairwise(sizes))
    weights = [(rng.standard_normal(pair) / pair[0] ** 0.5).astype("f4") for pair in pairs]
    images, wanted = _drawn(64, 256), np.eye(10, dtype="f4")[rng.integers(0, 10, 64)]

    def step(contracted: Callable[..., np.ndarray], weights: Sequence[np.ndarray]) -> np.ndarray:
        layers, outputs = [images.astype(weights[0].dtype)], np.empty(0)
        for n, weight in enumerate(weights):
            outputs = contracted("bi,ij->bj", layers[-1], weight)
            layers.append(np.maximum(outputs, 0) if n == 0 else outputs)
        slope = (outputs - wanted) / len(images)
        for n in (1, 0):
            gradient = contracted("bi,bj->ij", layers[n], slope)
            if n:
                slope = contracted("bj,ij->bi", slope, weights[n]) * (layers[n] > 0)
            weights[n][...] -= weights[n].dtype.type(1e-3) * gradient
        return outputs

    before = [weight.astype(np.float64) for weight in weights]
    steps = [0]

    def ours() -> np.ndarray:
        steps[0] += 1
        return step(mdt.einsum, weights)

    def exact() -> np.ndarray:
        for _ in range(steps[0]):
            outputs = step(_by_numpy, before)
        return outputs

    return ours, exact


def _by_numpy(text: str, *operands: np.ndarray) -> np.ndarray:
    return np.einsum(text, *operands, optimize=True)


def serve(name: str, share: float) -> None:
    """A process that makes so many calls as each line of its input says, and tells their times."""
    import mdtensor as mdt
    from mdtensor.api.engine import registry

    registry.engine_for()  # which both need, however calls are tuned
    call, exact = cases()[name]()
    mode = mdt.tuning("online", share=share) if share else mdt.tuning("cached")
    with mode:
        for line in sys.stdin:
            times: list[float] = []
            for _ in range(int(line)):
                began = time.perf_counter()
                call()
                times.append(time.perf_counter() - began)
            print(json.dumps(times), flush=True)
        result = call()
    error = np.abs(result - exact()).max() / np.abs(result).max()
    print(json.dumps({"error": float(error), **_told()}), flush=True)


def _told() -> dict[str, Any]:
    """What searches of this process came to."""
    from mdtensor.api.tuning.online import online_mode

    searches = list(online_mode._searches.items())
    kept = [engine.winner(problem) is not None for (engine, problem), _ in searches]
    return {
        "searches": len(searches),
        "over": sum(search.is_over for _, search in searches),
        "trials": sum(search.trials for _, search in searches),
        "kept": sum(kept),
        "earned": sum(search.account.earned for _, search in searches),
        "spent": sum(search.account.spent for _, search in searches),
    }


class Server:
    """A process that makes calls, and stands still between turns."""

    def __init__(self, name: str, share: float, cache: str) -> None:
        command = [sys.executable, "-m", "bench.online", "--serve", name, "--share", str(share)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        # NumPy's threads for products, which check results, wait for each other by spinning.
        of_numpy = {"OPENBLAS_NUM_THREADS": "1"}
        environment = {**os.environ, "MDTENSOR_CACHE_DIR": cache, **of_numpy}
        self._process: Any = subprocess.Popen(command, env=environment, **pipes)
        self.times: list[float] = []
        self._before = 0.0

    @property
    def work(self) -> float:
        """The seconds of processors that the process and all below it took since its first turn."""
        return sum(map(_seconds_of, _with_descendants(self._process.pid))) - self._before

    def turn(self, calls: int) -> None:
        """So many calls."""
        self._signal(signal.SIGCONT)
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        times = json.loads(self._process.stdout.readline())
        if calls:
            self.times += times
        else:
            self._before = self.work
        self._signal(signal.SIGSTOP)

    def end(self) -> dict[str, Any]:
        """What the process says of itself at its end."""
        self._signal(signal.SIGCONT)
        self._process.stdin.close()
        told = json.loads(self._process.stdout.readline())
        self._process.wait()
        return told

    def _signal(self, number: signal.Signals) -> None:
        for pid in _with_descendants(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _seconds_of(pid: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in tasks.read_text(encoding="ascii").split():
                yield from _with_descendants(int(child))


@contextmanager
def _servers(name: str, share: float) -> Iterator[tuple[Server, Server]]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        yield Server(name, 0.0, one), Server(name, share, other)


Measured = tuple[list[float], float]  # times of calls, and the work of all


def measured(name: str, share: float) -> tuple[Measured, Measured, dict[str, Any]]:
    """The times of calls without and with the mode, and what the mode came to."""
    with _servers(name, share) as (without, online):
        without.turn(0)
        online.turn(0)
        for turn in range(CALLS // TURN):
            for server in (without, online) if turn % 2 else (online, without):
                server.turn(TURN)
        work = without.work, online.work
        plain, told = without.end(), online.end()
    assert max(plain["error"], told["error"]) < 1e-4
    return (without.times, work[0]), (online.times, work[1]), told


def main() -> None:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--case", default="", help="a part of a case's name")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.share)
        return
    found = facts()
    print(f"{found['date']}, {processor()}, {os.cpu_count()} cores, {found['device']['name']}")
    print(f"commit {commit()}, share {given.share}, load {os.getloadavg()[0]:.1f}")
    print(f"{CALLS} calls without the mode and with it: seconds by the clock, of processors, and")
    print(f"medians of the last {LAST} in ms")
    heads = "".join(f"{head:>8}{'online':>8}{'ratio':>7}" for head in ("s", "work", "ms"))
    print(f"{'':<34}{heads}  searches")
    for name in cases():
        if given.case in name:
            *both, told = measured(name, given.share)
            totals = [sum(times) for times, _ in both]
            last = [1e3 * statistics.median(times[-LAST:]) for times, _ in both]
            pairs = (totals, [work for _, work in both], last)
            row = "".join(f"{a:8.2f}{b:8.2f}{b / a:7.3f}" for a, b in pairs)
            row = (
                f"{name:<34}{row}  {told['over']}/{told['searches']} over, {told['trials']} trials,"
            )
            row += f" {told['kept']} kept, {told['spent']:.2f} of {told['earned']:.2f} s"
            print(row, flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
