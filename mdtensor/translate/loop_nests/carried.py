"""Errors of loop-carried dependences."""

from __future__ import annotations

from typing import TypeVar

from mdtensor.errors import ProgramError
from mdtensor.translate.loop_nests.source_loop_nest import SourceLoop

E = TypeVar("E", bound=ProgramError)


class CarriedError(ProgramError):
    """An array or a variable carries a dependence between iterations of `loop`."""

    loop: SourceLoop = SourceLoop("", 0)
    is_by_variable: bool = False


class LengthyError(ProgramError):
    """Unrolled loops have too many iterations."""


def as_carried(error: ProgramError, loop: SourceLoop) -> CarriedError:
    """Convert an error to a CarriedError of a loop."""
    carried = retyped(CarriedError, error)
    carried.loop = loop
    return carried


def retyped(kind: type[E], error: ProgramError) -> E:
    """The error as an instance of another class."""
    return kind(
        error.message, text=error.text, carets=error.carets, notes=error.notes, hint=error.hint
    )
