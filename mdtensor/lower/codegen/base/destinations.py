"""Destinations of stores: outputs, or arrays of partial results for other groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.partial_results import Partials
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.statements import Pointer


@dataclass(frozen=True, slots=True)
class Destination:
    """The store address of a result tuple's element: a pointer, strides per dim, an offset."""

    pointer: str
    memory: np.dtype
    strides: tuple[Index, ...]
    offset: Index
    streaming: bool

    def at_tile(self, frame: Frame, dims: Iterable[int]) -> Index:
        """The offset of a register tile's first point, summed over the given dims."""
        tilings = frame.tilings
        return self.offset + total(self.strides[d] * name(tilings[d].var("r")) for d in dims)


Destinations = tuple[Destination, ...]


def outputs_of(frame: Frame) -> Destinations:
    """The outputs of a problem."""
    return tuple(
        Destination(
            f"O{write.buffer}",
            frame.problem.outputs[write.buffer],
            write.strides,
            as_index(write.offset),
            frame.schedule.streaming,
        )
        for write in frame.problem.writes
    )


def totals_of(
    frame: Frame, partials: Partials, number: Index
) -> tuple[list[Pointer], Destinations]:
    """Pointers to the arrays of partial results, and one group's destinations in them."""
    pointers = partials.pointers(frame.problem.scalar.result_dtypes)
    offset = number * partials.size
    found = (Destination(p.name, p.memory, partials.strides, offset, False) for p in pointers)
    return pointers, tuple(found)


def at_first_point(
    frame: Frame, destinations: Sequence[Destination], prefix: str, dims: Sequence[int]
) -> tuple[list[Pointer], Destinations]:
    """Pointers to a register tile's first point along some dims, with destinations from there."""
    pointers = [
        Pointer(f"{prefix}{k}", d.pointer, d.memory, "global", d.at_tile(frame, dims), const=False)
        for k, d in enumerate(destinations)
    ]
    pairs = zip(destinations, pointers, strict=True)
    return pointers, tuple(replace(d, pointer=pointer.name) for d, pointer in pairs)
