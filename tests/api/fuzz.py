"""Random calls of every front end, compared with NumPy, SciPy, or Python itself.

`python -m tests.api.fuzz --front einsum --count 500 --seed 3` runs them in worker processes, so
that a call that crashes or hangs is a failing case like any other. A case is its seed, front end
and number: `--case 3/einsum/17` runs one in this process. `--cupy` makes the calls with CuPy's
arrays, on a GPU. `--tiers` makes each call twice, evaluated and by a kernel; the last line says
how often. 560 cases of each front end are some 20,000 calls.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import program_calls, statistics
from mdtensor.api.calls.shape_families import Families
from mdtensor.api.engine import registry
from mdtensor.api.engine.evaluated import Evaluated
from mdtensor.evaluator.evaluation import Evaluation
from mdtensor.translate.md_hom import MDHom
from tests.api.fronts import (
    axes,
    convolutions,
    einsums,
    filters,
    plans,
    reductions,
    slices,
    stencils,
    tuples,
)
from tests.api.fronts.drawing import Draw
from tests.api.fronts.on_cupy import OnCupy
from tests.workers import RIGHT, Report, Workers, parsed

FRONTS: Mapping[str, Callable[[Draw], None]] = {
    "einsum": einsums.check,
    "conv": convolutions.check,
    "reduce": reductions.check,
    "affine": reductions.check_affine,
    "stencil": stencils.check,
    "ndimage": filters.check,
    "lazy": slices.check,
    "products": slices.check_products,
    "axes": axes.check,
    "tuples": tuples.check,
    "plan": plans.check,
}


CUPY = "/cupy"  # what names of cases on GPUs end with
TIERS = "/tiers"  # and those of cases whose calls are evaluated first, then made by kernels
ON_CUPY = ("einsum", "conv", "reduce", "affine")
ON_TIERS = tuple(front for front in FRONTS if front != "plan")  # which has kernels from the start


def outcome(name: str) -> str:
    """Checks the calls of a case; raises what is wrong with one, and says which."""
    if name.endswith(TIERS):
        return " ".join([RIGHT, *[str(calls_on(tier, name)) for tier in _TIERS]])
    _check(name)
    return RIGHT


def _check(name: str) -> None:
    front = name.split("/")[1]
    draw = Draw(random.Random(name))
    with eager(draw), on_cupy() if name.endswith(CUPY) else contextlib.nullcontext():
        try:
            FRONTS[front](draw)
        except Exception as error:
            error.add_note("\n    ".join(draw.said[-12:]))
            raise


_TIERS = (statistics.EVALUATED, statistics.GENERATED)


def calls_on(tier: str, name: str) -> int:
    """Checks the calls of a case on that tier; how many of them it computed."""
    invalidation.clear()
    before = _computed(tier)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "serving", _SERVING[tier])
        if tier == statistics.EVALUATED:  # known families would have kernels
            patched.setattr(program_calls, "families", Families(registry.engine_so_far))
        try:
            _check(name)
        except Exception as error:
            error.add_note(tier)
            raise
    invalidation.clear()
    return _computed(tier) - before


def _evaluated(md_hom: MDHom, arrays: str = "numpy") -> Evaluated:
    return Evaluated(md_hom, Evaluation(md_hom))


_SERVING = {statistics.EVALUATED: _evaluated, statistics.GENERATED: registry.choice_for}


def _computed(tier: str) -> int:
    stats = mdt.stats()
    return sum(getattr(stats, tier).values())


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
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--cupy", action="store_true", help="CuPy's arrays, on a GPU")
    kinds.add_argument("--tiers", action="store_true", help="evaluated, and by kernels")
    parser.add_argument("--workers", type=int, help="processes at once; default: as cores")
    options = parsed(parser, outcome, describe)
    if options.case:
        try:
            print(outcome(options.case))
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    where = CUPY if options.cupy else TIERS if options.tiers else ""
    wrong, made = 0, dict[str, list[int]]()
    for front in options.front or {CUPY: ON_CUPY, TIERS: ON_TIERS}.get(where, FRONTS):
        names = names_of(options.seed, front, options.count, options.first, where)
        report = WORKERS.run(names, verbose=not options.tiers, workers=options.workers)
        made[front] = calls_of(report)
        print(f"{front}:\n{report}", flush=True)
        wrong += len(report.failures)
    if options.tiers:
        print(summary(made, options.count * len(made), wrong))
    return int(bool(wrong))


def calls_of(report: Report) -> list[int]:
    """Calls on each tier that the outcomes of cases count, which become simply right."""
    calls = [0] * len(_TIERS)
    for words, cases in [*report.counts.items()]:
        right, *numbers = words.split()
        if right == RIGHT and numbers:
            del report.counts[words]
            report.counts[RIGHT] += cases
            calls = [all_ + cases * int(n) for all_, n in zip(calls, numbers, strict=True)]
    return calls


def summary(made: Mapping[str, Sequence[int]], cases: int, wrong: int) -> str:
    """The last line of a run of calls on each tier.

    >>> summary({"einsum": [11, 12], "conv": [9, 9]}, 6, 0)
    'calls evaluated/by kernels: einsum 11/12, conv 9/9; all 20/21 in 6 cases, 0 wrong'
    """
    fronts = ", ".join(f"{front} {'/'.join(map(str, n))}" for front, n in made.items())
    total = "/".join(str(sum(n)) for n in zip(*made.values(), strict=True))
    return f"calls evaluated/by kernels: {fronts}; all {total} in {cases} cases, {wrong} wrong"


if __name__ == "__main__":
    sys.exit(main())
