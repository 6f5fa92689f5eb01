"""Values that are set under conditions, case by case, until every case is covered."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from mdtensor.translate.python.functions import disjunction
from mdtensor.translate.scalar import Expr, select

ATOMS = 10
"""With more different conditions than these, cases count as not covered."""


@dataclass(frozen=True, slots=True)
class Cases:
    """What a variable is, in the cases in which it is set: those where `covered` holds."""

    value: Any
    covered: Any = True

    def then(self, condition: Any, value: Any) -> Cases:
        """After another assignment, under a condition."""
        if not isinstance(condition, Expr):
            return Cases(value) if condition else self
        return Cases(select(condition, value, self.value), disjunction(self.covered, condition))

    @property
    def is_set(self) -> bool:
        """Whether there is a value in every case.

        >>> from mdtensor.translate.scalar import apply, param
        >>> a, x, y = param(0, "?"), param(1, "f4"), param(2, "f4")
        >>> Cases(x, a).is_set, Cases(x, a).then(apply("not", a), y).is_set
        (False, True)
        """
        return always(self.covered)


def always(condition: Any) -> bool:
    """Whether a condition holds whatever the comparisons in it give."""
    if not isinstance(condition, Expr):
        return bool(condition)
    atoms = sorted({repr(atom): atom for atom in _atoms(condition)}.items())
    if len(atoms) > ATOMS:
        return False
    return all(
        _holds(condition, dict(zip((name for name, _ in atoms), truths, strict=True)))
        for truths in itertools.product((False, True), repeat=len(atoms))
    )


def _atoms(condition: Expr) -> list[Expr]:
    if condition.op in ("and", "or", "not"):
        return [atom for arg in condition.args for atom in _atoms(arg)]
    return [] if condition.op == "const" else [condition]


def _holds(condition: Expr, truths: dict[str, bool]) -> bool:
    match condition.op:
        case "and":
            return all(_holds(arg, truths) for arg in condition.args)
        case "or":
            return any(_holds(arg, truths) for arg in condition.args)
        case "not":
            return not _holds(condition.args[0], truths)
        case "const":
            return bool(condition.value)
        case _:
            return truths[repr(condition)]
