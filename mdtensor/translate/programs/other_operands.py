"""Programs with other operands, some removed or with other strides, and results in other orders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec, strides_in_order
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Alternatives, Program, Step
from mdtensor.translate.views import BufferSpec


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


AxisOrders = tuple[tuple[int, ...], ...]
"""The axes of each result as they lie in memory, the outermost first."""


def with_result_orders(program: Program, orders: AxisOrders) -> Program:
    """Replace the strides of the results, so that their axes lie in `orders`, without gaps."""
    results = _in_orders(program.results, orders)
    laid_out = dict(zip(program.result_slots, results, strict=True))

    def rewritten(step: Step) -> Step:
        md_hom = step.md_hom
        inputs = _with_specs(md_hom.inputs, step.operands, laid_out)
        outputs = _with_specs(md_hom.outputs, step.results, laid_out)
        return replace(step, md_hom=replace(md_hom, inputs=inputs, outputs=outputs))

    alternatives = program.alternatives
    return replace(
        program,
        results=results,
        steps=tuple(map(rewritten, program.steps)),
        alternatives=alternatives and _InOrders(alternatives, orders),
    )


def _in_orders(specs: Sequence[TensorSpec], orders: AxisOrders) -> tuple[TensorSpec, ...]:
    pairs = zip(specs, orders, strict=True)
    return tuple([replace(s, strides=strides_in_order(s.shape, order)) for s, order in pairs])


def _with_specs(
    buffers: Sequence[BufferSpec], slots: Sequence[int], laid_out: Mapping[int, TensorSpec]
) -> tuple[BufferSpec, ...]:
    pairs = zip(buffers, slots, strict=True)
    return tuple([replace(b, spec=laid_out.get(slot, b.spec)) for b, slot in pairs])


@dataclass(frozen=True, slots=True)
class _InOrders:
    """Alternatives whose results are in other orders."""

    inner: Alternatives
    orders: AxisOrders

    def whole(self) -> MDHom | None:
        found = self.inner.whole()
        return found and with_result_orders(Program.of(found), self.orders).steps[0].md_hom

    def affine(self) -> Program:
        return with_result_orders(self.inner.affine(), self.orders)

    def on(self, specs: Sequence[TensorSpec]) -> Alternatives:
        return _InOrders(self.inner.on(specs), self.orders)
