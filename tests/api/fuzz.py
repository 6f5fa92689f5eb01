"""Random calls of every front end, compared with NumPy, SciPy, or Python itself.

`python -m tests.api.fuzz --front einsum --count 500 --seed 3` runs them in worker processes, so
that a call that crashes or hangs is a failing case like any other. A case is its seed, front end
and number: `--case 3/einsum/17` runs one in this process. `--cupy` makes the calls with CuPy's
arrays, on a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping

from tests.api.fronts import convolutions, einsums, filters, plans, reductions, slices, stencils
from tests.api.fronts.drawing import Draw
from tests.api.fronts.on_cupy import OnCupy
from tests.workers import RIGHT, Workers, parsed

FRONTS: Mapping[str, Callable[[Draw], None]] = {
    "einsum": einsums.check,
    "conv": convolutions.check,
    "reduce": reductions.check,
    "affine": reductions.check_affine,
    "stencil": stencils.check,
    "ndimage": filters.check,
    "lazy": slices.check,
    "products": slices.check_products,
    "plan": plans.check,
}


CUPY = "/cupy"  # what names of cases on GPUs end with
ON_CUPY = ("einsum", "conv", "reduce", "affine")


def outcome(name: str) -> str:
    """Checks the calls of a case; raises what is wrong with one, and says which."""
    front = name.split("/")[1]
    draw = Draw(random.Random(name))
    with eager(draw), on_cupy() if name.endswith(CUPY) else contextlib.nullcontext():
        try:
            FRONTS[front](draw)
        except Exception as error:
            error.add_note("\n    ".join(draw.said[-12:]))
            raise
    return RIGHT


@contextlib.contextmanager
def on_cupy() -> Iterator[None]:
    """Calls are made with copies of their arrays on a GPU, where results lie in C order."""
    modules = (einsums, convolutions, reductions)
    kept, same_order = [module.mdt for module in modules], einsums._same_order
    try:
        einsums._same_order = lambda *_: None
        for module in modules:
            module.mdt = OnCupy()
        yield
    finally:
        einsums._same_order = same_order
        for module, mdt in zip(modules, kept, strict=True):
            module.mdt = mdt


@contextlib.contextmanager
def eager(draw: Draw) -> Iterator[None]:
    """In some cases, small problems get what large ones do: threads, kernels of their own."""
    from mdtensor.api.engine import background_worker, cpu_tier
    from mdtensor.lower.cpu import parallelism

    least, own, pause = cpu_tier.WORTH_THREADS, cpu_tier.WORTH_OWN_KERNEL, background_worker._PAUSE
    if draw.chance(0.3):
        cpu_tier.WORTH_THREADS = parallelism.WORTH_THREADS = 1e-7
        draw.say("eager to divide")
    if draw.chance(0.3):
        cpu_tier.WORTH_OWN_KERNEL = 1e-7
        background_worker._PAUSE = 0.0
        draw.say("eager to compile")
    try:
        yield
    finally:
        cpu_tier.WORTH_THREADS = parallelism.WORTH_THREADS = least
        cpu_tier.WORTH_OWN_KERNEL = own
        background_worker._PAUSE = pause


def describe(name: str) -> str:
    """How to run the case of a name alone."""
    return f"python -m tests.api.fuzz --case {name}"


WORKERS = Workers("tests.api.fuzz", describe)


def names_of(seed: int, front: str, count: int, first: int = 0, where: str = "") -> list[str]:
    """Names of `count` cases of a front end; `where` is CUPY or nothing."""
    return [f"{seed}/{front}/{number}{where}" for number in range(first, first + count)]


def main() -> int:
    """Runs the cases; 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--front", choices=FRONTS, action="append", help="default: all")
    parser.add_argument("--count", type=int, default=100, help="cases of each front end")
    parser.add_argument("--cupy", action="store_true", help="CuPy's arrays, on a GPU")
    options = parsed(parser, outcome, describe)
    if options.case:
        try:
            print(outcome(options.case))
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    failed = False
    for front in options.front or (ON_CUPY if options.cupy else FRONTS):
        where = CUPY if options.cupy else ""
        names = names_of(options.seed, front, options.count, options.first, where)
        report = WORKERS.run(names, verbose=True)
        print(f"{front}:\n{report}", flush=True)
        failed = failed or bool(report.failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
