"""Kernel fusion: several single-work-item kernels run one after the other as one.

A launch takes longer than a small kernel runs, so the steps of a small call are one kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.ir.index import ZERO, Index, as_index
from mdtensor.lower.ir.loop_nest import Argument, LoopNest
from mdtensor.lower.ir.statements import Block, Pointer, Statement

_LINE = 64  # bytes, at whose multiples what lies between kernels begins
_BYTE = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class Wired:
    """A kernel, and the numbers of the arrays bound to its inputs and outputs."""

    kernel: LoopNest
    arrays: tuple[int, ...]

    @property
    def buffers(self) -> list[tuple[int, Argument]]:
        """The kernel's buffer arguments, each with the number of its array."""
        arguments = [a for a in self.kernel.arguments if a.role in ("input", "output")]
        return list(zip(self.arrays, arguments, strict=True))


def joined(
    parts: Sequence[Wired],
    inputs: Sequence[int],
    outputs: Sequence[int],
    between: Mapping[int, int],
) -> LoopNest:
    """One kernel that runs all parts in order, on numbered arrays.

    Its arguments are the `inputs`, the `outputs`, and scratch memory, which holds the arrays
    `between`, of given bytes. Raises LoweringError for kernels of several groups or work-items, and
    for those that take more than arrays and scratch memory.
    """
    for part in parts:
        if not is_alone(part.kernel):
            raise LoweringError("a kernel of several groups is not joined with others")
    arguments = arguments_of(parts, (*inputs, *outputs))
    places, end = placed(between, [part.arrays for part in parts])
    scratch = max(part.kernel.scratch.constant or 0 for part in parts)
    lies = {n: ("scratch", as_index(place)) for n, place in places.items()}
    lies |= {n: (name_of(n), ZERO) for n in (*inputs, *outputs)}
    behind = as_index(end)
    return LoopNest(
        "kernel_0",
        arguments,
        sizes=(),
        threads=1,
        body=tuple(Block(_with_arrays(part, lies, behind)) for part in parts),
        groups=as_index(1),
        scratch=as_index(end + scratch),
        head="\n".join(part.kernel.head for part in parts),
    )


def is_alone(kernel: LoopNest) -> bool:
    """Whether a kernel is one work-item's, and takes only arrays and scratch memory."""
    return kernel.threads == 1 and is_of_one_group(kernel)


def is_of_one_group(kernel: LoopNest) -> bool:
    """Whether a kernel is one group's, and takes only arrays and scratch memory."""
    is_plain = not kernel.sizes and not kernel.maps and kernel.counters == ZERO
    return is_plain and kernel.groups.constant == 1 and kernel.scratch.constant is not None


def name_of(number: int) -> str:
    """The argument name of a numbered array."""
    return f"given{number}"


def arguments_of(parts: Sequence[Wired], numbers: Sequence[int]) -> tuple[Argument, ...]:
    """The arguments of a fused kernel: numbered arrays, then scratch memory."""
    used = {number: argument for part in parts for number, argument in part.buffers}
    written = {n for part in parts for n, argument in part.buffers if argument.role == "output"}
    if not {*numbers} <= used.keys():
        raise LoweringError("an array that no kernel uses has no type")
    arguments = [
        Argument(name_of(n), used[n].memory, "output" if n in written else "input") for n in numbers
    ]
    return (*arguments, Argument("scratch", _BYTE, "scratch"))


def placed(
    between: Mapping[int, int],
    used: Sequence[Collection[int]],
    overwritten: Sequence[Sequence[tuple[int, int]]] = (),
) -> tuple[dict[int, int], int]:
    """Byte offsets in scratch memory of arrays of given sizes, reusing dead arrays; and the end.

    Kernels have `used` them in this order: an array lies where others do that are read no more.
    For each kernel, pairs of a result and of an input that it may overwrite: where no later kernel
    reads the input, the result lies in its place.

    >>> placed({5: 100, 6: 20, 7: 100}, [{5}, {5, 6}, {6, 7}])
    ({5: 0, 6: 128, 7: 0}, 192)
    >>> placed({5: 100, 6: 100}, [{5}, {5, 6}, {6}], [(), [(6, 5)], ()])
    ({5: 0, 6: 0}, 128)
    """
    lives: dict[int, list[int]] = {}
    for time, numbers in enumerate(used):
        for number in between.keys() & numbers:
            lives.setdefault(number, [time, time])[1] = time
    places: dict[int, int] = {}
    taken: set[int] = set()
    for number in sorted(lives, key=lambda n: (lives[n][0], n)):
        born = lives[number][0]
        pairs = overwritten[born] if overwritten else ()
        ending = [n for n in places if lives[n][1] == born and between[n] == between[number]]
        given = next((n for r, n in pairs if r == number and n in ending and n not in taken), None)
        if given is not None:
            taken.add(given)
            places[number] = places[given]
            continue
        begin, size = 0, _lines(between[number])
        meeting = [n for n in places if lives[n][1] >= born]
        for other in sorted(meeting, key=places.__getitem__):
            if begin + size > places[other]:
                begin = max(begin, places[other] + _lines(between[other]))
        places[number] = begin
    return places, max((places[n] + _lines(between[n]) for n in places), default=0)


def _lines(nbytes: int) -> int:
    """A size in bytes rounded up to whole lines."""
    return -(-nbytes // _LINE) * _LINE


# Where an array begins: an argument, and how many of its elements further; bytes in scratch memory
# and in the array in local memory that has what lies `BETWEEN`.
Place = tuple[str, Index]
BETWEEN = "between"


def _with_arrays(part: Wired, places: Mapping[int, Place], behind: Index) -> tuple[Statement, ...]:
    """A kernel's body with its buffers bound to arrays, and its scratch memory at `behind`."""
    return with_buffers(part.kernel, [places[number] for number in part.arrays], behind)


def with_buffers(
    kernel: LoopNest, places: Sequence[Place], behind: Index, first: Sequence[Statement] = ()
) -> tuple[Statement, ...]:
    """A kernel's body with its buffers bound to places, and its scratch memory at `behind`.

    Places in scratch and local memory, and `behind`, count bytes. What comes `first` is declared
    for the body alone.
    """
    pointers: list[Statement] = []
    arguments = [a for a in kernel.arguments if a.role in ("input", "output")]
    for argument, (buffer, offset) in zip(arguments, places, strict=True):
        const = argument.role == "input"
        region = "local" if buffer == BETWEEN else "global"
        pointers.append(
            Pointer(argument.name, buffer, argument.memory, region, offset, const=const)
        )
    beginning = Pointer("behind", "scratch", _BYTE, "global", behind, const=False)
    own = Pointer("scratch", "behind", _BYTE, "global", ZERO, const=False)
    return (*pointers, beginning, Block((own, *first, *kernel.body)))
