"""Slots: the numbered arrays of a chain of `md_hom`s that is being made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC
from mdtensor.translate.md_hom import Dim, MDHom, Step
from mdtensor.translate.scalar import Expr, const, param
from mdtensor.translate.scalar_function import ScalarFunction, identity_function
from mdtensor.translate.views import Access, Buffer


@dataclass(frozen=True, slots=True)
class Slots:
    """The specs of all slots, and the `md_hom`s that fill them, in order."""

    specs: list[TensorSpec] = field(default_factory=list[TensorSpec])
    steps: list[Step] = field(default_factory=list[Step])

    def new(self, spec: TensorSpec) -> int:
        """The number of a new slot."""
        self.specs.append(spec)
        return len(self.specs) - 1

    def between(
        self, dims: Sequence[Dim], dtypes: Sequence[np.dtype]
    ) -> tuple[tuple[int, ...], tuple[Buffer, ...], tuple[Access, ...]]:
        """New slots with an axis for each dim, their buffers, and accesses to all points."""
        shape, names = [dim.extent for dim in dims], [dim.name for dim in dims]
        numbers = tuple(self.new(TensorSpec.of(shape, dtype)) for dtype in dtypes)
        buffers = tuple(Buffer(f"t{n}", self.specs[slot]) for n, slot in enumerate(numbers))
        return numbers, buffers, tuple(Access.at(n, names) for n in range(len(numbers)))

    def apply(
        self,
        dims: Sequence[Dim],
        function: ScalarFunction,
        reads: Sequence[tuple[int, Access]],
        writes: Sequence[tuple[int, Access]],
    ) -> None:
        """Adds an `md_hom`, its views as pairs of a slot and an index into that."""
        inputs = tuple(dict.fromkeys(slot for slot, _ in reads))
        outputs = tuple(dict.fromkeys(slot for slot, _ in writes))
        md_hom = MDHom(
            tuple(dims),
            function,
            tuple(Buffer(f"I{n}", self.specs[slot]) for n, slot in enumerate(inputs)),
            tuple(Buffer(f"O{n}", self.specs[slot]) for n, slot in enumerate(outputs)),
            tuple(Access(inputs.index(slot), access.index) for slot, access in reads),
            tuple(Access(outputs.index(slot), access.index) for slot, access in writes),
        )
        self.steps.append(Step(md_hom, inputs, outputs))

    def zeros(self, spec: TensorSpec) -> int:
        """A slot of zeros."""
        slot = self.new(TensorSpec.of(spec.shape, spec.dtype))
        zero = ScalarFunction((), (const(0, spec.dtype),), "zero")
        self.apply(dims_of(spec.shape), zero, (), [(slot, everywhere(spec.shape))])
        return slot

    def sum(self, slots: Sequence[int]) -> int:
        """A slot with the sum of several of one shape; the slot itself of one."""
        if len(slots) == 1:
            return slots[0]
        spec = self.specs[slots[0]]
        result = self.new(TensorSpec.of(spec.shape, spec.dtype))
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

    def copied(self, source: int, target: int, access: Access, extents: dict[str, int]) -> None:
        """Copies a slot with an axis for each of some dims to where an access says."""
        types = [self.specs[source].dtype]
        dims = [Dim(name, extent, CC) for name, extent in extents.items()]
        at = Access.at(0, extents)
        self.apply(dims, identity_function(types, "copy"), [(source, at)], [(target, access)])


def dims_of(shape: Sequence[int]) -> list[Dim]:
    """A dim for each axis of an array."""
    return [Dim(f"a{axis}", extent, CC) for axis, extent in enumerate(shape)]


def everywhere(shape: Sequence[int]) -> Access:
    """The element at the indices of `dims_of`."""
    return Access.at(0, [f"a{axis}" for axis in range(len(shape))])
