"""From the program of a loop nest to the computation of its steps on a call's arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.errors import ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.loop_nests.carried import retyped
from mdtensor.translate.loops.loop_program import LoopProgram, LoopStep
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.records.columns import words_of
from mdtensor.translate.reductions.reduction_of_records import WORTH_COPIES


def with_fields(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays, and for records also those of their fields."""
    found: dict[str, Any] = dict(arrays)
    for name, array in arrays.items():
        fields: tuple[str, ...] = array.dtype.names or ()
        found |= with_fields({f"{name}.{field}": array[field] for field in fields})
    return found


def as_operand(array: Array, points: int) -> Array:
    """What kernels read of an array: words of strings; fields that are read often apart.

    Numbers, which become arrays when kernels run, are left as they are.
    """
    if isinstance(array, float | complex):
        return array
    if array.dtype.kind in "SU":
        return words_of(array)
    is_apart = array.flags.c_contiguous or points < WORTH_COPIES * array.size
    around = getattr(array.base, "dtype", None)
    is_field = getattr(around, "names", None) is not None
    return array if is_apart or not is_field else np.ascontiguousarray(array)


def computation_of_loops(
    program: LoopProgram, operands: Mapping[str, TensorSpec], fills: tuple[float | None, ...]
) -> Program:
    """The steps over slots: operands, results, then all other arrays."""
    names = list(operands)
    names += program.results.values()
    count = len(operands)
    inner = dict.fromkeys(
        name
        for step in program.steps
        for name in (*step.inputs, *step.outputs)
        if name not in names
    )
    names += inner
    slots = {name: slot for slot, name in enumerate(names)}
    steps = tuple(
        Step(
            _with_specs(step, operands),
            tuple(slots[name] for name in step.inputs),
            tuple(slots[name] for name in step.outputs),
        )
        for step in program.steps
    )
    results = tuple(program.arrays[name] for name in program.results.values())
    temporaries = tuple(program.arrays[name] for name in inner)
    return Program(count, results, temporaries, steps, fills)


def _with_specs(step: LoopStep, operands: Mapping[str, TensorSpec]) -> MDHom:
    """The `md_hom` of a step on operands as they lie in memory."""
    inputs = tuple(
        dataclasses.replace(buffer, spec=operands.get(name, buffer.spec))
        for buffer, name in zip(step.md_hom.inputs, step.inputs, strict=True)
    )
    return dataclasses.replace(step.md_hom, inputs=inputs)


def checked_begins(program: LoopProgram) -> Callable[..., None] | None:
    """What raises an error where operands make loops begin below 0; None where none can."""
    if not program.begins:
        return None
    places = {name: n for n, name in enumerate(program.operands)}

    def check(*operands: Array) -> None:
        for begin in program.begins:
            told = begin.arrays
            if told is not None and not any(_is_below_0(operands[places[n]]) for n in told):
                continue
            given = [_on_host(operands[places[name]]) for name in begin.step.inputs]
            least = np.zeros((), np.int64)
            reference.compute(begin.step.md_hom, given, [least])
            if least < 0:
                raise retyped(ProgramError, begin.error)

    return check


def _is_below_0(array: Array) -> bool:
    """Whether an element is; elements are integers."""
    return array.dtype.kind == "i" and array.size > 0 and bool(array.min() < 0)


def _on_host(array: Array) -> Array:
    return array.get() if hasattr(array, "get") else array
