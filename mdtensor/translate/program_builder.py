"""Builder of programs: allocates slots and appends steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.md_hom_program import Program, SlotAccess, Step
from mdtensor.translate.scalar import Expr, Number, const, param
from mdtensor.translate.scalar_function import ScalarFunction, identity_function
from mdtensor.translate.shortened_steps import shortened, with_results
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


class ProgramBuilder:
    """Builds a program on operands, which occupy the first slots.

    `specs` are those of all slots, `steps` the `md_hom`s that fill them, in order.
    """

    def __init__(self, operands: Sequence[TensorSpec]) -> None:
        self.operands = len(operands)
        self.specs = list(operands)
        self.steps: list[Step] = []
        self._types: dict[int, np.dtype] = {}  # in which programs read the slots

    @property
    def converted(self) -> tuple[tuple[int, np.dtype], ...]:
        """The operands that appended programs read in another type."""
        own = [(n, self._types.get(n), self.specs[n].dtype) for n in range(self.operands)]
        return tuple(
            [(n, dtype) for n, dtype, given in own if dtype is not None and dtype != given]
        )

    def new(self, spec: TensorSpec) -> int:
        """Allocate a slot."""
        self.specs.append(spec)
        return len(self.specs) - 1

    def add(
        self, md_hom: MDHom, operands: Sequence[int], results: Sequence[int] | None = None
    ) -> tuple[int, ...]:
        """Append a step; returns its result slots, which are allocated unless given.

        Raises TranslationError where a slot's spec is another than that of the step's buffer.
        """
        if results is None:
            results = [self.new(buffer.spec) for buffer in md_hom.outputs]
        buffers = zip((*md_hom.inputs, *md_hom.outputs), (*operands, *results), strict=True)
        for buffer, slot in buffers:
            if buffer.spec != self.specs[slot]:
                raise TranslationError(f"{buffer} in slot {slot}, which is {self.specs[slot]}")
        self.steps.append(Step(md_hom, tuple(operands), tuple(results)))
        return tuple(results)

    def append(self, program: Program, operands: Sequence[int]) -> tuple[int, ...]:
        """Append a program on the given operand slots; returns its result slots.

        Values that results are filled with are written by steps. Raises TranslationError where an
        array that a step computes would be converted, or one is read in several types.
        """
        converted = dict(program.converted)
        for n, slot in enumerate(operands):
            dtype = converted.get(n, self.specs[slot].dtype)
            if slot >= self.operands and n in converted:
                raise TranslationError("an intermediate array would be converted")
            if self._types.setdefault(slot, dtype) != dtype:
                raise TranslationError("an operand is read in several types")
        slots = [*operands, *map(self.new, program.specs)]
        for slot, fill in zip(slots[program.operands :], program.fills, strict=False):
            if fill is not None:
                self.fill(slot, fill)
        self.steps += [step.on(slots) for step in program.steps]
        return tuple(slots[program.operands : program.result_slots.stop])

    def program(self, results: Sequence[int], **fields: Any) -> Program:
        """Finish the program with these results; dead steps are removed, others `shortened`.

        `fields` are further ones of the program. Raises TranslationError where a result is an
        operand, or given twice.
        """
        if len({*results}) < len(results) or any(slot < self.operands for slot in results):
            raise TranslationError("a result is an operand, or given twice")
        needed, steps = set(results), list[Step]()
        for step in self.steps[::-1]:
            due = [slot for slot in step.results if slot >= self.operands and slot in needed]
            if due:
                steps.append(with_results(step, due))
                needed.update(steps[-1].operands)
        steps = shortened(steps[::-1], self.operands, results)
        known = (*range(self.operands), *results)
        places = {slot: n for n, slot in enumerate(known)}
        for step in steps:
            for slot in step.results:
                places.setdefault(slot, len(places))
        return Program(
            self.operands,
            tuple([self.specs[slot] for slot in results]),
            tuple([self.specs[slot] for slot in [*places][len(known) :]]),
            tuple([step.on(places) for step in steps]),
            **fields,
        )

    def between(
        self, dims: Sequence[Dim], dtypes: Sequence[np.dtype]
    ) -> tuple[tuple[int, ...], tuple[BufferSpec, ...], tuple[BufferAccess, ...]]:
        """Allocate slots with an axis per dim; their buffers and accesses to all points."""
        shape, names = [dim.extent for dim in dims], [dim.name for dim in dims]
        numbers = tuple(self.new(TensorSpec.of(shape, dtype)) for dtype in dtypes)
        buffers = tuple(BufferSpec(f"t{n}", self.specs[slot]) for n, slot in enumerate(numbers))
        return numbers, buffers, tuple(BufferAccess.at(n, names) for n in range(len(numbers)))

    def apply(
        self,
        dims: Sequence[Dim],
        function: ScalarFunction,
        reads: Sequence[SlotAccess],
        writes: Sequence[SlotAccess],
    ) -> None:
        """Append an `md_hom` with views given as pairs of a slot and an access."""
        self.steps.append(Step.of(self.specs, dims, function, reads, writes))

    def zeros(self, spec: TensorSpec) -> int:
        """Allocate a zero-filled slot of a spec, without its gaps."""
        slot = self.new(spec.packed())
        self.fill(slot, 0)
        return slot

    def fill(self, slot: int, value: Number) -> None:
        """Append a step that fills a slot with a value."""
        spec = self.specs[slot]
        constant = ScalarFunction((), (const(value, spec.dtype),), "constant")
        self.apply(dims_of(spec.shape), constant, (), [(slot, everywhere(spec.shape))])

    def padded(self, source: int, around: Sequence[tuple[int, int]], value: Number) -> int:
        """Copy a slot into a new one, padded with a value by `around` elements per axis.

        The axes of the copy lie in the order of the source's.
        """
        spec = self.specs[source]
        shape = [extent + sum(sides) for extent, sides in zip(spec.shape, around, strict=True)]
        target = self.new(spec.packed(shape))
        self.fill(target, value)
        extents = {f"i{n}": extent for n, extent in enumerate(spec.shape)}
        befores = zip(extents, around, strict=True)
        within = [AffineIndex.of(name, offset=before) for name, (before, _) in befores]
        self.copied(source, target, BufferAccess(0, tuple(within)), extents)
        return target

    def sum(self, slots: Sequence[int]) -> int:
        """The elementwise sum of slots; a single slot is returned as is."""
        if len(slots) == 1:
            return slots[0]
        spec = self.specs[slots[0]]
        result = self.new(spec.packed())
        total: Expr = param(0, spec.dtype)
        for n in range(1, len(slots)):
            total = total + param(n, spec.dtype)
        types = tuple(np.dtype(spec.dtype) for _ in slots)
        at = everywhere(spec.shape)
        self.apply(
            dims_of(spec.shape),
            ScalarFunction(types, (total,), "sum"),
            [(slot, at) for slot in slots],
            [(result, at)],
        )
        return result

    def copied(
        self, source: int, target: int, access: BufferAccess, extents: dict[str, int]
    ) -> None:
        """Append a copy of a slot, with an axis per dim, to the target of an access."""
        types = [self.specs[source].dtype]
        dims = [Dim(name, extent, CC) for name, extent in extents.items()]
        at = BufferAccess.at(0, extents)
        self.apply(dims, identity_function(types, "copy"), [(source, at)], [(target, access)])


def dims_of(shape: Sequence[int]) -> list[Dim]:
    """One concatenating dim per axis of an array."""
    return [Dim(f"a{axis}", extent, CC) for axis, extent in enumerate(shape)]


def everywhere(shape: Sequence[int]) -> BufferAccess:
    """The identity access by the dims of `dims_of`."""
    return BufferAccess.at(0, [f"a{axis}" for axis in range(len(shape))])
