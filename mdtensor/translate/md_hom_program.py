"""Programs: sequences of `md_hom`s over numbered array slots, made by front ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import BufferAccess, BufferSpec

SlotAccess = tuple[int, BufferAccess]
"""A slot, and an access to it, of whatever buffer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One `md_hom`, with the slots of its inputs and outputs."""

    md_hom: MDHom
    operands: tuple[int, ...]
    results: tuple[int, ...]

    @classmethod
    def of(
        cls,
        specs: Mapping[int, TensorSpec] | Sequence[TensorSpec],
        dims: Sequence[Dim],
        function: ScalarFunction,
        reads: Sequence[SlotAccess],
        writes: Sequence[SlotAccess],
    ) -> Step:
        """A step by a scalar function of accesses to slots, whose `specs` are given."""
        inputs = tuple(dict.fromkeys(slot for slot, _ in reads))
        outputs = tuple(dict.fromkeys(slot for slot, _ in writes))
        md_hom = MDHom(
            tuple(dims),
            function,
            tuple([BufferSpec(f"I{n}", specs[slot]) for n, slot in enumerate(inputs)]),
            tuple([BufferSpec(f"O{n}", specs[slot]) for n, slot in enumerate(outputs)]),
            tuple([BufferAccess(inputs.index(slot), access.index) for slot, access in reads]),
            tuple([BufferAccess(outputs.index(slot), access.index) for slot, access in writes]),
        )
        return cls(md_hom, inputs, outputs)

    @property
    def reads(self) -> list[SlotAccess]:
        """The accesses of the input view, each with its slot."""
        return [(self.operands[access.buffer], access) for access in self.md_hom.inp_view]

    @property
    def writes(self) -> list[SlotAccess]:
        """The accesses of the output view, each with its slot."""
        return [(self.results[access.buffer], access) for access in self.md_hom.out_view]

    @property
    def specs(self) -> dict[int, TensorSpec]:
        """The specs of its slots."""
        buffers = (*self.md_hom.inputs, *self.md_hom.outputs)
        pairs = zip((*self.operands, *self.results), buffers, strict=True)
        return {slot: buffer.spec for slot, buffer in pairs}

    def on(self, slots: Sequence[int] | Mapping[int, int]) -> Step:
        """Renumber the slots: n becomes `slots[n]`."""
        reads, writes = (tuple([slots[n] for n in own]) for own in (self.operands, self.results))
        return Step(self.md_hom, reads, writes)


class Alternatives(Protocol):
    """Alternative programs with the same operands and results, built on demand."""

    def whole(self) -> MDHom | None:
        """One guarded `md_hom` of all operands; None if there is none."""
        ...

    def affine(self) -> Program:
        """A program of few steps with affine indices, for gradients."""
        ...

    def on(self, specs: Sequence[TensorSpec]) -> Alternatives:
        """The alternatives on operands with other strides."""
        ...


@dataclass(frozen=True, slots=True)
class Program:
    """A sequence of `md_hom`s over numbered slots: operands first, then results, then temporaries.

    It is plain data: hashable, compared by value, and pickled.

    `operands` is their number. `fills` are values that results are filled with before the first
    step, or None for results that the steps write whole. `converted` are operands that are copied
    to another type first, as kernels do not round them. `alternatives` are other ways to compute
    the same; programs are equal whatever these are.
    """

    operands: int
    results: tuple[TensorSpec, ...]
    temporaries: tuple[TensorSpec, ...]
    steps: tuple[Step, ...]
    fills: tuple[float | None, ...] = ()
    converted: tuple[tuple[int, np.dtype], ...] = ()
    alternatives: Alternatives | None = field(default=None, compare=False)

    @classmethod
    def of(cls, *md_homs: MDHom) -> Program:
        """The program of `md_hom`s that share all operands and results.

        Where there are several, each writes a part of the results.
        """
        inputs, outputs = md_homs[0].inputs, md_homs[0].outputs
        reads = tuple(range(len(inputs)))
        writes = tuple(range(len(inputs), len(inputs) + len(outputs)))
        steps = tuple([Step(md_hom, reads, writes) for md_hom in md_homs])
        return cls(len(inputs), tuple([buffer.spec for buffer in outputs]), (), steps)

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """Specs of results and temporaries."""
        return (*self.results, *self.temporaries)

    @property
    def result_slots(self) -> range:
        """The slots of the results."""
        return range(self.operands, self.operands + len(self.results))

    @property
    def between(self) -> dict[int, TensorSpec]:
        """The specs of the temporaries, by slot."""
        return dict(enumerate(self.temporaries, self.result_slots.stop))

    @property
    def lifetimes(self) -> dict[int, tuple[int, int]]:
        """The first and the last step that uses each slot."""
        return lifetimes([(*step.operands, *step.results) for step in self.steps])

    @property
    def is_one_kernel(self) -> bool:
        """Whether one kernel with one result is the whole program."""
        is_whole = [step.results for step in self.steps] == [(self.operands,)]
        has_more = len(self.results) > 1 or self.temporaries or self.converted
        return is_whole and not has_more and all(fill is None for fill in self.fills)


@dataclass(frozen=True, slots=True)
class FusedStep:
    """Steps fused into one kernel, as a nested program on slots of the outer one."""

    program: Program
    operands: tuple[int, ...]
    results: tuple[int, ...]

    @classmethod
    def of(cls, program: Program) -> FusedStep:
        """Wrap a whole program as one fused step."""
        return cls(program, tuple(range(program.operands)), tuple(program.result_slots))

    def on(self, slots: Sequence[int] | Mapping[int, int]) -> FusedStep:
        """Renumber the outer slots: n becomes `slots[n]`."""
        reads, writes = (tuple([slots[n] for n in own]) for own in (self.operands, self.results))
        return FusedStep(self.program, reads, writes)


def lifetimes(used: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    """The first and the last user of each slot.

    >>> lifetimes([(0, 1), (1, 2)])
    {0: (0, 0), 1: (0, 1), 2: (1, 1)}
    """
    found: dict[int, tuple[int, int]] = {}
    for number, slots in enumerate(used):
        for slot in slots:
            found[slot] = found.get(slot, (number, number))[0], number
    return found
