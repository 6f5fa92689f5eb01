"""Cut points of the dims of an `md_hom`, at the ends of the chunks of its arrays."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from mdtensor.translate.combine import Pointwise
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.rewrites.parts import Box
from mdtensor.translate.views import AffineIndex, BufferAccess

# For each dim, where its parts begin, and where the last one ends; for an array, the same by axis.
Edges = tuple[int, ...]
Cuts = Mapping[str, Edges]
Grid = tuple[Edges, ...]


def cuts_from_grids(md_hom: MDHom, grids: Sequence[Grid]) -> dict[str, Edges]:
    """The cuts of dims that follow the chunks of the inputs, as far as these agree.

    A dim that several inputs have is cut as the largest of them is, and the others' chunks are put
    together anew. Of the dims of a sum, the longest one is cut.

    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> product = md_hom_from_einsum("ij,jk->ik", [TensorSpec.of((4, 6)), TensorSpec.of((6, 2))])
    >>> cuts_from_grids(product, [((0, 2, 4), (0, 3, 6)), ((0, 4, 6), (0, 2))])
    {'i': (0, 2, 4), 'j': (0, 3, 6), 'k': (0, 2)}
    """
    between = () if md_hom.epilogue is None else md_hom.epilogue.view
    whole: dict[str, Edges] = {dim.name: (0, dim.extent) for dim in md_hom.dims}
    found = dict(whole)
    largest = dict.fromkeys(whole, -1)
    for access in (*md_hom.inp_view, *between):
        spec = md_hom.inputs[access.buffer].spec
        size = math.prod(spec.shape) * spec.dtype.itemsize
        for axis, edges in enumerate(grids[access.buffer]):
            placed = _solved(md_hom, access, axis)
            if placed is None or len(edges) < 3 or largest[placed[0]] >= size:
                continue
            dim, step, offset = placed
            found[dim] = _edges_of_dim(edges, whole[dim][1], step, offset)
            largest[dim] = size
    return allowed(md_hom, found)


def allowed(md_hom: MDHom, cuts: Cuts) -> dict[str, Edges]:
    """The cuts that the operators allow, with further ones where results would be no boxes.

    Along dims that an operator combines which does not commute, only the first one is cut.
    """
    found = dict(cuts)
    if 0 in md_hom.extents.values():
        return {dim.name: (0, dim.extent) for dim in md_hom.dims}
    ordered = [
        dim
        for dim in md_hom.dims
        if isinstance(dim.combine, Pointwise) and not dim.combine.op.commutative and dim.extent > 1
    ]
    for dim in ordered[1:]:
        found[dim.name] = (0, dim.extent)
    extents = md_hom.extents
    for access in md_hom.out_view:
        for index in access.index:
            moving = [dim for dim in index.dims if extents[dim] > 1]
            for dim in sorted(moving, key=extents.__getitem__)[:-1]:
                found[dim] = tuple(range(extents[dim] + 1))
    return found


def grid_of_result(md_hom: MDHom, number: int, cuts: Cuts) -> Grid:
    """The grid of an output whose chunks are written by parts with these cuts."""
    [access] = [access for access in md_hom.out_view if access.buffer == number]
    grid: list[Edges] = []
    for axis, extent in enumerate(md_hom.outputs[number].spec.shape):
        index = access.index[axis]
        assert isinstance(index, AffineIndex)
        inner: list[int] = []
        terms = [(dim, step) for dim, step in index.coefficients if step]
        if terms:
            dim, step = max(terms, key=lambda term: md_hom.extents[term[0]])
            inner = [index.offset + step * e + (1 if step < 0 else 0) for e in cuts[dim][1:-1]]
        grid.append((0, *sorted({e for e in inner if 0 < e < extent}), extent))
    return tuple(grid)


def ranges_of(edges: Edges) -> list[tuple[int, int]]:
    """The parts between edges.

    >>> ranges_of((0, 2, 5))
    [(0, 2), (2, 5)]
    """
    return list(pairwise(edges))


def pieces_along(axis: slice, edges: Edges) -> Iterator[tuple[int, slice, slice]]:
    """The parts that intersect an axis: each number, the slice in it, and the place in the axis.

    >>> list(pieces_along(slice(1, 5, 1), (0, 2, 5)))
    [(0, slice(1, 2, 1), slice(0, 1, 1)), (1, slice(0, 3, 1), slice(1, 4, 1))]
    """
    taken = range(axis.start, axis.stop, axis.step)
    for number in range(max(0, bisect_right(edges, axis.start) - 1), len(edges) - 1):
        low, high = edges[number : number + 2]
        if low >= axis.stop:
            return
        first = max(0, -((axis.start - low) // axis.step))
        last = min(len(taken), -((axis.start - high) // axis.step))
        if last > first:
            section = slice(taken[first] - low, taken[last - 1] - low + 1, axis.step)
            yield number, section, slice(first, last, 1)


def farthest_strides(md_hom: MDHom) -> dict[str, int]:
    """The largest stride of each dim in the inputs: parts along it are long runs of memory."""
    found = dict.fromkeys(md_hom.extents, 0)
    for access in md_hom.inp_view:
        strides = md_hom.inputs[access.buffer].spec.strides
        for index, stride in zip(access.index, strides, strict=True):
            for dim in index.dims:
                found[dim] = max(found[dim], abs(stride))
    return found


def points_of(box: Box) -> int:
    """Number of elements in a box.

    >>> points_of((slice(2, 8, 2), slice(0, 5, 1)))
    15
    """
    return math.prod(len(range(axis.start, axis.stop, axis.step)) for axis in box)


def _solved(md_hom: MDHom, access: BufferAccess, axis: int) -> tuple[str, int, int] | None:
    """The dim that indexes an axis, its step, and its offset on the axis.

    Of a window, and of accesses beside each other, that is the middle.
    """
    index = access.index[axis]
    if not isinstance(index, AffineIndex) or not index.dims:
        return None
    extents = md_hom.extents
    dim = max(index.dims, key=extents.__getitem__)
    beside = [
        other.index[axis]
        for other in md_hom.inp_view
        if other.buffer == access.buffer and len(other.index) > axis
    ]
    offsets = [
        each.offset
        for each in beside
        if isinstance(each, AffineIndex) and each.coefficients == index.coefficients
    ] or [index.offset]
    others = AffineIndex(tuple(term for term in index.coefficients if term[0] != dim))
    low, high = others.bounds(extents)
    step = sum(step for name, step in index.coefficients if name == dim)
    if not step:
        return None
    return dim, step, (min(offsets) + max(offsets) + low + high) // 2


def _edges_of_dim(edges: Edges, extent: int, step: int, offset: int) -> Edges:
    if step > 0:
        inner = [-((offset - edge) // step) for edge in edges[1:-1]]
    else:
        inner = [(offset - edge) // -step + 1 for edge in edges[1:-1]]
    return (0, *sorted({edge for edge in inner if 0 < edge < extent}), extent)
