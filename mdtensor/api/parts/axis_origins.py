"""Origins of axes: the operands' axes that run along each axis of a program's results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.views import AffineIndex, BufferAccess, ComputedIndex

Axis = tuple[int, int]  # number of an array, and of one of its axes


class Along(IntEnum):
    """The relation of an axis to another one; two in sequence compose to the lesser."""

    STRIDED = 0  # in other steps, or backwards
    WINDOWED = 1  # step by step, past elements beside each other, or clamped at a border
    SAME = 2  # step by step: its index is one dim


Origins = Mapping[Axis, Along]
_Found = dict[Axis, Along]


def origins_of_results(
    program: Program, operands: Sequence[Sequence[Origins]]
) -> tuple[list[list[Origins]], list[frozenset[Axis]]]:
    """The origins of each axis of each result, and the sets of axes that share one index.

    `operands` has the origins of each operand's axes. They go from an axis to the dims in its
    index, and from these to the axes of outputs that have them, step by step.

    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> product = md_hom_from_einsum("ij,jk->ik", [TensorSpec.of((4, 6)), TensorSpec.of((6, 2))])
    >>> [[rows, columns]], shared = origins_of_results(Program.of(product), [own(0, 2), own(1, 2)])
    >>> [*rows], [*columns], sorted(max(shared, key=len))
    ([(0, 0)], [(1, 1)], [(0, 1), (1, 0)])
    """
    slots: dict[int, Sequence[Origins]] = dict(enumerate(operands))
    written: dict[int, list[_Found]] = {}
    found: list[_Found] = []
    for step in program.steps:
        md_hom = step.md_hom
        between = () if md_hom.epilogue is None else md_hom.epilogue.view
        reads = [
            (access, slots[step.operands[access.buffer]])
            for access in (*md_hom.inp_view, *between)
            if step.operands[access.buffer] in slots
        ]
        of_dims: dict[str, _Found] = {dim.name: {} for dim in md_hom.dims}
        for access, axes in reads:
            for index, origins in zip(access.index, axes, strict=True):
                for dim, along in _dims_along(index):
                    _add(of_dims[dim], origins, along)
        found += of_dims.values()
        for access in md_hom.out_view:
            slot = step.results[access.buffer]
            axes = slots[slot] = written.setdefault(slot, [{} for _ in access.index])
            for index, of_axis in zip(access.index, written[slot], strict=True):
                for dim, along in _dims_along(index):
                    _add(of_axis, of_dims[dim], along)
            _add_single(md_hom, access, reads, written[slot])
    found += [of_axis for axes in written.values() for of_axis in axes]
    shared = [frozenset(with_same_index(each)) for each in found]
    return [list(slots[n]) for n in program.result_slots], [
        axes for axes in shared if len(axes) > 1
    ]


def _add_single(
    md_hom: MDHom,
    written: BufferAccess,
    reads: Sequence[tuple[BufferAccess, Sequence[Origins]]],
    axes: Sequence[_Found],
) -> None:
    """Adds the origins of axes of extent 1 that no input's index has, as where arrays broadcast.

    They are the axes of inputs at the same place, counted from the last one.
    """
    read = {dim for access, _ in reads for dim in access.dims}
    extents = md_hom.extents
    for place, (index, of_axis) in enumerate(zip(written.index, axes, strict=True)):
        if any(dim in read or extents[dim] > 1 for dim in index.dims):
            continue
        for access, origins in reads:
            at = place + len(access.index) - len(written.index)
            if at >= 0 and not {*access.index[at].dims} & {*written.dims}:
                is_single = md_hom.inputs[access.buffer].spec.shape[at] == 1
                _add(of_axis, origins[at], Along.SAME if is_single else Along.STRIDED)


def with_same_index(origins: Origins) -> list[Axis]:
    """The axes with the relation SAME: step by step along the same index."""
    return [axis for axis, along in origins.items() if along == Along.SAME]


def own(number: int, ndim: int) -> list[Origins]:
    """The origins of an array's own axes: each is itself."""
    return [{(number, axis): Along.SAME} for axis in range(ndim)]


def _dims_along(index: AffineIndex | ComputedIndex) -> Iterator[tuple[str, Along]]:
    """The dims of an index, and its relation to each; none where it reads elements."""
    if isinstance(index, ComputedIndex):
        yield from ((dim, Along.WINDOWED) for dim in index.dims if not index.elements)
        return
    forward = Along.SAME if len(index.dims) == 1 else Along.WINDOWED
    for dim, step in index.coefficients:
        if step:
            yield dim, forward if step == 1 else Along.STRIDED


def _add(origins: _Found, others: Origins, along: Along) -> None:
    for axis, before in others.items():
        origins[axis] = max(origins.get(axis, Along.STRIDED), min(before, along))
