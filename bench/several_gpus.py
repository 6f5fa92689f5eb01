"""Computations on one GPU and on several of one host, by turns.

`python -m bench.several_gpus --out FILE` times every case on the first GPU, over all of them
(`devices="all"`) with operands and results on the first, copies counted, and on sharded arrays,
which lie on all of them before and after; and says how many times as fast as one GPU each is. A
result that is off by more than `MOST_WRONG`, of float64's at some indices, has no time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from bench.machine import commit, now, tell

MOST_WRONG, MOST_WRONG_TF32 = 1e-4, 1e-3  # of the largest result
ROUNDS = 7
# Calls before those that count, and the least and the most seconds of them: after 64 on the same
# arrays there is a graph, and kernels are compiled meanwhile.
WARM_CALLS, LEAST_WARM_S, MOST_WARM_S = 300, 2.5, 5.0
_SOME = 64  # rows that are computed in float64, or pieces of a long sum
Array = Any


@dataclass(frozen=True)
class Case:
    """A call, or so many `steps` of a stencil, each on the result of the one before.

    `axes` are those along which operands are sharded; an operand without has replicas. A `part` of
    a result is compared with what is computed of it in float64.
    """

    what: str | Callable[..., Any]
    arrays: list[Array]
    axes: tuple[int | None, ...]
    part: Callable[[Array], Array]
    exact: Callable[..., Array]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    steps: int = 1

    @property
    def most_wrong(self) -> float:
        """What a result may be off by."""
        return MOST_WRONG_TF32 if self.options else MOST_WRONG

    def planned(self, **more: Any) -> Callable[..., Any]:
        """A plan of the call."""
        import mdtensor as mdt

        return mdt.compile(self.what, *self.arrays, **self.options, **more)

    def stepped(self, array: Any, **more: Any) -> Any:
        """All steps of a stencil."""
        return cast("Any", self.what).steps(array, n=self.steps, **more)

    def call(self, *arrays: Any, **more: Any) -> Any:
        """The call without a plan."""
        import mdtensor as mdt

        if isinstance(self.what, str):
            return mdt.einsum(self.what, *arrays, **self.options, **more)
        return self.what(*arrays, **more)


def cases(cupy: Any) -> dict[str, Callable[[], Case]]:
    """The cases by their names."""
    import mdtensor as mdt

    def random(*shape: int) -> Any:
        return cupy.random.default_rng(0).random(shape, "f4")

    def product(n: int, **options: Any) -> Case:
        rows = slice(None, None, n // _SOME)
        return Case(
            "ik,kj->ij",
            [random(n, n), random(n, n)],
            (0, None),
            lambda result: result[rows],
            lambda a, b: a[rows].astype("f8") @ b.astype("f8"),
            options,
        )

    def dot(n: int) -> Case:
        def exact(a: Array, b: Array) -> Array:
            pieces = zip(a.reshape(_SOME, -1), b.reshape(_SOME, -1), strict=True)
            return sum(x.astype("f8") @ y.astype("f8") for x, y in pieces)

        return Case("i,i->", [random(n), random(n)], (0, 0), lambda result: result, exact)

    def ccsdt() -> Case:
        return Case(
            "gdab,efgc->abcdef",
            [random(32, 32, 32, 32), random(32, 32, 32, 24)],
            (2, None),
            lambda result: result[3],
            lambda a, b: cupy.einsum("gdb,efgc->bcdef", a[:, :, 3].astype("f8"), b.astype("f8")),
        )

    @mdt.stencil(border="fixed")
    def jacobi(u: Any) -> Any:
        near = u[0, 0, -1] + u[0, 0, 1] + u[0, -1, 0] + u[0, 1, 0] + u[-1, 0, 0] + u[1, 0, 0]
        return (near + u[0, 0, 0]) / 7

    def steps(n: int, count: int) -> Case:
        planes = slice(n // 2 - count - 2, n // 2 + count + 2)  # the middle ones see no border

        def exact(u: Array) -> Array:
            u = u[planes].astype("f8")
            for _ in range(count):
                center, near = u[1:-1, 1:-1, 1:-1], u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
                near = near + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
                near = near + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
                u = u.copy()
                u[1:-1, 1:-1, 1:-1] = (near + center) / 7
            return u[count + 1 : -count - 1]

        part = lambda result: result[n // 2 - 1 : n // 2 + 1]  # noqa: E731
        return Case(jacobi, [random(n, n, n)], (0,), part, exact, steps=count)

    return {
        "product 8192": lambda: product(8192),
        "product 16384": lambda: product(16384),
        "product 16384, tf32": lambda: product(16384, precision="tf32"),
        "CCSD(T)": ccsdt,
        "dot 2^30": lambda: dot(2**30),
        "Jacobi 512^3, one step": lambda: steps(512, 1),
        "Jacobi 512^3, 50 steps": lambda: steps(512, 50),
    }


def runs_of(case: Case) -> dict[str, Callable[[], Array]]:
    """What is timed: on one GPU, over all of them, on sharded arrays; they give the last result."""
    import mdtensor as mdt

    sharded = [mdt.shard(a, axis=axis) for a, axis in zip(case.arrays, case.axes, strict=True)]

    def run_of(call: Callable[..., Any], arrays: list[Any]) -> Callable[[], Any]:
        out = call(*arrays)
        return lambda: call(*arrays, out=out)

    if case.steps > 1:
        return {"one": run_of(case.stepped, case.arrays), "sharded": run_of(case.stepped, sharded)}
    return {
        "one": run_of(case.planned(), case.arrays),
        "all": run_of(case.planned(devices="all"), case.arrays),
        "sharded": run_of(case.call, sharded),
    }


def measure(cupy: Any, case: Case, budget: float) -> str:
    """The seconds of a call on one GPU, on all, and on sharded arrays.

    Each computation is searched for so many seconds before.
    """
    import mdtensor as mdt
    from mdtensor.api.engine import registry

    devices = [cupy.cuda.Device(n) for n in range(cupy.cuda.runtime.getDeviceCount())]
    runs = runs_of(case)

    def finish() -> None:
        for device in devices:
            with device:
                cupy.cuda.get_current_stream().synchronize()

    if budget:
        with mdt.tuning("tune", budget=budget):
            for run in runs.values():
                run()
                finish()
    exact, said = case.exact(*case.arrays), ""
    results: dict[str, Array] = {}
    for name, run in runs.items():
        for _ in range(3):  # by the second, kernels of its own are asked for
            results[name] = run()
            finish()
            for device in devices:
                with device:
                    registry.engine_for("cupy").settle()
        begun, calls, passed = time.perf_counter(), 0, 0.0
        while passed < LEAST_WARM_S or (calls < WARM_CALLS and passed < MOST_WARM_S):
            results[name] = run()
            finish()
            calls, passed = calls + case.steps, time.perf_counter() - begun
    for name, result in results.items():
        whole = result.gather() if hasattr(result, "gather") else result
        wrong = float(abs(case.part(whole) - exact).max() / abs(exact).max())
        if not wrong <= case.most_wrong:
            return f"{name} is WRONG by {wrong:.1e}"
        said = f"{said}, off by {wrong:.1e}" if not said else f"{said} {wrong:.1e}"
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            finish()
            begun = time.perf_counter()
            run()
            finish()
            times[name].append(time.perf_counter() - begun)
    medians = {name: statistics.median(each) * 1e3 for name, each in times.items()}
    one = medians.pop("one")
    others = [f"{name} {ms:9.3f} ms = {one / ms:.2f}" for name, ms in medians.items()]
    return f"one {one:9.3f} ms, {', '.join(others)}{said}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the cases and prints what was found, also to a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.several_gpus", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--tune", type=float, default=0.0, help="seconds of search, of each kernel")
    parser.add_argument("--out", type=Path, help="a file to write")
    options = parser.parse_args(arguments)
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    searched = f", {options.tune:g} s of search" if options.tune else ""
    versions = f"CuPy {cupy.__version__}, commit {commit() or 'unknown'}"
    head = f"{now()}, {count} x {device}, {versions}{searched}"
    for name, case in {"": None, **cases(cupy)}.items():
        if options.only not in name:
            continue
        tell(
            head if case is None else f"{name:24} {measure(cupy, case(), options.tune)}",
            options.out,
        )
        cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    sys.exit(main())
