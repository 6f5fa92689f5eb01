"""Joined kernels: several kernels of one work-item, run one after the other as one.

A launch takes longer than a small kernel runs, so the steps of a small call are one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.lower.ir.index import ZERO, as_index
from mdtensor.lower.ir.loop_nest import Argument, LoopNest
from mdtensor.lower.ir.statements import Block, Pointer, Statement

_LINE = 64  # bytes, at whose multiples what lies between kernels begins
_BYTE = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class Wired:
    """A kernel, and the numbers of the arrays that are its inputs and outputs."""

    kernel: LoopNest
    arrays: tuple[int, ...]

    @property
    def buffers(self) -> list[tuple[int, Argument]]:
        """The kernel's arguments that arrays are, by these numbers."""
        arguments = [a for a in self.kernel.arguments if a.role in ("input", "output")]
        return list(zip(self.arrays, arguments, strict=True))


def joined(
    parts: Sequence[Wired],
    inputs: Sequence[int],
    outputs: Sequence[int],
    between: Mapping[int, int],
) -> LoopNest:
    """One kernel that runs all parts in their order, on arrays by their numbers.

    Its arguments are those that are inputs and outputs, and scratch memory, where those `between`
    lie, which have so many bytes. Raises LoweringError for kernels of several groups or work-items,
    and for those that take more than arrays and scratch memory.
    """
    for part in parts:
        if not _is_alone(part.kernel):
            raise LoweringError("a kernel of several groups is not joined with others")
    used = {number: argument for part in parts for number, argument in part.buffers}
    written = {n for part in parts for n, argument in part.buffers if argument.role == "output"}
    names = {number: f"given{number}" for number in (*inputs, *outputs)}
    if not names.keys() <= used.keys():
        raise LoweringError("an array that no kernel uses has no type")
    arguments = [
        Argument(name, used[number].memory, "output" if number in written else "input")
        for number, name in names.items()
    ]
    places, end = _places(between)
    scratch = max(part.kernel.scratch.constant or 0 for part in parts)
    return LoopNest(
        "kernel_0",
        (*arguments, Argument("scratch", _BYTE, "scratch")),
        sizes=(),
        threads=1,
        body=tuple(Block(_with_arrays(part, names, places, end)) for part in parts),
        groups=as_index(1),
        scratch=as_index(end + scratch),
        head="\n".join(part.kernel.head for part in parts),
    )


def _is_alone(kernel: LoopNest) -> bool:
    is_one = kernel.threads == 1 and kernel.groups.constant == 1
    is_plain = not kernel.sizes and not kernel.maps and kernel.counters == ZERO
    return is_one and is_plain and kernel.scratch.constant is not None


def _places(between: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """Where arrays lie in scratch memory, and where they end."""
    places: dict[int, int] = {}
    end = 0
    for number, nbytes in between.items():
        places[number] = end
        end += -(-nbytes // _LINE) * _LINE
    return places, end


def _with_arrays(
    part: Wired, names: Mapping[int, str], places: Mapping[int, int], end: int
) -> tuple[Statement, ...]:
    """A kernel's body, where its buffers are the arrays, and its scratch memory comes behind."""
    pointers: list[Statement] = []
    for number, argument in part.buffers:
        const = argument.role == "input"
        buffer, offset = names.get(number, "scratch"), as_index(places.get(number, 0))
        pointers.append(
            Pointer(argument.name, buffer, argument.memory, "global", offset, const=const)
        )
    behind = Pointer("behind", "scratch", _BYTE, "global", as_index(end), const=False)
    own = Pointer("scratch", "behind", _BYTE, "global", ZERO, const=False)
    return (*pointers, behind, Block((own, *part.kernel.body)))
