"""Expressions of slices: values at every point of a shape, made of elements at affine indices.

Slicing, transposing and broadcasting change the indices, arithmetic the expression. A reduction
and an assembly of blocks are sources whose elements are read like those of an array.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import IndexingError, ShapeError, shown
from mdtensor.options import MOST_AXES
from mdtensor.translate.combine import named
from mdtensor.translate.scalar import Expr, Number, as_expr, param
from mdtensor.translate.trees import params_in, substitute, unified
from mdtensor.translate.views import AffineIndex


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array operand: its number, shape and type."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class ReducedValue:
    """A fused value whose `axes` are reduced, or scanned, by a named operator.

    Axes that it `scans` stay: each element is combined with all before it.
    """

    of: FusedValue
    op: str
    axes: frozenset[int]
    scans: bool = False

    @property
    def kept(self) -> tuple[int, ...]:
        """The remaining axes."""
        if self.scans:
            return tuple(range(len(self.of.shape)))
        return tuple(axis for axis in range(len(self.of.shape)) if axis not in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the remaining axes."""
        return tuple(self.of.shape[axis] for axis in self.kept)

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.of.dtype


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """A block of an assembly; `places` are its indices there, by the value's axes."""

    places: tuple[AffineIndex, ...]
    of: FusedValue


@dataclass(frozen=True, slots=True)
class Assembly:
    """An array assembled from disjoint blocks."""

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: tuple[ArrayPart, ...]


Source = Leaf | ReducedValue | Assembly


def made_of(source: Source) -> tuple[FusedValue, ...]:
    """The values that a source depends on."""
    if isinstance(source, Leaf):
        return ()
    if isinstance(source, ReducedValue):
        return (source.of,)
    return tuple([block.of for block in source.blocks])


@dataclass(frozen=True, slots=True)
class ElementRead:
    """A read of a source at every point; dim `i<n>` is axis n of the fused value."""

    source: Source
    index: tuple[AffineIndex, ...]


@dataclass(frozen=True, slots=True)
class FusedValue:
    """A value for every point of a shape: an expression of the elements read there."""

    shape: tuple[int, ...]
    expr: Expr
    reads: tuple[ElementRead, ...]
    _hash: int | None = field(init=False, default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return FusedValue, (
            self.shape,
            self.expr,
            self.reads,
        )  # hashes of another process are others

    def __hash__(self) -> int:
        found = self._hash
        if found is None:  # once for all, since it takes a look at all that is read
            found = hash((self.shape, self.expr, self.reads))
            object.__setattr__(self, "_hash", found)
        return found

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.expr.dtype

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The array operands, in order of first use."""
        found: dict[Leaf, None] = {}
        for read in self.reads:
            if isinstance(read.source, Leaf):
                found[read.source] = None
            for value in made_of(read.source):
                found |= dict.fromkeys(value.leaves)
        return tuple(found)


def fused_from_source(source: Source) -> FusedValue:
    """The identity expression of a source."""
    index = tuple(AffineIndex.of(dim_of(axis)) for axis in range(len(source.shape)))
    return FusedValue(source.shape, param(0, source.dtype), (ElementRead(source, index),))


def combined(
    operands: Sequence[FusedValue | Expr | Number], build: Callable[..., Expr]
) -> FusedValue:
    """Apply an expression elementwise to operands, with broadcasting.

    `build` makes the expression from theirs. Raises ShapeError where shapes do not fit.
    """
    shape = _broadcast_shape(
        [operand.shape for operand in operands if isinstance(operand, FusedValue)]
    )
    reads: dict[ElementRead, Expr] = {}
    elements: list[Expr] = []
    is_renumbered = False
    for operand in operands:
        if not isinstance(operand, FusedValue):
            elements.append(as_expr(operand))
            continue
        stretched = broadcast(operand, shape)
        taken = [
            reads.setdefault(read, param(len(reads), read.source.dtype)) for read in stretched.reads
        ]
        elements.append(_renumbered(stretched.expr, taken))
        is_renumbered |= elements[-1] is not operand.expr
    value = build(*elements)
    if is_renumbered:
        value = unified(value)  # the operands share what they shared before
    fused = FusedValue(shape, value, tuple(reads))
    return fused if _takes_all(value, elements) else _without_unused(fused)


def _broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The broadcast shape of several shapes, with up to 64 axes.

    NumPy's own function takes 32 axes, and its arrays have up to 64.
    """
    distinct = tuple(dict.fromkeys(shapes))
    columns = itertools.zip_longest(*map(reversed, distinct), fillvalue=1)
    extents = [{*column} - {1} or {1} for column in columns]
    if any(len(found) > 1 for found in extents) or len(extents) > MOST_AXES:
        raise ShapeError(
            f"shapes {', '.join(map(str, distinct))} do not broadcast",
            hint="axes are matched from the last one on; np.newaxis adds one of extent 1",
        )
    return tuple(extent for (extent,) in reversed(extents))


def _renumbered(expr: Expr, elements: Sequence[Expr]) -> Expr:
    """Replace the parameters of an expression; unchanged if the numbers are."""
    if all(element.number == n for n, element in enumerate(elements)):
        return expr
    return substitute(expr, elements)


def _takes_all(value: Expr, elements: Sequence[Expr]) -> bool:
    """Whether a value depends on all of the elements."""
    left = {id(element) for element in elements if element.op != "const"}
    waiting, every = [value], frozenset(left)
    while waiting and left:
        node = waiting.pop()
        left.discard(id(node))
        waiting += () if id(node) in every else node.args
    return not left


def _without_unused(fused: FusedValue) -> FusedValue:
    used = params_in(fused.expr)
    if len(used) == len(fused.reads):
        return fused
    reads = [fused.reads[n] for n in used]
    numbers = {n: position for position, n in enumerate(used)}
    moved = [param(numbers.get(n, 0), read.source.dtype) for n, read in enumerate(fused.reads)]
    return FusedValue(fused.shape, _renumbered(fused.expr, moved), tuple(reads))


def broadcast(fused: FusedValue, shape: Sequence[int]) -> FusedValue:
    """Broadcast a value to a shape.

    Raises ShapeError where it does not fit.
    """
    added = len(shape) - len(fused.shape)
    if added < 0 or any(
        have not in (1, want) for have, want in zip(fused.shape, shape[added:], strict=True)
    ):
        raise ShapeError(f"shape {fused.shape} does not broadcast to {shown(tuple(shape))}")
    places = [
        AffineIndex() if have == 1 else AffineIndex.of(dim_of(added + axis))
        for axis, have in enumerate(fused.shape)
    ]
    return _viewed(fused, shape, places)


def transposed(fused: FusedValue, axes: Sequence[int]) -> FusedValue:
    """Permute the axes of a value."""
    places = [AffineIndex.of(dim_of(axes.index(axis))) for axis in range(len(fused.shape))]
    return _viewed(fused, [fused.shape[axis] for axis in axes], places)


def sliced(fused: FusedValue, key: object) -> FusedValue:
    """Index a value by integers, slices, np.newaxis and an ellipsis.

    Raises IndexingError for other indices, and for those out of range.
    """
    shape: list[int] = []
    places: list[AffineIndex] = []
    for item in _expanded(key, len(fused.shape)):
        if item is None:
            shape.append(1)
            continue
        extent = fused.shape[len(places)]
        if isinstance(item, slice):
            start, stop, step = _indices(item, extent)
            places.append(AffineIndex(((dim_of(len(shape)), step),), start))
            shape.append(len(range(start, stop, step)))
            continue
        if not -extent <= item < extent:
            raise IndexingError(
                f"index {shown(item)} is out of range for axis {len(places)},"
                f" which has {extent} elements"
            )
        places.append(AffineIndex.of(offset=item % extent))
    return _viewed(fused, shape, places)


def _indices(given: slice, extent: int) -> tuple[int, int, int]:
    try:
        return given.indices(extent)
    except (TypeError, ValueError) as error:
        raise IndexingError(f"{shown(given)}: {error}") from None


def _expanded(key: object, ndim: int) -> list[int | slice | None]:
    """Normalise an index to one item per axis, and None for each new axis."""
    listed: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]
    items = [item if item is None or item is ... else _basic(item) for item in listed]
    used = sum(item is not None and item is not ... for item in items)
    if used > ndim:
        raise IndexingError(f"{used} indices for {ndim} axes")
    dots = [n for n, item in enumerate(items) if item is ...]
    if len(dots) > 1:
        raise IndexingError("an index has more than one ellipsis")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (ndim - used), *items[at + 1 :]]


def _basic(item: Any) -> int | slice:
    if isinstance(item, slice):
        return item  # pyright: ignore[reportUnknownVariableType]
    is_mask = isinstance(item, bool | np.bool_)
    try:
        if is_mask or getattr(item, "ndim", 0):
            raise TypeError
        return operator.index(item)
    except TypeError:
        raise IndexingError(
            f"a lazy array cannot be indexed by {shown(cast(Any, item))}",
            hint="integers, slices, ... and np.newaxis; mdtensor.reduce reads at computed indices",
        ) from None


def reduced(
    fused: FusedValue, op: str, axes: Sequence[int], *, keepdims: bool = False
) -> FusedValue:
    """Reduce axes of a value by a named operator; `keepdims` leaves them with extent 1.

    Raises ShapeError where max or min have nothing to choose from, and TranslationError for an
    operator that is not defined on the elements.
    """
    named(op, [fused.dtype])
    if op in ("min", "max") and 0 in (fused.shape[axis] for axis in axes):
        raise ShapeError(f"nothing to take the {op} of: shape {fused.shape}, axes {tuple(axes)}")
    result = fused_from_source(ReducedValue(fused, op, frozenset(axes)))
    if not keepdims:
        return result
    return sliced(
        result,
        tuple(None if axis in axes else slice(None) for axis in range(len(fused.shape))),
    )


def scanned(fused: FusedValue, op: str, axis: int) -> FusedValue:
    """Inclusive scan of a value along an axis by a named operator.

    Raises TranslationError for an operator that is not defined on the elements.
    """
    named(op, [fused.dtype])
    return fused_from_source(ReducedValue(fused, op, frozenset((axis,)), scans=True))


def stored(fused: FusedValue) -> FusedValue:
    """Materialise a value, so that it is computed once; plain reads are returned as they are."""
    if fused.expr.op == "param":
        return fused
    return fused_from_source(
        ReducedValue(fused, "or" if fused.dtype.kind == "b" else "add", frozenset())
    )


def spread(fused: FusedValue, shape: Sequence[int], dims: Sequence[int]) -> FusedValue:
    """Map axis n of a value to axis `dims[n]` of a larger shape.

    Several axes along one are a diagonal; those of extent 1 are repeated.
    """
    places = [
        AffineIndex() if extent == 1 else AffineIndex.of(dim_of(dim))
        for extent, dim in zip(fused.shape, dims, strict=True)
    ]
    return _viewed(fused, shape, places)


def assembled(shape: Sequence[int], blocks: Sequence[ArrayPart]) -> FusedValue:
    """The value of an array assembled from blocks of one type."""
    return fused_from_source(Assembly(tuple(shape), blocks[0].of.dtype, tuple(blocks)))


def reshaped(fused: FusedValue, shape: Sequence[int]) -> FusedValue:
    """Reshape a value in C order.

    An axis that becomes several stays a view; axes that become one are stored.
    """
    groups = _groups(fused.shape, shape)
    if any(len(old) > 1 for old, _ in groups):
        places = [_flat(old, fused.shape) for old, _ in groups]
        extents = [math.prod(fused.shape[axis] for axis in old) for old, _ in groups]
        fused = assembled(extents, [ArrayPart(tuple(places), fused)])
        groups = [([axis], new) for axis, (_, new) in enumerate(groups)]
    wanted = {old[0]: _flat(new, shape) for old, new in groups}
    index = [wanted.get(axis, AffineIndex()) for axis in range(len(fused.shape))]
    return _viewed(fused, shape, index)


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes of both shapes with equal numbers of elements."""
    groups: list[tuple[list[int], list[int]]] = []
    waiting = [axis for axis, extent in enumerate(new) if extent != 1]
    here: list[int] = []
    there: list[int] = []
    for axis in (axis for axis, extent in enumerate(old) if extent != 1):
        here.append(axis)
        size = math.prod(old[n] for n in here)
        while waiting and math.prod(new[n] for n in there) < size:
            there.append(waiting.pop(0))
        if math.prod(new[n] for n in there) == size:
            groups.append((here, there))
            here, there = [], []
    return groups


def _flat(axes: Sequence[int], shape: Sequence[int]) -> AffineIndex:
    """The flat index over some axes, in C order."""
    terms = [
        (dim_of(axis), math.prod(shape[n] for n in axes[place + 1 :]))
        for place, axis in enumerate(axes)
    ]
    return AffineIndex(tuple(terms))


def renumbered(fused: FusedValue, numbers: Mapping[int, int] | Sequence[int]) -> FusedValue:
    """Renumber the leaves: n becomes `numbers[n]`."""

    def source(given: Source) -> Source:
        if isinstance(given, Leaf):
            return replace(given, number=numbers[given.number])
        if isinstance(given, ReducedValue):
            return replace(given, of=renumbered(given.of, numbers))
        blocks = [replace(block, of=renumbered(block.of, numbers)) for block in given.blocks]
        return replace(given, blocks=tuple(blocks))

    return replace(fused, reads=tuple(ElementRead(source(r.source), r.index) for r in fused.reads))


def _viewed(fused: FusedValue, shape: Sequence[int], places: Sequence[AffineIndex]) -> FusedValue:
    """The value with new axes; `places` are indices into the old ones."""
    reads: dict[ElementRead, int] = {}
    moved = [
        reads.setdefault(ElementRead(read.source, composed(read.index, places)), len(reads))
        for read in fused.reads
    ]
    elements = [
        param(number, read.source.dtype) for number, read in zip(moved, fused.reads, strict=True)
    ]
    return FusedValue(tuple(shape), _renumbered(fused.expr, elements), tuple(reads))


def composed(
    indices: Sequence[AffineIndex], places: Sequence[AffineIndex]
) -> tuple[AffineIndex, ...]:
    """Substitute `places[n]` for the dim of axis n in indices."""
    composed: list[AffineIndex] = []
    for index in indices:
        offset = index.offset
        terms: dict[str, int] = {}
        for dim, factor in index.coefficients:
            place = places[int(dim[1:])]
            offset += factor * place.offset
            for name, coefficient in place.coefficients:
                terms[name] = terms.get(name, 0) + factor * coefficient
        composed.append(AffineIndex(tuple(terms.items()), offset))
    return tuple(composed)


def dim_of(axis: int) -> str:
    """The name of the dim that runs over an axis of a value."""
    return f"i{axis}"
