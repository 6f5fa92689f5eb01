"""Declarations and assignments of tuples of variables, element by element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mdtensor.lower.ir.statements import Let, Set, Statement
from mdtensor.lower.ir.values import Ref, Value


def lets(refs: Iterable[Ref], values: Iterable[Value], *, mutable: bool = False) -> list[Statement]:
    """Declare variables with values."""
    return [Let(ref, value, mutable) for ref, value in zip(refs, values, strict=True)]


def sets(refs: Iterable[Ref], values: Iterable[Value]) -> list[Statement]:
    """Assign to mutable variables, one after the other."""
    return [Set(ref, value) for ref, value in zip(refs, values, strict=True)]


def sets_at_once(
    refs: Iterable[Ref], values: Iterable[Value], held: Sequence[Ref]
) -> list[Statement]:
    """Assign a tuple in parallel: `held` takes all values before the first variable is set.

    >>> import numpy as np
    >>> a, b, x, y = (Ref(each, np.dtype("f4")) for each in "abxy")
    >>> [s.ref.name for s in sets_at_once((a, b), (b, a), (x, y))]
    ['x', 'y', 'a', 'b']
    """
    return [*lets(held, values), *sets(refs, held)]
