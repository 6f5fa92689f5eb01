"""Steps on windows of their arrays, so that equal steps at other places share an `md_hom`.

Iterations that run one after the other do the same in other places. On windows the places are no
part of the `md_hom`, so that all of them share one, and its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec, contiguous_strides
from mdtensor.translate.loops.loop_program import LoopStep
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.rewrites.parts import Box
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec

NEAR = 4
"""Elements so many apart along each axis, at most, are read from one window."""


def windowed(
    steps: Sequence[LoopStep],
) -> tuple[tuple[LoopStep, ...], tuple[tuple[Box, ...], ...]]:
    """Steps on the windows that they access, with the windows; equal steps share an `md_hom`."""
    known: dict[MDHom, MDHom] = {}
    found = list(map(on_windows, steps))
    shared = [replace(s, md_hom=known.setdefault(s.md_hom, s.md_hom)) for s, _ in found]
    return tuple(shared), tuple([boxes for _, boxes in found])


def on_windows(step: LoopStep) -> tuple[LoopStep, tuple[Box, ...]]:
    """A step on the windows that it accesses, with the windows.

    Accesses that differ by small constants share a window. An access with an index that is
    computed has the whole array.
    """
    md_hom = step.md_hom
    epilogue = md_hom.epilogue
    between = () if epilogue is None else epilogue.view
    inputs = _Cutter(md_hom.inputs, step.inputs, md_hom.extents)
    reads = inputs.views((*md_hom.inp_view, *between))
    outputs = _Cutter(md_hom.outputs, step.outputs, md_hom.extents)
    written = outputs.views(md_hom.out_view)
    count = len(md_hom.inp_view)
    moved = MDHom(
        md_hom.dims,
        md_hom.scalar,
        tuple(inputs.buffers),
        tuple(outputs.buffers),
        reads[:count],
        written,
        None if epilogue is None else replace(epilogue, view=reads[count:]),
    )
    made = LoopStep(moved.canonical(), tuple(inputs.arrays), tuple(outputs.arrays))
    return made, (*inputs.windows, *outputs.windows)


_Bounds = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Cutter:
    """Cuts windows out of buffers held by named arrays."""

    whole: Sequence[BufferSpec]
    names: Sequence[str]
    extents: Mapping[str, int]
    buffers: list[BufferSpec] = field(default_factory=list[BufferSpec])
    arrays: list[str] = field(default_factory=list[str])
    windows: list[Box] = field(default_factory=list[Box])

    def views(self, view: Sequence[BufferAccess]) -> tuple[BufferAccess, ...]:
        """Cut windows for a view; the accesses relative to these."""
        groups: list[list[BufferAccess]] = []
        chosen: list[int] = []
        for access in view:
            near = (n for n, group in enumerate(groups) if _are_near(group[0], access))
            number = next(near, len(groups))
            if number == len(groups):
                groups.append([])
            groups[number].append(access)
            chosen.append(number)
        boxes = [self._box(group) for group in groups]
        for group, box in zip(groups, boxes, strict=True):
            self._cut(group[0].buffer, box)
        return tuple(
            _moved(access, number, boxes[number])
            for access, number in zip(view, chosen, strict=True)
        )

    def _box(self, group: Sequence[BufferAccess]) -> _Bounds:
        shape = self.whole[group[0].buffer].spec.shape
        spans: list[list[tuple[int, int]]] = [[] for _ in shape]
        for access in group:
            for axis, index in enumerate(access.index):
                if not isinstance(index, AffineIndex) or 0 in self.extents.values():
                    return tuple((0, extent) for extent in shape)
                spans[axis].append(index.bounds(self.extents))
        return tuple((min(s)[0], max(high for _, high in s) + 1) for s in spans)

    def _cut(self, buffer: int, box: _Bounds) -> None:
        spec, name = self.whole[buffer].spec, self.names[buffer]
        shape = [high - low for low, high in box]
        strides = contiguous_strides(spec.shape)
        cut = TensorSpec.of(shape, spec.dtype, strides)
        self.buffers.append(BufferSpec(f"{name} {len(self.buffers)}", cut))
        self.arrays.append(name)
        self.windows.append(tuple([slice(*bounds) for bounds in box]))


def _are_near(one: BufferAccess, other: BufferAccess) -> bool:
    """Whether accesses of one buffer differ by small constants, or are computed."""
    return one.buffer == other.buffer and all(
        a.coefficients == b.coefficients and abs(a.offset - b.offset) <= NEAR
        if isinstance(a, AffineIndex) and isinstance(b, AffineIndex)
        else type(a) is type(b)
        for a, b in zip(one.index, other.index, strict=True)
    )


def _moved(access: BufferAccess, buffer: int, box: _Bounds) -> BufferAccess:
    """An access relative to the lower corner of a window."""
    return BufferAccess(
        buffer,
        tuple(
            replace(axis, offset=axis.offset - low) if isinstance(axis, AffineIndex) else axis
            for axis, (low, _) in zip(access.index, box, strict=True)
        ),
    )
