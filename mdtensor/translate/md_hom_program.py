"""Programs: what a front end makes of a call, `md_hom`s in order over numbered arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom


@dataclass(frozen=True, slots=True)
class Step:
    """One `md_hom`: the slots of its inputs, and those of its outputs."""

    md_hom: MDHom
    operands: tuple[int, ...]
    results: tuple[int, ...]

    def on(self, slots: Sequence[int] | Mapping[int, int]) -> Step:
        """The same `md_hom` on other slots: `slots[n]` in the place of slot n."""
        reads, writes = (tuple([slots[n] for n in own]) for own in (self.operands, self.results))
        return Step(self.md_hom, reads, writes)


class Alternatives(Protocol):
    """Other programs on the same operands with the same results, as plain data to build them of."""

    def whole(self) -> MDHom | None:
        """One `md_hom` of all operands, for devices that read zeros outside of arrays."""
        ...

    def affine(self) -> Program:
        """A program of few steps, each of affine indices, of which gradients are made."""
        ...

    def on(self, specs: Sequence[TensorSpec]) -> Alternatives:
        """The alternatives on operands of the same shapes and types with other strides."""
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
        """The program of `md_hom`s whose inputs are all operands, and whose outputs all results.

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
        """The slots of the temporaries, and their specs."""
        return dict(enumerate(self.temporaries, self.result_slots.stop))

    @property
    def lifetimes(self) -> dict[int, tuple[int, int]]:
        """The numbers of the first and the last step that uses a slot, by slot."""
        return lifetimes([(*step.operands, *step.results) for step in self.steps])

    @property
    def is_one_kernel(self) -> bool:
        """Whether one kernel on some of the operands and the one result is all there is to run."""
        is_whole = [step.results for step in self.steps] == [(self.operands,)]
        has_more = len(self.results) > 1 or self.temporaries or self.converted
        return is_whole and not has_more and all(fill is None for fill in self.fills)


@dataclass(frozen=True, slots=True)
class FusedStep:
    """Steps that one kernel computes, as a program of their own on slots of another one."""

    program: Program
    operands: tuple[int, ...]
    results: tuple[int, ...]

    @classmethod
    def of(cls, program: Program) -> FusedStep:
        """A whole program as one step of itself."""
        return cls(program, tuple(range(program.operands)), tuple(program.result_slots))

    def on(self, slots: Sequence[int] | Mapping[int, int]) -> FusedStep:
        """The same on other slots: `slots[n]` in the place of slot n."""
        reads, writes = (tuple([slots[n] for n in own]) for own in (self.operands, self.results))
        return FusedStep(self.program, reads, writes)


def lifetimes(used: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    """The first and the last of several users of a slot, by slot.

    >>> lifetimes([(0, 1), (1, 2)])
    {0: (0, 0), 1: (0, 1), 2: (1, 1)}
    """
    found: dict[int, tuple[int, int]] = {}
    for number, slots in enumerate(used):
        for slot in slots:
            found[slot] = found.get(slot, (number, number))[0], number
    return found
