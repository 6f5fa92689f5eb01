"""A prepared call bound to compiled programs: what the hot path runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.api import pipeline, statistics
from mdtensor.api.operands import allocator
from mdtensor.api.prepare import Prepared

Array = Any
Launch = Callable[..., Array]


def launch_of(prepared: Prepared, arrays: str, xp: Any) -> Launch:
    """A function of the operands, and of `out=` where the caller has one, that runs the steps.

    The function does not check its arguments: they have the specs of the plan, and `out` shares
    no memory with them.
    """
    tally = statistics.tally(statistics.GENERATED, prepared.dtype)
    if not prepared.is_single and xp is not np:
        pipeline.choose_ahead([step.md_hom for step in prepared.steps], arrays)
    programs = [
        pipeline.choice_for(step.md_hom, arrays).program.launcher() for step in prepared.steps
    ]
    makers = [allocator(step.result, xp) for step in prepared.steps]
    if prepared.is_single:
        return single_launch(programs[0], makers[0], tally, len(prepared.steps[0].operands))

    def run(*operands: Array, out: Array | None = None) -> Array:
        slots: list[Array] = list(operands)
        for number, dtype in prepared.converted:
            slots[number] = slots[number].astype(dtype, order="C")
        result: Array = None
        last = len(programs) - 1
        for number, step in enumerate(prepared.steps):
            result = out if out is not None and number == last else makers[number]()
            programs[number](*(slots[slot] for slot in step.operands), result)
            for slot in step.operands:
                slots[slot] = None
            slots.append(result)
        tally.calls += 1
        return result

    return run


def single_launch(
    program: Callable[..., None],
    make: Callable[[], Array],
    tally: statistics.Tally,
    operands: int,
) -> Launch:
    """A function of so many operands that makes the result and runs one program."""

    def launch(*operands: Array, out: Array | None = None) -> Array:
        result = make() if out is None else out
        program(*operands, result)
        tally.calls += 1
        return result

    def launch_of_two(a: Array, b: Array, out: Array | None = None) -> Array:
        result = make() if out is None else out
        program(a, b, result)
        tally.calls += 1
        return result

    return launch_of_two if operands == 2 else launch


def scalar_result(launch: Launch) -> Launch:
    """The same launch, which returns NumPy's scalar for a result without dims."""

    def scalar(*operands: Array) -> np.generic:
        return launch(*operands)[()]

    return scalar
