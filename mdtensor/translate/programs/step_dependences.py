"""Dependences between steps."""

from __future__ import annotations

import math

import numpy as np

from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import FusedStep, Step
from mdtensor.translate.views import AffineIndex, BufferAccess

_MANY = 1 << 20  # indices along an axis that are compared one by one


def are_apart(one: Step | FusedStep, other: Step | FusedStep) -> bool:
    """Whether two steps are independent: neither accesses what the other writes."""
    written, also_written = set(one.results), set(other.results)
    if written & set(other.operands) or also_written & set(one.operands):
        return False
    if isinstance(one, FusedStep) or isinstance(other, FusedStep):
        return not written & also_written
    return all(
        _miss(one.md_hom, mine, other.md_hom, theirs)
        for mine in one.md_hom.out_view
        for theirs in other.md_hom.out_view
        if one.results[mine.buffer] == other.results[theirs.buffer]
    )


def _miss(one: MDHom, mine: BufferAccess, other: MDHom, theirs: BufferAccess) -> bool:
    """Whether two accesses are disjoint: their indices are, along some axis."""
    for first, second in zip(mine.index, theirs.index, strict=True):
        if isinstance(first, AffineIndex) and isinstance(second, AffineIndex):
            low, high = first.bounds(one.extents)
            least, most = second.bounds(other.extents)
            if high < least or most < low:
                return True
            few = _count(first, one) <= _MANY and _count(second, other) <= _MANY
            if few and not np.intersect1d(_places(first, one), _places(second, other)).size:
                return True
    return False


def _count(index: AffineIndex, md_hom: MDHom) -> int:
    return math.prod(md_hom.extents[dim] for dim in index.dims)


def _places(index: AffineIndex, md_hom: MDHom) -> np.ndarray:
    """All values of an index."""
    places = np.array([index.offset])
    for dim, coefficient in index.coefficients:
        steps = coefficient * np.arange(md_hom.extents[dim])
        places = np.unique(np.add.outer(places, steps))
    return places
