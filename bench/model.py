"""How well the cost model ranks schedules of contractions: `python -m bench.model [--only CASE]`.

For every case, the model's favourites, their neighbours and random schedules are compiled, checked
and timed twice, forwards and backwards. Printed are the rank correlation of the estimates with the
times, and the time of the best of the model's first one, three and six over the best time of all.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from bench.families import selected
from bench.workloads import Contraction
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.tuning.cpu_timer import HostClock
from mdtensor.api.tuning.harness import TrialBuffers
from mdtensor.autotune.space.space import Space
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import broken_rule, estimated, ranked
from mdtensor.lower.search.schedule_space import configuration_from, parameters_of, schedule_from
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

FAVOURITES, NEIGHBOURS, RANDOM = 14, 18, 12
FIRST = (1, 3, 6)


def drawn(problem: Problem, engine: Engine, rng: Random) -> list[Schedule]:
    """Favourites of the model, schedules some changes away from these, and random ones."""
    target = engine.target
    space = Space(parameters_of(problem, target))
    favourites = [schedule for _, schedule in ranked(problem, target)]
    found = [*favourites[:8], *rng.sample(favourites, min(len(favourites), FAVOURITES - 8))]
    for n in range(NEIGHBOURS):
        here = space.nearest(configuration_from(problem, favourites[n % 4]), rng)
        for _ in range(1 + n % 3):
            here = here and next(space.neighbours(here, rng), here)
        if here is not None:
            found.append(schedule_from(problem, target, here))
    found += [schedule_from(problem, target, space.sample(rng)) for _ in range(RANDOM)]
    return [s for s in dict.fromkeys(found) if not broken_rule(problem, s, target)]


def timed(problem: Problem, engine: Engine, schedules: Sequence[Schedule]) -> dict[Schedule, float]:
    """The lesser of two times of each schedule that compiles and is right."""
    arena, times = TrialBuffers(problem), dict[Schedule, float]()
    for schedule in (*schedules, *reversed(schedules)):
        try:
            program = engine.specialised(problem, schedule, "trial", 0.0).program
        except (CompileError, LoweringError):
            continue
        run, clock = arena.run_of(program), HostClock()
        arena.poison()
        run()
        if not arena.wrong():
            seconds, _ = clock.steady(run)
            times[schedule] = min(seconds, times.get(schedule, math.inf))
    return times


def report(name: str, estimates: Sequence[float], seconds: Sequence[float]) -> str:
    """A line: rank correlation, and what is lost by measuring only the first of the model's.

    >>> report("matmul", [1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 13.0, 12.0])
    'matmul: 4 schedules, rank correlation 0.80, best of first 1: 1.00, 3: 1.00, 6: 1.00'
    """
    order = np.argsort(estimates, kind="stable")
    ranks = [np.argsort(np.argsort(values)) for values in (estimates, seconds)]
    correlation = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    best = min(seconds)
    lost = (f"{n}: {min(seconds[i] for i in order[:n]) / best:.2f}" for n in FIRST)
    return (
        f"{name}: {len(seconds)} schedules, rank correlation {correlation:.2f}, "
        f"best of first {', '.join(lost)}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the cases, prints a line for each, and writes what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.model", description=__doc__)
    parser.add_argument("--only", help="names, parts of names or patterns, separated by commas")
    parser.add_argument("--out", type=Path, help="a file for schedules, estimates and times")
    options = parser.parse_args(arguments)
    engine, rows = registry.engine_for("numpy"), dict[str, list[tuple[str, float, float]]]()
    for case in selected(options.only):
        assert isinstance(case, Contraction)
        problem = problem_from_md_hom(md_hom_from_einsum(case.subscripts, case.inputs))
        times = timed(problem, engine, drawn(problem, engine, Random(0)))
        if len(times) > 1:
            estimates = [estimated(problem, s, engine.target) for s in times]
            print(report(case.name, estimates, list(times.values())), flush=True)
            texts = [schedule.to_json() for schedule in times]
            rows[case.name] = list(zip(texts, estimates, times.values(), strict=True))
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
