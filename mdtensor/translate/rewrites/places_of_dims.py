"""Replacement of dims by expressions of their indices."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.translate.scalar import I64, Expr, cast, const, index_of, param
from mdtensor.translate.trees import rewritten
from mdtensor.translate.views import AffineIndex, BufferAccess, ComputedIndex


def stored_index(number: int, dtype: np.dtype) -> Expr:
    """A non-negative index read from an array; int32 as uint32, to simplify bounds checks."""
    stored = param(number, dtype)
    return cast(cast(stored, np.uint32) if dtype == np.int32 else stored, I64)


def unused_name(name: str, names: Collection[str]) -> str:
    """A dim name not in `names`, made from `name`."""
    tried, count = name, 0
    while tried in names:
        count += 1
        tried = f"{name}{count}"
    return tried


@dataclass(frozen=True, slots=True)
class DimReplacement:
    """The rewrite rule that replaces dims by expressions, behind `first` new accesses."""

    places: Mapping[str, Expr]
    first: int

    def __call__(self, node: Expr) -> Expr:
        """Rewrite one node."""
        if node.op == "param":
            return param(node.number + self.first, node.dtype)
        return self.places.get(str(node.value), node) if node.op == "index" else node

    def access(self, access: BufferAccess) -> BufferAccess:
        """Rewrite an access."""
        return BufferAccess(access.buffer, tuple(map(self._index, access.index)))

    def _index(self, index: AffineIndex | ComputedIndex) -> AffineIndex | ComputedIndex:
        if isinstance(index, ComputedIndex):
            return ComputedIndex(rewritten(index.expr, self))
        if self.places.keys().isdisjoint(index.dims):
            return index
        terms = [
            self.places.get(name, index_of(name)) * const(c, I64)
            if c != 1
            else self.places.get(name, index_of(name))
            for name, c in index.coefficients
        ]
        total = sum(terms[1:], terms[0])
        return ComputedIndex(total + const(index.offset, I64) if index.offset else total)
