"""The pullback of a computation: from cotangents of its results to those of its operands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.api.async_steps import are_apart
from mdtensor.api.calls.computation import Computation
from mdtensor.errors import GradientError
from mdtensor.specs import TensorSpec
from mdtensor.translate.gradients.adjoint import adjoint, copies_with_margins, in_parts
from mdtensor.translate.gradients.slots import Slots, dims_of, everywhere
from mdtensor.translate.md_hom import Step
from mdtensor.translate.scalar import cast, param
from mdtensor.translate.scalar_function import ScalarFunction


def pullback(
    computation: Computation,
    specs: Sequence[TensorSpec],
    wanted: Sequence[int],
    given: Collection[int],
) -> Computation:
    """The computation of cotangents of the operands `wanted`.

    `specs` are those of its own operands: operands of `computation`, its results, and cotangents
    of the results whose numbers are `given`.

    Raises GradientError for what has no gradient.
    """
    if computation.uncut is not None:
        computation = replace(computation.uncut(), converted=computation.converted)
    operands, results = computation.operands, len(computation.results)
    slots = Slots(list(specs))
    numbers = list(range(operands + results))
    numbers += [slots.new(spec) for spec in computation.temporaries]
    parts: list[Step] = []
    for slot, dtype in computation.converted:
        numbers[slot], part = _converted(slots, slot, dtype)
        parts.append(part)
    for step in computation.steps:
        parts += in_parts(slots, step.on(numbers))
    _check_written_once(parts)
    between = range(len(specs), len(slots.specs))
    copies = copies_with_margins(parts, between, slots.specs)
    varying = _varying(parts, wanted)
    check_real([slots.specs[slot] for slot in varying])
    sums: dict[int, list[int]] = {}
    for n, result in enumerate(given):
        sums[operands + result] = [operands + results + n]
    for part in parts[::-1]:
        written = {slot: slots.sum(sums[slot]) for slot in part.results if slot in sums}
        for slot, total in written.items():
            sums[slot] = [total]
        if not written or not varying.intersection(part.results):
            continue
        for slot, cotangent in adjoint(slots, part, written, varying, range(len(specs)), copies):
            sums.setdefault(slot, []).append(cotangent)
    found = [
        slots.sum(sums[slot]) if slot in sums else slots.zeros(slots.specs[slot]) for slot in wanted
    ]
    made = _own(slots, found, len(specs))
    known = set(range(len(specs)))
    return _computation(slots, [*parts, *slots.steps], made, known)


def _converted(slots: Slots, slot: int, dtype: np.dtype) -> tuple[int, Step]:
    """The slot of an operand in another type, and what converts it."""
    spec = slots.specs[slot]
    made = slots.new(TensorSpec.of(spec.shape, dtype))
    at = everywhere(spec.shape)
    function = ScalarFunction((spec.dtype,), (cast(param(0, spec.dtype), dtype),), "convert")
    slots.apply(dims_of(spec.shape), function, [(slot, at)], [(made, at)])
    return made, slots.steps.pop()


def _check_written_once(parts: Sequence[Step]) -> None:
    """Raises GradientError where an element is written again after it was read or written.

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
    """Raises GradientError where a value that is differentiated is complex."""
    for spec in specs:
        if spec.dtype.kind == "c":
            raise GradientError(
                f"a value is {spec.dtype.name}, through which nothing can be differentiated",
                hint="compute real and imaginary parts as arrays of their own",
            )


def _varying(parts: Sequence[Step], wanted: Sequence[int]) -> set[int]:
    """The slots that depend on those that are wanted."""
    varying = set(wanted)
    for part in parts:
        if varying.intersection(part.operands):
            varying.update(part.results)
    return varying


def _own(slots: Slots, found: Sequence[int], given: int) -> list[int]:
    """The slots of results, each a slot of its own that a step writes."""
    made: list[int] = []
    for slot in found:
        if slot >= given and slot not in made:
            made.append(slot)
            continue
        spec = slots.specs[slot]
        made.append(slots.new(TensorSpec.of(spec.shape, spec.dtype)))
        extents = {f"a{n}": extent for n, extent in enumerate(spec.shape)}
        slots.copied(slot, made[-1], everywhere(spec.shape), extents)
    return made


def _computation(
    slots: Slots, made: Sequence[Step], results: list[int], known: set[int]
) -> Computation:
    """The steps that results need; operands first, then results, then what lies between."""
    needed = set(results)
    kept: list[Step] = []
    for each in made[::-1]:
        if needed.intersection(each.results) - known:
            kept.append(each)
            needed.update(each.operands)
    kept.reverse()
    between = dict.fromkeys(slot for each in kept for slot in each.results)
    order = [*sorted(known), *results, *(s for s in between if s not in {*results, *known})]
    places = {slot: place for place, slot in enumerate(order)}
    steps = tuple(each.on(places) for each in kept)
    temporaries = tuple(slots.specs[slot] for slot in order[len(known) + len(results) :])
    return Computation(len(known), tuple(slots.specs[slot] for slot in results), temporaries, steps)
