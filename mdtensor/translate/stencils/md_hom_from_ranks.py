"""Rank filters, which take the n-th smallest element of a window, by sorting networks.

The window's elements are sorted by a network of exchanges, which is a scalar function like any
other: it becomes a stencil. Of the network, only what the wanted element depends on is computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec, kind_of
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.scalar import Expr, apply, const, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_filter import stored, taken_dtype
from mdtensor.translate.stencils.md_hom_from_stencil import Stencil, md_homs_from_stencil
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


@dataclass(frozen=True, slots=True)
class RankFilter:
    """A rank filter: the element with `rank` smaller ones in the window.

    `places` are where the window's elements lie from the point.
    """

    places: tuple[tuple[int, ...], ...]
    rank: int
    border: Border


def md_homs_from_ranks(given: RankFilter, field: TensorSpec, out: TensorSpec) -> tuple[MDHom, ...]:
    """The `md_hom`s of a rank filter on an array; NaN if the window has one.

    >>> median = RankFilter(((-1,), (0,), (1,)), 1, Border("wrap"))
    >>> for md_hom in md_homs_from_ranks(median, TensorSpec.of((64,)), TensorSpec.of((64,))):
    ...     print(md_hom)
    md_hom[i0:62](f, (cc))
    md_hom[s0:2, i0:1](f, (cc, cc))
    """
    dtype = taken_dtype(given.border, field.dtype)
    elements = [param(n, dtype) for n in range(len(given.places))]
    result = stored(of_rank(elements, given.rank), out.dtype)
    stencil = Stencil(
        field.shape,
        ScalarFunction((dtype,) * len(elements), (result,)),
        (BufferSpec("u", field),),
        frozenset([0]),
        tuple(
            BufferAccess(0, tuple(AffineIndex.of(offset=step) for step in place))
            for place in given.places
        ),
    )
    return md_homs_from_stencil(stencil, given.border, [out])


def of_rank(elements: Sequence[Expr], rank: int) -> Expr:
    """The element of rank `rank` in sorted order; NaN if there is one.

    >>> x, y = param(0, "i4"), param(1, "i4")
    >>> of_rank([x, y], 0), of_rank([x, y], 1)
    (min(p0, p1), max(p0, p1))
    """
    ordered = list(elements)
    for low, high in exchanges(len(ordered)):
        ordered[low], ordered[high] = _exchanged(ordered[low], ordered[high])
    found = ordered[rank]
    if kind_of(found.dtype) != "f":
        return found
    is_nan = apply("isnan", elements[0])
    for element in elements[1:]:
        is_nan = is_nan | apply("isnan", element)
    return select(is_nan, const(np.nan, found.dtype), found)


def _exchanged(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """The smaller and the larger of two; arbitrary with NaN."""
    if kind_of(x.dtype) != "f":
        return apply("min", x, y), apply("max", x, y)
    is_less = apply("lt", x, y)
    return select(is_less, x, y), select(is_less, y, x)


def exchanges(count: int) -> Iterator[tuple[int, int]]:
    """The compare-exchanges of Batcher's odd-even mergesort for `count` elements.

    >>> list(exchanges(3))
    [(0, 1), (0, 2), (1, 2)]
    """
    size = 1 << (count - 1).bit_length() if count > 1 else 1
    merged = 1
    while merged < size:
        step = merged
        while step:
            for start, n in itertools.product(
                range(step % merged, size - step, 2 * step), range(step)
            ):
                low, high = start + n, start + n + step
                if low // (2 * merged) == high // (2 * merged) and high < count:
                    yield low, high
            step //= 2
        merged *= 2
