"""The pullback (VJP) of a program: from cotangents of results to cotangents of operands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.errors import GradientError
from mdtensor.specs import TensorSpec
from mdtensor.translate.gradients.adjoint import adjoint, copies_with_margins, in_parts
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.program_builder import ProgramBuilder, dims_of, everywhere
from mdtensor.translate.programs.step_dependences import are_apart
from mdtensor.translate.scalar import cast, param
from mdtensor.translate.scalar_function import ScalarFunction


def pullback(
    program: Program,
    specs: Sequence[TensorSpec],
    wanted: Sequence[int],
    given: Collection[int],
) -> Program:
    """The program that computes the cotangents of the operands `wanted`.

    `specs` are those of its own operands: operands of `computation`, its results, and cotangents
    of the results whose numbers are `given`.

    Raises GradientError for what has no gradient.
    """
    if program.alternatives is not None:
        program = replace(program.alternatives.affine(), converted=program.converted)
    operands, results = program.operands, len(program.results)
    builder = ProgramBuilder(specs)
    slots = list(range(operands + results))
    slots += [builder.new(spec) for spec in program.temporaries]
    for slot, dtype in program.converted:
        slots[slot] = _converted(builder, slot, dtype)
    for step in program.steps:
        builder.steps += in_parts(builder, step.on(slots))
    parts = tuple(builder.steps)
    _check_written_once(parts)
    between = range(len(specs), len(builder.specs))
    copies = copies_with_margins(parts, between, builder.specs)
    varying = _varying(parts, wanted)
    check_real([builder.specs[slot] for slot in varying])
    sums: dict[int, list[int]] = {}
    for n, result in enumerate(given):
        sums[operands + result] = [operands + results + n]
    for part in parts[::-1]:
        written = {slot: builder.sum(sums[slot]) for slot in part.results if slot in sums}
        for slot, total in written.items():
            sums[slot] = [total]
        if not written or not varying.intersection(part.results):
            continue
        for slot, cotangent in adjoint(builder, part, written, varying, range(len(specs)), copies):
            sums.setdefault(slot, []).append(cotangent)
    found = [
        builder.sum(sums[slot]) if slot in sums else builder.zeros(builder.specs[slot])
        for slot in wanted
    ]
    return builder.program(_own(builder, found))


def _converted(builder: ProgramBuilder, slot: int, dtype: np.dtype) -> int:
    """A slot with an operand converted to another type, by a step of its own."""
    spec = builder.specs[slot]
    made = builder.new(TensorSpec.of(spec.shape, dtype))
    at = everywhere(spec.shape)
    function = ScalarFunction((spec.dtype,), (cast(param(0, spec.dtype), dtype),), "convert")
    builder.apply(dims_of(spec.shape), function, [(slot, at)], [(made, at)])
    return made


def _check_written_once(parts: Sequence[Step]) -> None:
    """Raises GradientError if an element is overwritten after a read or a write.

    Constants may be written over, as the zeros are that a step fills in part.
    """
    read, written = set[int](), dict[int, list[Step]]()
    for part in parts:
        read.update(part.operands)
        step = Step(part.md_hom, (), part.results)
        before = [other for slot in part.results for other in written.get(slot, [])]
        for slot in part.results if part.operands else ():
            written.setdefault(slot, []).append(step)
        if read.intersection(part.results) or not all(are_apart(step, each) for each in before):
            raise GradientError(
                "an element is written again by a later step of one call",
                notes=(f"by {part.md_hom!r}",),
                hint="write the results of each step to an array of their own",
            )


def check_real(specs: Sequence[TensorSpec]) -> None:
    """Raises GradientError if a differentiated value is complex."""
    for spec in specs:
        if spec.dtype.kind == "c":
            raise GradientError(
                f"a value is {spec.dtype.name}, through which nothing can be differentiated",
                hint="compute real and imaginary parts as arrays of their own",
            )


def _varying(parts: Sequence[Step], wanted: Sequence[int]) -> set[int]:
    """The slots that depend on the wanted ones."""
    varying = set(wanted)
    for part in parts:
        if varying.intersection(part.operands):
            varying.update(part.results)
    return varying


def _own(builder: ProgramBuilder, found: Sequence[int]) -> list[int]:
    """Distinct slots for the results, each written by a step."""
    made: list[int] = []
    for slot in found:
        if slot >= builder.operands and slot not in made:
            made.append(slot)
            continue
        spec = builder.specs[slot]
        made.append(builder.new(spec.packed()))
        extents = {f"a{n}": extent for n, extent in enumerate(spec.shape)}
        builder.copied(slot, made[-1], everywhere(spec.shape), extents)
    return made
