"""A computation on other operands: without those that none of its steps reads, or elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from mdtensor.api.calls.computation import Computation
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import Step


def without_operands(computation: Computation, unread: Collection[int]) -> Computation:
    """The same computation on the other operands, in order.

    Raises TranslationError where a step reads one of them.
    """
    read = {slot for step in computation.steps for slot in step.operands}
    if read.intersection(unread):
        raise TranslationError(f"operands {sorted(read.intersection(unread))} are read")
    slots = range(computation.operands + len(computation.specs))
    places = {slot: n for n, slot in enumerate(slot for slot in slots if slot not in unread)}

    return replace(
        computation,
        operands=computation.operands - len(unread),
        steps=tuple(step.on(places) for step in computation.steps),
        converted=tuple((places[slot], dtype) for slot, dtype in computation.converted),
        whole=None,
        uncut=None,
    )


def with_layouts(computation: Computation, specs: Sequence[TensorSpec]) -> Computation:
    """The same computation on operands with other strides.

    Raises TranslationError where they have another shape or type.
    """
    copied = {slot for slot, _ in computation.converted}

    def laid_out(step: Step) -> Step:
        inputs = list(step.md_hom.inputs)
        for number, slot in enumerate(step.operands):
            if slot < computation.operands and slot not in copied:
                due, given = inputs[number].spec, specs[slot]
                if (due.shape, due.dtype) != (given.shape, given.dtype):
                    raise TranslationError(f"operand {slot} is {given}, where {due} is due")
                inputs[number] = replace(inputs[number], spec=given)
        return replace(step, md_hom=replace(step.md_hom, inputs=tuple(inputs)))

    whole, uncut = computation.whole, computation.uncut
    return replace(
        computation,
        steps=tuple(map(laid_out, computation.steps)),
        whole=whole and (lambda: (step := whole()) and laid_out(step)),
        uncut=uncut and (lambda: with_layouts(uncut(), specs)),
    )
