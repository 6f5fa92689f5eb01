"""What declared indices are, in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.statements import IndexCalc, LetIndex, Statement


def number(index: Index, known: Mapping[str, int]) -> int:
    """The value of an index expression."""
    return sum(
        coefficient * math.prod(known[each] for each in names) for names, coefficient in index.terms
    )


def let(statements: Iterable[Statement], **known: int) -> dict[str, int]:
    """The given names, and those that quotients, remainders and sums declare after them."""
    found = dict(known)
    for statement in statements:
        assert isinstance(statement, LetIndex)
        value = statement.value
        if isinstance(value, IndexCalc):
            lhs, rhs = number(value.lhs, found), number(value.rhs, found)
            found[statement.name] = {"/": lhs // rhs, "%": lhs % rhs}[value.op]
        else:
            found[statement.name] = number(value, found)
    return found
