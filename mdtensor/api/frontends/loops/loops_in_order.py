"""Loops with sequential iterations: many small steps, on windows of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.api.arrays.operands import Array, allocate, as_computed
from mdtensor.api.calls import program_calls, statistics
from mdtensor.api.calls.executable import Run
from mdtensor.api.engine import tuning_mode
from mdtensor.errors import ProgramError
from mdtensor.stage_timer import stage
from mdtensor.translate.loops.loop_program import LoopProgram


def run_in_order(loops: LoopProgram, operands: Sequence[Array], xp: Any) -> list[Array]:
    """Run a program's steps one after the other, into new arrays.

    Raises ProgramError where calls are planned or differentiated.
    """
    if program_calls.planner.get() is not None:
        raise ProgramError(
            "loops that run in order are no part of plans, gradients and calls in parts",
            hint="call the function as it is, or plan what one iteration does",
        )
    program, lives = loops.program, loops.program.lifetimes
    given = as_computed(operands, xp)
    arrays: list[Any] = [a if a.flags.c_contiguous else xp.ascontiguousarray(a) for a in given]
    arrays += [None for _ in program.specs]
    specs, results = dict(enumerate(program.specs, program.operands)), program.result_slots
    launchers: dict[int, Run] = {}
    is_watching = tuning_mode.is_watching()
    for number, (step, windows) in enumerate(zip(program.steps, loops.windows, strict=True)):
        slots = (*step.operands, *step.results)
        for slot in slots:
            if arrays[slot] is None:
                arrays[slot] = allocate(specs[slot], xp)
        pairs = zip(slots, windows, strict=True)
        parts = [arrays[slot][box] if box else arrays[slot] for slot, box in pairs]
        run = launchers.get(id(step.md_hom))
        if run is None or is_watching:
            run = launchers[id(step.md_hom)] = program_calls.launcher_of(step.md_hom, xp)
        with stage("run"):
            run(*parts)
        for slot in slots:
            if lives[slot][1] == number and slot not in results:
                arrays[slot] = None
    found = arrays[results.start : results.stop]
    statistics.tally(statistics.GENERATED, found[0].dtype).calls += 1
    return found
