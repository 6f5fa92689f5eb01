"""One computation of a function of arrays that makes several calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.calls.computation import Computation
from mdtensor.api.parts.placeholders import place_of
from mdtensor.api.plans.bound_arguments import stand_ins_of
from mdtensor.api.plans.call_plan import planned
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import Step
from mdtensor.translate.python.tuples import as_tuple

Array = Any


def joined(function: Callable[..., Sequence[Array]], specs: tuple[TensorSpec, ...]) -> Computation:
    """The steps of all calls that a function makes on operands of these specs, as one computation.

    Raises what the calls raise, and TranslationError where the function does more than these: it
    reads other arrays, or gives what no call computed.
    """
    operands = stand_ins_of(specs)
    seen, returned = planned(function, *operands)
    # Placeholders are told apart by where they lie; they are alive as long as `seen` is.
    slots = {place_of(array): n for n, array in enumerate(operands)}
    made: list[TensorSpec] = []
    steps: list[Step] = []
    converted: list[tuple[int, np.dtype]] = []
    for each in seen:
        found = each.computation
        if any(fill is not None for fill in found.fills):
            raise TranslationError("a result that is filled first is a call of its own")
        reads = [_slot(slots, array) for array in each.operands]
        for number, dtype in found.converted:
            if reads[number] >= len(specs):
                raise TranslationError("an intermediate array would be converted")
            converted.append((reads[number], dtype))
        first = len(specs) + len(made)
        made += found.specs
        numbers = [*reads, *range(first, first + len(found.specs))]
        steps += [step.on(numbers) for step in found.steps]
        results = as_tuple(each.returned)
        slots |= {place_of(array): first + n for n, array in enumerate(results)}
    return _in_order(len(specs), made, steps, [_slot(slots, a) for a in returned], converted)


def _slot(slots: dict[Any, int], array: Any) -> int:
    found = slots.get(place_of(array)) if isinstance(array, np.ndarray) else None
    if found is None:
        raise TranslationError("an array is neither an operand nor what a call computed")
    return found


def _in_order(
    operands: int,
    made: Sequence[TensorSpec],
    steps: Sequence[Step],
    results: Sequence[int],
    converted: Sequence[tuple[int, np.dtype]],
) -> Computation:
    """The computation with its results before its temporaries."""
    if len({*results}) < len(results) or any(slot < operands for slot in results):
        raise TranslationError("a result is an operand, or given twice")
    if len({number for number, _ in converted}) < len(converted):
        raise TranslationError("an operand would be converted twice")
    others = [n for n in range(operands, operands + len(made)) if n not in results]
    places = {n: n for n in range(operands)}
    places |= {slot: operands + n for n, slot in enumerate((*results, *others))}
    if converted and any(n in step.operands for n, _ in converted for step in steps[1:]):
        raise TranslationError("an operand that is converted is read by several steps")
    return Computation(
        operands,
        tuple(made[slot - operands] for slot in results),
        tuple(made[slot - operands] for slot in others),
        tuple(step.on(places) for step in steps),
        converted=tuple(converted),
    )
