"""Joining: a function that makes several calls, as one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.parts.linked_calls import linked, planned
from mdtensor.api.plans.bound_arguments import stand_ins_of
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program

Array = Any


def joined(function: Callable[..., Sequence[Array]], specs: tuple[TensorSpec, ...]) -> Program:
    """All calls of a function on operands of these specs, traced into one program.

    Raises what the calls raise, and TranslationError where the function does more than these: it
    reads other arrays, or gives what no call computed.
    """
    operands = stand_ins_of(specs)
    seen, returned = planned(function, *operands)
    found = linked(seen, operands, tuple(returned))
    if found.constants or found.checks:
        raise TranslationError("a call has constants, or looks at its operands")
    return found.program(specs, np)
