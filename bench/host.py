"""Where the time of a small call goes: the enqueue, and what surrounds it."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np

from bench.timing import after_pauses, batch
from bench.workload import PLAN, Call
from bench.workloads import Contraction

ROUNDS = 7
BATCH_SECONDS = 0.02
ASLEEP_SECONDS = 0.005


def profile(
    workload: Contraction, operands: list[np.ndarray], calls: dict[str, Call]
) -> dict[str, Any]:
    """Seconds of the hot calls, of their enqueue alone, and of calls after a pause.

    The enqueue is a launch of the plan's own kernels, and the wait for them. It takes turns with
    the calls.
    """
    program = program_of(workload, operands)
    calls[PLAN]()
    outs = workload.empty_outputs()
    all_calls = {**calls, "enqueue": partial(program.launcher(), *operands, *outs)}
    medians: dict[str, list[float]] = {name: [] for name in all_calls}
    for _ in range(ROUNDS):
        for name, call in all_calls.items():
            medians[name].append(statistics.median(batch(call, BATCH_SECONDS)))
    hot = {name: statistics.median(times) for name, times in medians.items()}
    asleep = {
        name: statistics.median(after_pauses(call, ASLEEP_SECONDS, 31))
        for name, call in all_calls.items()
    }
    enqueue = hot["enqueue"]
    return {
        "hot": hot,
        "asleep": asleep,
        "beyond_enqueue": {n: t - enqueue for n, t in hot.items() if n != "enqueue"},
        "queue": "calling thread" if getattr(program, "inline", False) else "worker threads",
    }


def program_of(workload: Contraction, operands: list[np.ndarray]) -> Any:
    """The program that a plan runs for a case."""
    import mdtensor

    (choice,) = mdtensor.compile(workload.subscripts, *operands).choices()
    return choice.program
