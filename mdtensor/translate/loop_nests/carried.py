"""The errors of loops whose iterations depend on each other."""

from __future__ import annotations

from typing import TypeVar

from mdtensor.errors import ProgramError
from mdtensor.translate.loop_nests.source_loop_nest import SourceLoop

E = TypeVar("E", bound=ProgramError)


class CarriedError(ProgramError):
    """An iteration of `loop` depends on the one before it, by an array or by a variable."""

    loop: SourceLoop = SourceLoop("", 0)
    is_by_variable: bool = False


class LengthyError(ProgramError):
    """Loops that are written out have too many iterations."""


def as_carried(error: ProgramError, loop: SourceLoop) -> CarriedError:
    """The error as one that a loop is the reason of."""
    carried = retyped(CarriedError, error)
    carried.loop = loop
    return carried


def retyped(kind: type[E], error: ProgramError) -> E:
    """The error as one of another type."""
    return kind(
        error.message, text=error.text, carets=error.carets, notes=error.notes, hint=error.hint
    )
