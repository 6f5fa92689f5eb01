"""Values assigned under conditions, and whether these cover all cases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from mdtensor.dataclass import dataclass
from mdtensor.translate.graphs import folded
from mdtensor.translate.python.functions import disjunction
from mdtensor.translate.scalar import Expr, select

ATOMS = 10
"""With more different conditions than these, cases count as not covered."""


@dataclass(frozen=True, slots=True)
class Cases:
    """A variable's value where `covered` holds."""

    value: Any
    covered: Any = True

    def then(self, condition: Any, value: Any) -> Cases:
        """Add an assignment under a condition."""
        if not isinstance(condition, Expr):
            return Cases(value) if condition else self
        return Cases(select(condition, value, self.value), disjunction(self.covered, condition))

    @property
    def is_set(self) -> bool:
        """Whether the cases cover everything.

        >>> from mdtensor.translate.scalar import apply, param
        >>> a, x, y = param(0, "?"), param(1, "f4"), param(2, "f4")
        >>> Cases(x, a).is_set, Cases(x, a).then(apply("not", a), y).is_set
        (False, True)
        """
        return always(self.covered)


def always(condition: Any) -> bool:
    """Whether a condition is a tautology in its comparisons."""
    if not isinstance(condition, Expr):
        return bool(condition)
    atoms = _atoms(condition)
    if len(atoms) > ATOMS:
        return False
    return all(
        _holds(condition, dict(zip(atoms, truths, strict=True)))
        for truths in itertools.product((False, True), repeat=len(atoms))
    )


_LOGIC: Mapping[str, Callable[[list[bool]], bool]] = {
    "and": all,
    "or": any,
    "not": lambda args: not args[0],
}


def _atoms(condition: Expr) -> list[Expr]:
    """The distinct comparisons in a condition."""
    found: dict[Expr, None] = {}
    waiting, seen = [condition], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op in _LOGIC:
            waiting += node.args
        elif node.op != "const":
            found[node] = None
    return list(found)


def _holds(condition: Expr, truths: Mapping[Expr, bool]) -> bool:
    def step(node: Expr, args: list[bool]) -> bool:
        if node.op == "const":
            return bool(node.value)
        return truths[node] if node in truths else node.op in _LOGIC and _LOGIC[node.op](args)

    return folded([condition], step)[0]
