"""A prepared einsum call bound to compiled programs: one program, or several in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import allocator
from mdtensor.api.calls import statistics
from mdtensor.api.calls.launchers import Into, Launch, counting, single_launch
from mdtensor.api.engine import registry
from mdtensor.api.frontends.einsum.einsum_planner import Prepared
from mdtensor.backends.protocol import Program
from mdtensor.translate.md_hom import MDHom

Array = Any


@dataclass(frozen=True, slots=True)
class Launches:
    """What runs a call: `new` makes the result of operands, `into` has it behind them.

    Neither checks its arguments: they have the specs of the plan, and the result that is given
    shares no memory with the others. `served_by` is the kind of arrays and what is computed.
    """

    new: Launch
    into: Into
    served_by: tuple[str, tuple[MDHom, ...]] = "", ()


def launches_of(prepared: Prepared, arrays: str, xp: Any) -> Launches:
    """What runs the steps of a prepared call on arrays of NumPy, or of CuPy's current device."""
    tally = statistics.tally(statistics.GENERATED, prepared.dtype)
    program = _whole(prepared, arrays)
    run = _stepwise(prepared, arrays, xp) if program is None else program.launcher()
    new = single_launch(run, allocator(prepared.result, xp), tally, prepared.operands)
    into = counting(run, tally)
    if prepared.converted:
        new, into = _converting(new, prepared), _converting(into, prepared)
    return Launches(new, into, (arrays, tuple([step.md_hom for step in prepared.steps])))


def _whole(prepared: Prepared, arrays: str) -> Program | None:
    """The one program that runs all steps, if there is one."""
    if prepared.is_single:
        return registry.choice_for(prepared.steps[0].md_hom, arrays).program
    return registry.joined(prepared.chain) if arrays == "numpy" else None


def _stepwise(prepared: Prepared, arrays: str, xp: Any) -> Into:
    """A function that runs the steps one by one, and drops what no later step reads."""
    if xp is not np:
        registry.choose_ahead([step.md_hom for step in prepared.steps], arrays)
    found = [registry.choice_for(step.md_hom, arrays).program for step in prepared.steps]
    programs = [program.launcher() for program in found]
    makers = [allocator(step.result, xp) for step in prepared.steps]
    last = len(programs) - 1

    def into(*given: Array) -> None:
        *slots, out = given
        for number, step in enumerate(prepared.steps):
            result = out if number == last else makers[number]()
            programs[number](*[slots[slot] for slot in step.operands], result)
            for slot in step.operands:
                slots[slot] = None
            slots.append(result)

    if arrays != "numpy" or any(program.beginner()[1] is not None for program in found):
        return into
    return registry.counted(prepared.chain, into)


def _converting(launch: Callable[..., Any], prepared: Prepared) -> Callable[..., Any]:
    """The same on operands that are copied to other types first."""

    def converting(*arrays: Array) -> Any:
        given = list(arrays)
        for number, dtype in prepared.converted:
            given[number] = given[number].astype(dtype, order="C")
        return launch(*given)

    return converting
