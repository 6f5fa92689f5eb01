"""Loops whose iterations run one after the other: many small steps, on windows of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdtensor.api.arrays.operands import Array, allocate, as_computed
from mdtensor.api.calls import program_calls, statistics
from mdtensor.api.calls.executable import Run
from mdtensor.api.engine import tuning_mode
from mdtensor.errors import ProgramError
from mdtensor.stage_timer import stage
from mdtensor.translate.loops.loop_program import LoopProgram
from mdtensor.translate.loops.step_windows import Window


def run_in_order(program: LoopProgram, operands: Mapping[str, Array], xp: Any) -> dict[str, Array]:
    """The final contents of the parameters that a program writes, in arrays of their own.

    Raises ProgramError where calls are planned or differentiated.
    """
    if program_calls.planner.get() is not None:
        raise ProgramError(
            "loops that run in order are no part of plans, gradients and calls in parts",
            hint="call the function as it is, or plan what one iteration does",
        )
    given = as_computed([*operands.values()], xp)
    arrays = {
        name: array if array.flags.c_contiguous else xp.ascontiguousarray(array)
        for name, array in zip(operands, given, strict=True)
    }
    launchers: dict[int, Run] = {}
    is_watching = tuning_mode.is_watching()
    for step in program.windows:
        for name in step.first:
            arrays[name] = allocate(program.arrays[name], xp)
        windows = [_window(arrays, window) for window in (*step.inputs, *step.outputs)]
        run = launchers.get(id(step.md_hom))
        if run is None or is_watching:
            run = launchers[id(step.md_hom)] = program_calls.launcher_of(step.md_hom, xp)
        with stage("run"):
            run(*windows)
        for name in step.last:
            del arrays[name]
    results = {name: arrays[place] for name, place in program.results.items()}
    first = next(iter(results.values()))
    statistics.tally(statistics.GENERATED, first.dtype).calls += 1
    return results


def _window(arrays: Mapping[str, Array], window: Window) -> Array:
    array = arrays[window.array]
    return array[window.slices] if window.bounds else array
