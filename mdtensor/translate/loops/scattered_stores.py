"""Stores at data-dependent indices such as `h[x[e]] += 1`, as dims over the array's axes.

An iteration stores where the index of such a dim is the one that it computes. Nothing is searched
for: the lowering goes straight to the element (see `lower.problem.scatter_pattern`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.dataclass import dataclass
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.source_loop_nest import Loops, SourceLoop, SourceStore
from mdtensor.translate.scalar import I64, Expr, apply, cast, const, equal, index_of, select
from mdtensor.translate.views import AffineIndex


@dataclass(frozen=True, slots=True)
class ScatterTarget:
    """The elements that a store may write, with extra dims (`bins`) for computed indices.

    An iteration writes the element for which all of `tests` hold.
    """

    index: tuple[AffineIndex, ...]
    elements: tuple[Expr, ...]
    bins: Loops = ()
    tests: tuple[Expr, ...] = ()

    def where(self, value: Expr, otherwise: Expr) -> Expr:
        """Select a value at the element that an iteration writes, another one elsewhere."""
        for test in self.tests:
            value = select(test, value, otherwise)
        return value


def places_of(store: SourceStore, shape: Sequence[int], name: str) -> ScatterTarget:
    """The target of a store in an array; names of its extra dims begin with `name`.

    Indices below 0 count from the end; where one is outside of the array, nothing is written.
    """
    index: list[AffineIndex] = []
    elements: list[Expr] = []
    bins: list[SourceLoop] = []
    tests: list[Expr] = []
    for axis, (expr, extent) in enumerate(zip(store.index, shape, strict=True)):
        affine = affine_from_expr(expr)
        if affine is None:
            bins.append(SourceLoop(f"{name}{axis}", extent, (), f"axis {axis}"))
            affine, element = AffineIndex.of(bins[-1].name), index_of(bins[-1].name)
            tests.append(equal(element, _from_the_front(expr, extent)))
        else:
            element = expr
        index.append(affine)
        elements.append(element)
    # The test around all others is the one that is not searched for: that of the longest axis.
    by_length = sorted(zip(bins, tests, strict=True), key=lambda pair: pair[0].extent)
    return ScatterTarget(
        tuple(index), tuple(elements), tuple(bins), tuple(test for _, test in by_length)
    )


def _from_the_front(index: Expr, extent: int) -> Expr:
    wide = cast(index, I64)
    if index.dtype.kind in "bu":
        return wide
    return select(apply("lt", wide, const(0, I64)), wide + const(extent, I64), wide)
