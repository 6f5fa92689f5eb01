"""A computation without operands that none of its steps reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mdtensor.api.calls.computation import Computation
from mdtensor.errors import TranslationError


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
