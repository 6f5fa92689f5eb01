"""Inputs whose memory an `md_hom` may reuse for results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mdtensor.translate.combine import Concat
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


def overwritten(md_hom: MDHom) -> tuple[tuple[int, int], ...]:
    """Pairs of an output and an input that may share memory.

    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> square = TensorSpec.of((3, 3))
    >>> overwritten(md_hom_from_einsum("ij,i->ij", [square, TensorSpec.of((3,))]))
    ((0, 0),)
    >>> overwritten(md_hom_from_einsum("ij->ji", [square]))
    ()
    """
    if md_hom.epilogue is not None or not all(isinstance(d.combine, Concat) for d in md_hom.dims):
        return ()
    written = [
        (b.spec, [*_places(md_hom, n, b, md_hom.out_view)]) for n, b in enumerate(md_hom.outputs)
    ]
    read = [
        (b.spec, [*_places(md_hom, n, b, md_hom.inp_view)]) for n, b in enumerate(md_hom.inputs)
    ]
    return tuple(
        (number, other)
        for number, (result, places) in enumerate(written)
        for other, (spec, elements) in enumerate(read)
        if (result.dtype, result.nbytes) == (spec.dtype, spec.nbytes)
        if len(places) == 1 and places[0] is not None
        if elements and all(element == places[0] for element in elements)
    )


Place = tuple[int, Mapping[str, int]] | None


def _places(
    md_hom: MDHom, number: int, buffer: BufferSpec, view: tuple[BufferAccess, ...]
) -> Iterator[Place]:
    """Offset and strides by dim of each access to a buffer; None for computed indices."""
    for access in view:
        if access.buffer == number:
            yield _place(md_hom, access, buffer)


def _place(md_hom: MDHom, access: BufferAccess, buffer: BufferSpec) -> Place:
    offset = 0
    steps: dict[str, int] = {}
    for index, stride in zip(access.index, buffer.spec.strides, strict=True):
        if not isinstance(index, AffineIndex):
            return None
        offset += index.offset * stride
        for dim, coefficient in index.coefficients:
            if md_hom.extents[dim] > 1:
                steps[dim] = steps.get(dim, 0) + coefficient * stride
    return offset, {dim: step for dim, step in steps.items() if step}
