"""One computation of a function of arrays that makes several calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.parts.placeholders import place_of
from mdtensor.api.plans.bound_arguments import stand_ins_of
from mdtensor.api.plans.call_plan import planned
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.python.tuples import as_tuple

Array = Any


def joined(function: Callable[..., Sequence[Array]], specs: tuple[TensorSpec, ...]) -> Program:
    """The steps of all calls that a function makes on operands of these specs, as one computation.

    Raises what the calls raise, and TranslationError where the function does more than these: it
    reads other arrays, or gives what no call computed.
    """
    operands = stand_ins_of(specs)
    seen, returned = planned(function, *operands)
    builder = ProgramBuilder(specs)
    # Placeholders are told apart by where they lie; they are alive as long as `seen` is.
    slots = {place_of(array): n for n, array in enumerate(operands)}
    for each in seen:
        made = builder.append(each.program, [_slot(slots, array) for array in each.operands])
        slots |= {place_of(a): n for a, n in zip(as_tuple(each.returned), made, strict=True)}
    results = [_slot(slots, array) for array in returned]
    return builder.program(results, converted=builder.converted)


def _slot(slots: dict[Any, int], array: Any) -> int:
    found = slots.get(place_of(array)) if isinstance(array, np.ndarray) else None
    if found is None:
        raise TranslationError("an array is neither an operand nor what a call computed")
    return found
