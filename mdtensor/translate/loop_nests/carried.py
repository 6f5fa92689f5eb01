"""The error of a loop whose iterations depend on each other."""

from __future__ import annotations

from mdtensor.errors import ProgramError
from mdtensor.translate.loop_nests.loop_nest import Loop


class CarriedError(ProgramError):
    """An iteration of `loop` depends on the one before it."""

    loop: Loop = Loop("", 0)


def as_carried(error: ProgramError, loop: Loop) -> CarriedError:
    """The error as one that a loop is the reason of."""
    carried = CarriedError(
        error.message, text=error.text, carets=error.carets, notes=error.notes, hint=error.hint
    )
    carried.loop = loop
    return carried
