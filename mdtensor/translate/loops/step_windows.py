"""Steps on windows: a step that touches parts of arrays, as one on these parts alone.

Iterations that run one after the other do the same in other places. On windows the places are no
part of the `md_hom`, so that all of them share one, and its kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec, contiguous_strides
from mdtensor.translate.loops.loop_program import LoopStep, Window, WindowStep
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.views import Access, AffineIndex, Buffer

NEAR = 4
"""Elements so many apart along each axis, at most, are read from one window."""


def windowed(
    steps: Sequence[LoopStep], operands: Collection[str], results: Collection[str]
) -> tuple[WindowStep, ...]:
    """The steps on the windows that they touch; equal ones have one `md_hom`.

    `operands` name arrays that are there before the first step, `results` those that stay.
    """
    known: dict[MDHom, MDHom] = {}
    found = list(map(on_windows, steps))
    names = [dict.fromkeys(w.array for w in (*step.inputs, *step.outputs)) for step in found]
    first, last = dict.fromkeys(operands, -1), dict.fromkeys(operands, -1)
    for number, used in enumerate(names):
        for name in used:
            first.setdefault(name, number)
            last[name] = number
    return tuple(
        replace(
            step,
            md_hom=known.setdefault(step.md_hom, step.md_hom),
            first=tuple(name for name in used if first[name] == number),
            last=tuple(name for name in used if last[name] == number and name not in results),
        )
        for number, (step, used) in enumerate(zip(found, names, strict=True))
    )


def on_windows(step: LoopStep) -> WindowStep:
    """A step on the windows that it touches; equal steps in other places have one `md_hom`.

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
    return WindowStep(moved.canonical(), tuple(inputs.windows), tuple(outputs.windows))


_Box = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Cutter:
    """Cuts windows out of buffers, which arrays of some names hold."""

    whole: Sequence[Buffer]
    names: Sequence[str]
    extents: Mapping[str, int]
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    windows: list[Window] = field(default_factory=list[Window])

    def views(self, view: Sequence[Access]) -> tuple[Access, ...]:
        """The accesses on the windows that hold them, which are cut."""
        groups: list[list[Access]] = []
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

    def _box(self, group: Sequence[Access]) -> _Box:
        shape = self.whole[group[0].buffer].spec.shape
        spans: list[list[tuple[int, int]]] = [[] for _ in shape]
        for access in group:
            for axis, index in enumerate(access.index):
                if not isinstance(index, AffineIndex) or 0 in self.extents.values():
                    return tuple((0, extent) for extent in shape)
                spans[axis].append(index.bounds(self.extents))
        return tuple((min(s)[0], max(high for _, high in s) + 1) for s in spans)

    def _cut(self, buffer: int, box: _Box) -> None:
        spec, name = self.whole[buffer].spec, self.names[buffer]
        shape = [high - low for low, high in box]
        strides = contiguous_strides(spec.shape)
        cut = TensorSpec.of(shape, spec.dtype, strides)
        self.buffers.append(Buffer(f"{name} {len(self.buffers)}", cut))
        self.windows.append(Window(name, box))


def _are_near(one: Access, other: Access) -> bool:
    """Whether accesses of one buffer differ by small constants, or are computed."""
    return one.buffer == other.buffer and all(
        a.coefficients == b.coefficients and abs(a.offset - b.offset) <= NEAR
        if isinstance(a, AffineIndex) and isinstance(b, AffineIndex)
        else type(a) is type(b)
        for a, b in zip(one.index, other.index, strict=True)
    )


def _moved(access: Access, buffer: int, box: _Box) -> Access:
    """An access to a window that begins at the lower corner of a box."""
    return Access(
        buffer,
        tuple(
            replace(axis, offset=axis.offset - low) if isinstance(axis, AffineIndex) else axis
            for axis, (low, _) in zip(access.index, box, strict=True)
        ),
    )
