"""Reversed and exclusive scans, by rewriting views."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from mdtensor.translate.combine import Operator, PrefixSum
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import all_substituted, rewritten
from mdtensor.translate.views import AffineIndex, BufferAccess, ComputedIndex


def reversed_along(md_hom: MDHom, names: Collection[str]) -> MDHom:
    """Reverse scans along some dims, so that they begin at the last element.

    Every index n of such a dim becomes extent - 1 - n, on both sides; operators take their
    operands in the order that these have in the array: x[i] ⊗ x[i+1] ⊗ … .
    """
    lasts = {dim.name: dim.extent - 1 for dim in md_hom.dims if dim.name in names}

    def mirrored(function: ScalarFunction) -> ScalarFunction:
        return function.rewritten(_mirroring(lasts))

    def access(given: BufferAccess) -> BufferAccess:
        return BufferAccess(
            given.buffer, tuple(_mirrored_axis(axis, lasts) for axis in given.index)
        )

    epilogue = md_hom.epilogue
    if epilogue is not None:
        epilogue = Epilogue(mirrored(epilogue.function), tuple(map(access, epilogue.view)))
    return replace(
        md_hom,
        dims=tuple(_flipped(dim) if dim.name in names else dim for dim in md_hom.dims),
        scalar=mirrored(md_hom.scalar),
        inp_view=tuple(map(access, md_hom.inp_view)),
        out_view=tuple(map(access, md_hom.out_view)),
        epilogue=epilogue,
    )


def exclusive_along(md_hom: MDHom, names: Collection[str]) -> MDHom:
    """Make scans along some dims exclusive: element n is written to place n + 1.

    Nothing writes the first places: they hold the identity of the operator.
    """

    def shifted(access: BufferAccess) -> BufferAccess:
        return BufferAccess(access.buffer, tuple(map(shift, access.index)))

    def shift(axis: AffineIndex | ComputedIndex) -> AffineIndex | ComputedIndex:
        assert isinstance(axis, AffineIndex)
        by = sum(coefficient for name, coefficient in axis.coefficients if name in names)
        return replace(axis, offset=axis.offset + by)

    return replace(
        md_hom,
        dims=tuple(
            replace(dim, extent=max(0, dim.extent - 1)) if dim.name in names else dim
            for dim in md_hom.dims
        ),
        out_view=tuple(map(shifted, md_hom.out_view)),
    )


def _flipped(dim: Dim) -> Dim:
    if not isinstance(dim.combine, PrefixSum) or dim.combine.op.commutative:
        return dim
    return replace(dim, combine=PrefixSum(_with_exchanged_operands(dim.combine.op)))


def _with_exchanged_operands(operator: Operator) -> Operator:
    width = len(operator.dtypes)
    exchanged = [
        param((n + width) % (2 * width), operator.dtypes[n % width]) for n in range(2 * width)
    ]
    results = all_substituted(operator.results, exchanged)
    return replace(operator, results=results, name=f"flipped {operator.name}")


def _mirroring(lasts: dict[str, int]) -> Callable[[Expr], Expr]:
    """The rewrite rule that counts dims from their last index."""

    def mirrored(node: Expr) -> Expr:
        if node.op != "index" or node.value not in lasts:
            return node
        return lasts[str(node.value)] - node

    return mirrored


def _mirrored_axis(
    axis: AffineIndex | ComputedIndex, lasts: dict[str, int]
) -> AffineIndex | ComputedIndex:
    if isinstance(axis, ComputedIndex):
        return ComputedIndex(rewritten(axis.expr, _mirroring(lasts)))
    moved = sum(c * lasts[name] for name, c in axis.coefficients if name in lasts)
    coefficients = ((name, -c if name in lasts else c) for name, c in axis.coefficients)
    return AffineIndex(tuple(coefficients), axis.offset + moved)
