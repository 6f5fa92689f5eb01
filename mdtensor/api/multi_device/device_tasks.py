"""The tasks of a computation on several devices: their operands, kernels and results."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from mdtensor.api.multi_device.sharding import Sharding
from mdtensor.api.multi_device.shares import Shares
from mdtensor.api.multi_device.tasks import SlotBox, Task, Tasks, spec_of_view
from mdtensor.api.parts.parted_step import run_in_parts
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.kernels.kernel_source import ALIGNMENT
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.rewrites.parts import Box, part_of
from mdtensor.translate.scalar import param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


def tasks_of(
    program: Program,
    specs: Sequence[TensorSpec],
    shares: Sequence[Shares],
    home: int | None = None,
    shardings: Sequence[Sharding | None] = (),
) -> Tasks:
    """The tasks of a computation on operands and results of given specs.

    Kernels read operands and write results where these lie: in memory that all devices share, or
    in that of the device of number `home`; then other devices have copies without gaps. Operands,
    results and temporaries that have `shardings` are in shards, arrays in C order.

    Raises TranslationError where a step cannot be computed in parts.
    """
    maker = _Maker(home)
    names = [f"operand {n}" for n in range(program.operands)]
    names += [f"result {n}" for n in range(len(program.results))]
    names += [f"array {n} between" for n in range(len(program.temporaries))]
    cut = (*shardings, *(None,) * (len(names) - len(shardings)))
    for each in zip(names, (*specs, *program.temporaries), cut, strict=True):
        maker.array(*each)
    for number, (step, share) in enumerate(zip(program.steps, shares, strict=True)):
        maker.begin(number, share)
        if share.dim is None and not _is_box(step.md_hom):
            maker.whole(step)
        else:
            run_in_parts(step, share.cuts(step.md_hom), maker)
    operands, given = (maker.slots_of(n) for n in (program.operands, len(specs)))
    made = maker.tasks()
    return Tasks(
        operands, given - operands, tuple(shares), made, tuple(maker.specs), tuple(maker.places),
        tuple(maker.names),
    )  # fmt: skip


# A part of an array, and where it lies in what is read or written.
Piece = tuple[SlotBox, Box]


@dataclass(eq=False, slots=True)
class _Value:
    """An array that a task reads or writes, and its place once that is assigned."""

    spec: TensorSpec | None = None
    view: SlotBox | None = None
    device: int | None = None  # of the task that makes it
    of: _Value | None = None  # of which it is a section
    inside: Box = ()
    pieces: Sequence[Piece] = ()  # of several shards, which are put together first
    replicas: Mapping[int, SlotBox] | None = None  # by devices, of which each reads its own


@dataclass(frozen=True, slots=True)
class _Draft:
    """A task whose arrays may still lack a place."""

    step: int
    device: int
    md_hom: MDHom
    operands: tuple[_Value, ...]
    results: tuple[_Value, ...]
    begins: tuple[int, ...]
    updates: bool = False


@dataclass(slots=True)
class _Maker:
    """The executor that turns the parts of steps into tasks of devices, by their shares.

    Parts come in the order of the shares. What is made of parts is made by the device that has the
    largest of them.
    """

    home: int | None
    in_turn: bool = False
    drafts: list[_Draft] = field(default_factory=list[_Draft])
    specs: list[TensorSpec] = field(default_factory=list[TensorSpec])
    names: list[str] = field(default_factory=list[str])
    places: list[int | None] = field(default_factory=list[int | None])
    _arrays: list[_Array] = field(default_factory=list["_Array"])
    _step: int = 0
    _waiting: list[int] = field(default_factory=list[int])
    # What the step reads that was put together on a device.
    _joined: dict[Hashable, _Value] = field(default_factory=dict[Hashable, "_Value"])

    def array(self, name: str, spec: TensorSpec, sharding: Sharding | None) -> None:
        """Adds an array of the computation, with a slot per shard."""
        self._arrays.append(_Array(len(self.specs), spec, sharding))
        if sharding is None:
            self._slot(name, spec, self.home)
            return
        shapes = zip(sharding.shapes(spec.shape), sharding.devices, strict=True)
        for number, (shape, device) in enumerate(shapes):
            place = None if self.home is None else device
            self._slot(f"{name}, shard {number}", TensorSpec.of(shape, spec.dtype), place)

    def slots_of(self, count: int) -> int:
        """The number of slots of the first `count` arrays."""
        return self._arrays[count].first if count < len(self._arrays) else len(self.specs)

    def begin(self, step: int, shares: Shares) -> None:
        """Begins a step with its shares."""
        self._step, self._waiting = step, [*shares.devices]
        self._joined.clear()

    def whole(self, step: Step) -> None:
        """Add a step whose writes are no boxes, as one task."""
        device = self._waiting[0]
        reads = [self.read(slot, _whole(self._arrays[slot].spec)) for slot in step.operands]
        before = [self.read(slot, _whole(self._arrays[slot].spec)) for slot in step.results]
        written = [self._together(device, each) if each.pieces else each.view for each in before]
        made = self.compute(step.md_hom, reads, ())
        self.drafts[-1] = replace(self.drafts[-1], updates=True)
        for value, view, result in zip(before, written, made, strict=True):
            result.view = view
            for shard, inside in value.pieces:
                self._copy(device, _Value(of=result, inside=inside), shard)

    def read(self, slot: int, box: Box) -> _Value:
        """A box of an array, in place."""
        pieces, sharding = self._arrays[slot].pieces(box), self._arrays[slot].sharding
        if len(pieces) == 1:
            return _Value(view=pieces[0][0])
        if sharding is not None and sharding.axis is None:
            views = (view for view, _ in pieces)
            return _Value(replicas=dict(zip(sharding.devices, views, strict=True)))
        spec = spec_of_view([self._arrays[slot].spec], SlotBox(0, box))
        return _Value(TensorSpec.of(spec.shape, spec.dtype), pieces=pieces)

    def write(self, slot: int, box: Box, value: _Value) -> None:
        """Place a value in an array: written there by its own task, or copied there."""
        assert value.view is None, "a part is written once"
        pieces = self._arrays[slot].pieces(box)
        if len(pieces) == 1:
            value.view = pieces[0][0]
            return
        assert value.device is not None
        for view, inside in pieces:
            self._copy(value.device, _Value(of=value, inside=inside), view)

    def compute(
        self, md_hom: MDHom, operands: Sequence[_Value], begins: Sequence[int]
    ) -> tuple[_Value, ...]:
        """Add a task, on the device that made its largest operand, else on the shares' next one."""
        sizes = [buffer.spec.size for buffer in md_hom.inputs[: len(operands)]]
        made = [
            (size, -number, operand.device)
            for number, (size, operand) in enumerate(zip(sizes, operands, strict=True))
            if operand.device is not None
        ]
        device = max(made)[2] if made else self._waiting.pop(0)
        assert device is not None
        given = tuple(self._on(device, operand) for operand in operands)
        results = tuple(_Value(buffer.spec, device=device) for buffer in md_hom.outputs)
        self.drafts.append(_Draft(self._step, device, md_hom, given, results, tuple(begins)))
        return results

    def _on(self, device: int, value: _Value) -> _Value:
        """A kernel's operand on a device: its replica, or its pieces gathered there."""
        if value.replicas:
            return _Value(view=value.replicas.get(device) or next(iter(value.replicas.values())))
        if not value.pieces:
            return value
        key = device, tuple(view.key for view, _ in value.pieces)
        known = self._joined.get(key)
        if known is None:
            known = self._joined[key] = _Value(view=self._together(device, value))
        return known

    def _together(self, device: int, value: _Value) -> SlotBox:
        """A new array on a device, with tasks that copy the pieces of a value into it."""
        assert value.spec is not None
        whole = self._between(value.spec, device)
        for view, inside in value.pieces:
            self._copy(device, _Value(view=view), whole.section(inside))
        return whole

    def _copy(self, device: int, source: _Value, target: SlotBox) -> None:
        """Add a task that copies elements."""
        spec = spec_of_view(self.specs, target)
        copied = _Value(view=target, device=device)
        self.drafts.append(
            _Draft(self._step, device, copy_of(spec.shape, spec.dtype), (source,), (copied,), ())
        )

    def _between(self, spec: TensorSpec, device: int | None) -> SlotBox:
        number = sum(name.startswith("array ") for name in self.names)
        spec = TensorSpec.of(spec.shape, spec.dtype)
        place = None if self.home is None else device
        self._slot(f"array {number} between", spec, place)
        return SlotBox(len(self.specs) - 1, _whole(spec))

    def _slot(self, name: str, spec: TensorSpec, place: int | None) -> None:
        self.names.append(name)
        self.specs.append(spec)
        self.places.append(place)

    def last(self, value: _Value, axis: int, shape: Sequence[int]) -> _Value:
        """The last elements along an axis, in place."""
        inside = tuple(
            slice(n - 1 if number == axis else 0, n, 1) for number, n in enumerate(shape)
        )
        return _Value(device=value.device, of=value, inside=inside)

    def tasks(self) -> tuple[Task, ...]:
        """The tasks, with new arrays assigned to values that have no place yet."""
        found: list[Task] = []
        for draft in self.drafts:
            writes = tuple(map(self._placed, draft.results))
            reads = tuple(map(self._placed, draft.operands))
            md_hom, leads = self._bound(draft, reads, writes)
            task = Task(
                *(draft.step, draft.device, md_hom, reads, writes),
                *(draft.begins, draft.updates, (), leads),
            )
            after = tuple(n for n, other in enumerate(found) if task.waits_for(other))
            found.append(replace(task, after=after))
        return tuple(found)

    def _placed(self, value: _Value) -> SlotBox:
        if value.view is None and value.of is not None:
            value.view = self._placed(value.of).section(value.inside)
        if value.view is None:
            assert value.spec is not None
            value.view = self._between(value.spec, value.device)
        return value.view

    def _bound(
        self, draft: _Draft, reads: Sequence[SlotBox], writes: Sequence[SlotBox]
    ) -> tuple[MDHom, tuple[int, ...]]:
        """The `md_hom` with the layouts of its arrays or their copies, and the arrays' leads."""
        md_hom = draft.md_hom
        between = () if md_hom.epilogue is None else md_hom.epilogue.view
        read = [self._lead(draft, n, v, md_hom.inp_view + between) for n, v in enumerate(reads)]
        written = [self._lead(draft, n, v, md_hom.out_view) for n, v in enumerate(writes)]

        def bound(
            buffers: Sequence[BufferSpec], views: Sequence[SlotBox], leads: Sequence[int]
        ) -> tuple[BufferSpec, ...]:
            placed: list[BufferSpec] = []
            for buffer, view, lead in zip(buffers, views, leads, strict=False):
                spec = spec_of_view(self.specs, view.led(lead))
                if self.places[view.slot] not in (None, draft.device):
                    spec = TensorSpec.of(spec.shape, spec.dtype)
                placed.append(replace(buffer, spec=spec))
            return (*placed, *buffers[len(views) :])

        epilogue = md_hom.epilogue
        if epilogue is not None:
            epilogue = replace(epilogue, view=_led(epilogue.view, read))
        found = replace(
            md_hom,
            inputs=bound(md_hom.inputs, reads, read),
            outputs=bound(md_hom.outputs, writes, written),
            inp_view=_led(md_hom.inp_view, read),
            out_view=_led(md_hom.out_view, written),
            epilogue=epilogue,
        )
        return found, (*read, *written)

    def _lead(
        self, draft: _Draft, number: int, view: SlotBox, accesses: Sequence[BufferAccess]
    ) -> int:
        """Elements by which a kernel's array begins earlier, to be aligned where rows are.

        Kernels for arrays that begin anywhere move element by element on GPUs.
        """
        spec = self.specs[view.slot]
        if self.home is None or self.places[view.slot] != draft.device or not view.box:
            return 0
        unit = max(1, ALIGNMENT // max(1, spec.dtype.itemsize))
        *outer, inner = spec.strides
        own = [access for access in accesses if access.buffer == number]
        is_affine = all(isinstance(access.index[-1], AffineIndex) for access in own)
        last = view.box[-1]
        is_aligned = inner == last.step == 1 and not any(stride % unit for stride in outer)
        return last.start % unit if is_aligned and is_affine else 0


def _led(accesses: Sequence[BufferAccess], leads: Sequence[int]) -> tuple[BufferAccess, ...]:
    """Accesses shifted to arrays that begin `lead` elements earlier along the last axis."""
    found: list[BufferAccess] = []
    for access in accesses:
        lead = leads[access.buffer] if access.buffer < len(leads) else 0
        if lead:
            last = access.index[-1]
            assert isinstance(last, AffineIndex)
            index = (*access.index[:-1], replace(last, offset=last.offset + lead))
            access = replace(access, index=index)  # noqa: PLW2901
        found.append(access)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Array:
    """An array of the computation, with its first slot and its sharding."""

    first: int
    spec: TensorSpec
    sharding: Sharding | None

    def pieces(self, box: Box) -> list[Piece]:
        """The slot boxes of a box's parts, and their places in the box."""
        if self.sharding is None:
            return [(SlotBox(self.first, box), box)]
        return [
            (SlotBox(self.first + number, part), inside)
            for number, part, inside in self.sharding.pieces(box)
        ]


def copy_of(shape: Sequence[int], dtype: np.dtype) -> MDHom:
    """An `md_hom` that copies an array.

    >>> copy_of((3, 2), np.dtype("f4"))
    md_hom[d0:3, d1:2](id, (cc, cc))
    """
    names = [f"d{axis}" for axis in range(len(shape))]
    spec = TensorSpec.of(shape, dtype)
    return MDHom(
        tuple(Dim(name, extent, CC) for name, extent in zip(names, shape, strict=True)),
        ScalarFunction((spec.dtype,), (param(0, spec.dtype),), "id"),
        (BufferSpec("source", spec),),
        (BufferSpec("target", spec),),
        (BufferAccess.at(0, names),),
        (BufferAccess.at(0, names),),
    )


def _is_box(md_hom: MDHom) -> bool:
    """Whether an `md_hom` writes a box of each of its outputs."""
    try:
        part_of(md_hom, {})
    except TranslationError:
        return False
    return True


def _whole(spec: TensorSpec) -> Box:
    return tuple(slice(0, extent, 1) for extent in spec.shape)
