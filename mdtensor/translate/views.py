"""Views: mappings from indices of an `md_hom` to elements of buffers.

Most are affine. Input views may also compute an index: from an element of another buffer (a
gather), or from the dims by any function (the border of a stencil).

Definitions: 002, section 4.2.3, Definitions 5 to 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.scalar import Expr
from mdtensor.translate.trees import dims_in, params_in, with_dims


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """An affine index into one axis of a buffer: coefficients by dim, plus an offset.

    >>> AffineIndex.of(p=2, r=1, offset=-1)
    2p+r-1
    """

    coefficients: tuple[tuple[str, int], ...] = ()
    offset: int = 0

    @classmethod
    def of(cls, *dims: str, offset: int = 0, **coefficients: int) -> AffineIndex:
        """Build an index from dim names (coefficient 1) and coefficients by name."""
        return cls(tuple((dim, 1) for dim in dims) + tuple(coefficients.items()), offset)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dims that the index depends on."""
        return tuple(dim for dim, coefficient in self.coefficients if coefficient)

    def bounds(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Smallest and largest value for dims from 0 to their extents minus 1."""
        spans = [coefficient * (extents[dim] - 1) for dim, coefficient in self.coefficients]
        return (
            self.offset + sum(min(0, span) for span in spans),
            self.offset + sum(max(0, span) for span in spans),
        )

    def renamed(self, names: Mapping[str, str]) -> AffineIndex:
        """Rename the dims."""
        return AffineIndex(tuple((names[dim], c) for dim, c in self.coefficients), self.offset)

    def __repr__(self) -> str:
        text = ""
        for dim, coefficient in self.coefficients:
            sign = "-" if coefficient < 0 else "+" if text else ""
            text += sign + ("" if abs(coefficient) == 1 else str(abs(coefficient))) + dim
        if self.offset or not text:
            text += f"{self.offset:+d}" if text else str(self.offset)
        return text


@dataclass(frozen=True, slots=True)
class ComputedIndex:
    """An index into one axis given by an expression, for input views only.

    Parameter n of `expr` is the element that access n of the same view reads; n is smaller than
    the position of the access that this index belongs to. A value below zero counts from the end
    of the axis, as in NumPy; what is still outside is moved to the nearest end.
    """

    expr: Expr

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dims that the expression uses."""
        return dims_in(self.expr)

    @property
    def elements(self) -> tuple[int, ...]:
        """Positions of the accesses whose elements the expression takes."""
        return params_in(self.expr)

    def renamed(self, names: Mapping[str, str]) -> ComputedIndex:
        """Rename the dims."""
        return ComputedIndex(with_dims(self.expr, names))

    def __repr__(self) -> str:
        return repr(self.expr)


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """One element of a buffer for every point of the index space: an index for each axis."""

    buffer: int
    index: tuple[AffineIndex | ComputedIndex, ...]

    @classmethod
    def at(cls, buffer: int, dims: Iterable[str]) -> BufferAccess:
        """The access at the indices of the given dims, one per axis.

        >>> BufferAccess.at(0, "ij")
        (i, j)
        """
        return cls(buffer, tuple(map(AffineIndex.of, dims)))

    @property
    def is_affine(self) -> bool:
        """Whether no index is computed."""
        return all(isinstance(axis, AffineIndex) for axis in self.index)

    @property
    def elements(self) -> tuple[int, ...]:
        """Positions of the accesses whose elements computed indices use."""
        computed = (axis for axis in self.index if isinstance(axis, ComputedIndex))
        return tuple(dict.fromkeys(n for axis in computed for n in axis.elements))

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dims that the access depends on."""
        return tuple(dict.fromkeys(dim for axis in self.index for dim in axis.dims))

    def renamed(self, names: Mapping[str, str]) -> BufferAccess:
        """Rename the dims."""
        return BufferAccess(self.buffer, tuple(axis.renamed(names) for axis in self.index))

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.index))})"


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """A named input or output buffer, with its spec."""

    name: str
    spec: TensorSpec

    def __repr__(self) -> str:
        return f"{self.name}: {self.spec!r}"
