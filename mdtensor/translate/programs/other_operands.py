"""Programs with other operands: some removed, or with other strides."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program, Step


def without_operands(program: Program, unread: Collection[int]) -> Program:
    """Remove unread operands from a program, and renumber its slots.

    Raises TranslationError where a step reads one of them.
    """
    read = {slot for step in program.steps for slot in step.operands}
    if read.intersection(unread):
        raise TranslationError(f"operands {sorted(read.intersection(unread))} are read")
    slots = range(program.operands + len(program.specs))
    places = {slot: n for n, slot in enumerate(slot for slot in slots if slot not in unread)}

    return replace(
        program,
        operands=program.operands - len(unread),
        steps=tuple(step.on(places) for step in program.steps),
        converted=tuple((places[slot], dtype) for slot, dtype in program.converted),
        alternatives=None,
    )


def with_layouts(program: Program, specs: Sequence[TensorSpec]) -> Program:
    """Replace the operands' strides.

    Raises TranslationError where they have another shape or type.
    """
    copied = {slot for slot, _ in program.converted}

    def laid_out(step: Step) -> Step:
        inputs = list(step.md_hom.inputs)
        for number, slot in enumerate(step.operands):
            if slot < program.operands and slot not in copied:
                due, given = inputs[number].spec, specs[slot]
                if (due.shape, due.dtype) != (given.shape, given.dtype):
                    raise TranslationError(f"operand {slot} is {given}, where {due} is due")
                inputs[number] = replace(inputs[number], spec=given)
        return replace(step, md_hom=replace(step.md_hom, inputs=tuple(inputs)))

    alternatives = program.alternatives
    return replace(
        program,
        steps=tuple(map(laid_out, program.steps)),
        alternatives=alternatives and alternatives.on(specs),
    )
