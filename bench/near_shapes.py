"""What winners of near shapes are worth: `python -m bench.near_shapes CASE --store FILE`.

With `--learn`, the first shapes of a case are tuned into the store. Without, the others are held
back: kernels by the cost model's favourite, by the winners of the nearest shapes, fitted, by what
the background of untuned calls compiles ("taken"), and by what searches of a few trials find, with
near winners and without, take turns. Printed are their times over the least, and the geometric
means. They are times of the processor, the least of many turns, so that other programs count for
little; `OMP_NUM_THREADS=1` keeps kernels in the thread that is looked at.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mdtensor as mdt
from bench.machine import commit, now, processor, tell
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.winner_index import WinnerIndex
from mdtensor.api.tuning.first_schedules import near_winners
from mdtensor.api.tuning.harness import TrialBuffers
from mdtensor.api.tuning.measurer import Measurer
from mdtensor.api.tuning.schedule_search import searched
from mdtensor.api.tuning.search_options import SearchOptions
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.progress import ProgressLine
from mdtensor.autotune.search.abort_conditions import evaluations
from mdtensor.autotune.store.store import Store
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import key_form
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.translate.md_hom import MDHom

SECONDS = 60.0  # of a search at most
TURNS, TURN = 25, 5e-3  # how often each kernel has a turn, and seconds of the processor in each


@dataclass(frozen=True)
class Case:
    """A computation by extents, and which extents are tuned, and which are held back."""

    name: str
    problem: Callable[..., MDHom]
    known: Sequence[tuple[int, ...]]
    held_back: Sequence[tuple[int, ...]]


def product(m: int, k: int, n: int) -> MDHom:
    """A matrix product."""
    return mdt.compile("ij,jk->ik", mdt.spec((m, k)), mdt.spec((k, n))).md_homs[0]


def convolution(h: int, c: int, k: int) -> MDHom:
    """A convolution of 3 by 3 taps on square images in channels-last layout."""
    text = "n h+r w+s c, k r s c -> n h w k"
    image, taps = mdt.spec((1, h + 2, h + 2, c)), mdt.spec((k, 3, 3, c))
    return mdt.compile(text, image, taps).md_homs[0]


def neighbours(h: int, w: int) -> MDHom:
    """A stencil of five points."""

    @mdt.stencil
    def mean(u: Any) -> Any:
        return 0.2 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] + u[0, 0])

    return mdt.compile(mean, mdt.spec((h, w))).md_homs[0]


CASES = (
    Case(
        "matmul",
        product,
        ((256, 256, 256), (384, 128, 320), (100, 400, 150)),
        ((320, 224, 288), (300, 150, 250), (125, 333, 160), (200, 200, 500)),
    ),
    Case(
        "convolution",
        convolution,
        ((28, 32, 32), (56, 16, 32), (14, 64, 64)),
        ((20, 32, 48), (16, 48, 48), (40, 24, 24), (28, 64, 64)),
    ),
    Case(
        "stencil",
        neighbours,
        ((512, 512), (700, 1000), (1024, 256)),
        ((600, 600), (1000, 700), (333, 555), (400, 800)),
    ),
)


class Shapes:
    """The shapes of one case on one device, and the store of those that are known."""

    def __init__(self, case: Case, known: Store) -> None:
        self.case, self.device, self.known = case, registry.engine_for().device, known

    def search(self, md_hom: MDHom, trials: int, store: Store) -> Schedule:
        """The schedule that a search of so many trials finds, from what a store has."""
        engine = Engine(self.device, lambda: store)
        problem, deadline = engine.problem_of(md_hom), Deadline(SECONDS)
        options = SearchOptions(abort=evaluations(trials))
        progress = ProgressLine(budget_s=SECONDS, title="", quiet=True)
        with progress, Measurer(engine, registry.device_name("numpy"), SECONDS) as measurer:
            searched(engine, problem, deadline, progress, measurer, options)
        engine.settle()
        found = engine.winner(problem)
        assert found is not None
        return found[1]

    def learn(self, trials: int) -> None:
        """Tunes the shapes that are known."""
        for extents in self.case.known:
            self.search(self.case.problem(*extents), trials, self.known)

    def copied(self) -> Store:
        """A store of its own with the winners that are known."""
        store = Store.in_memory()
        engine = Engine(self.device, lambda: self.known)
        for row in self.known.winners(engine.environment):
            store.set_winner(row.problem, row.environment, row.schedule, seconds=row.seconds)
        return store

    def measure(self, extents: tuple[int, ...], trials: int) -> dict[str, float]:
        """Seconds by the schedules of a shape that is held back, which take turns."""
        md_hom = self.case.problem(*extents)
        engine = Engine(self.device, lambda: self.known)
        problem, target = engine.problem_of(md_hom), engine.target
        expected, favourite = ranked(problem, target, most=1)[0]
        form = key_form(GENERALISE(problem)[0])
        seen = WinnerIndex(lambda: self.known, engine.environment)
        taken = seen.near(form, problem, favourite, expected, target)
        schedules = {"favourite": favourite, "taken": taken or favourite}
        for number, schedule in enumerate(near_winners(engine, problem), 1):
            schedules[f"near {number}"] = schedule
        schedules["search"] = self.search(md_hom, trials, Store.in_memory())
        schedules["search, near"] = self.search(md_hom, trials, self.copied())
        times = by_turns(engine, problem, schedules.values())
        return {name: times[schedule] for name, schedule in schedules.items()}


def by_turns(
    engine: Engine, problem: Problem, schedules: Iterable[Schedule]
) -> dict[Schedule, float]:
    """Seconds of the processor by schedules that take turns, the least of each."""
    arena, runs = TrialBuffers(problem), dict[Schedule, Callable[[], None]]()
    for schedule in dict.fromkeys(schedules):
        program = engine.specialised(problem, schedule, "trial", 0.0).program
        runs[schedule] = arena.run_of(program)
        arena.poison()
        runs[schedule]()
        assert not arena.wrong()
    times = dict.fromkeys(runs, math.inf)
    for _ in range(TURNS):
        for schedule, run in runs.items():
            times[schedule] = min(times[schedule], in_turn(run))
    return times


def in_turn(run: Callable[[], None]) -> float:
    """The median of the processor's seconds of runs, as many as a turn has."""
    times: list[float] = []
    while sum(times) < TURN:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def line_of(extents: tuple[int, ...], times: Mapping[str, float]) -> str:
    """The least time of a shape, and the ratios of all to it.

    >>> line_of((3, 4), {"favourite": 2e-6, "search": 1e-6, "taken": 1.6e-6})
    '  3x4: 1.0 us; favourite 2.00, search 1.00, taken 1.60'
    """
    best = min(times.values())
    ratios = ", ".join(f"{name} {seconds / best:.2f}" for name, seconds in times.items())
    return f"  {'x'.join(map(str, extents))}: {best * 1e6:.1f} us; {ratios}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the cases and prints what was found, also to a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.near_shapes", description=__doc__)
    parser.add_argument("case", choices=[case.name for case in CASES])
    parser.add_argument("--store", type=Path, required=True, help="a file for what is tuned")
    parser.add_argument("--learn", action="store_true", help="tune the shapes that are known")
    parser.add_argument("--trials", type=int, default=12, help="of a search")
    parser.add_argument("--out", type=Path, help="a file to write")
    options = parser.parse_args(arguments)
    (case,) = (case for case in CASES if case.name == options.case)
    shapes = Shapes(case, Store.open(options.store))
    if options.learn:
        shapes.learn(options.trials)
        return
    where = f"{now()} {processor()}, {registry.engine_for().environment}, commit {commit()}"
    tell(where, options.out)
    tell(f"{case.name}, searches of {options.trials} trials, known: {[*case.known]}", options.out)
    found: list[dict[str, float]] = []
    for extents in case.held_back:
        found.append(shapes.measure(extents, options.trials))
        tell(line_of(extents, found[-1]), options.out)
    for name in ("favourite", "taken", "search", "search, near"):
        ratios = [times[name] / min(times.values()) for times in found]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        tell(f"  {name}: {mean:.2f} times the least (geometric mean)", options.out)


if __name__ == "__main__":
    sys.exit(main())
