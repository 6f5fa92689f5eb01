"""Row-wise kernel fusion: the kernels of a chain run for one block of rows after the other.

What lies between them is there for one block: in the scratch memory of the work-item that computes
it, or in the local memory of the group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.fuse_kernels import (
    BETWEEN,
    Place,
    Wired,
    arguments_of,
    is_of_one_group,
    name_of,
    placed,
    with_buffers,
)
from mdtensor.lower.ir.group_statements import MemoryBarrier
from mdtensor.lower.ir.index import ZERO, Index, as_index, name, total
from mdtensor.lower.ir.loop_nest import Argument, LoopNest
from mdtensor.lower.ir.statements import (
    Allocate,
    Block,
    If,
    IndexCalc,
    LetIndex,
    Loop,
    Pointer,
    Statement,
)

_BYTE = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class OnRows(Wired):
    """A kernel on a block of rows.

    `strides` has, for each array and each dim of rows, the elements between where a block begins
    and where one does that is a row further along; `itemsizes` their bytes. `overwritten` are pairs
    of a result and of an input that may lie in one place.
    """

    strides: tuple[tuple[int, ...], ...]
    itemsizes: tuple[int, ...]
    overwritten: tuple[tuple[int, int], ...] = ()

    def most_further(self, extents: Sequence[int]) -> int:
        """The largest offset, in elements, of the last block from the first in any array."""
        return max(
            sum(abs(stride) * extent for stride, extent in zip(strides, extents, strict=True))
            for strides in self.strides
        )


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """A partition of rows along several dims into blocks of given lengths, the last dim fastest."""

    extents: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Blocks along each dim."""
        pairs = zip(self.extents, self.lengths, strict=True)
        return tuple(-(-extent // length) for extent, length in pairs)

    @property
    def ragged(self) -> tuple[int, ...]:
        """The dims whose last block has fewer rows."""
        pairs = enumerate(zip(self.extents, self.lengths, strict=True))
        return tuple(d for d, (extent, length) in pairs if extent % length)

    @property
    def last(self) -> tuple[int, ...]:
        """Rows along each dim of a last block."""
        pairs = zip(self.extents, self.lengths, strict=True)
        return tuple(extent % length or length for extent, length in pairs)

    def first_rows(self, number: str) -> list[Statement]:
        """Declare `at0`, `at1`, …, the first row of a numbered block along each dim."""
        statements: list[Statement] = []
        rest = name(number)
        for d in reversed(range(len(self.extents))):
            if d == 0:
                statements.append(LetIndex(_at(d), rest * self.lengths[d]))
                continue
            count = as_index(self.counts[d])
            statements.append(LetIndex(f"turn{d}", IndexCalc("%", rest, count)))
            statements.append(LetIndex(_at(d), name(f"turn{d}") * self.lengths[d]))
            statements.append(LetIndex(f"left{d}", IndexCalc("/", rest, count)))
            rest = name(f"left{d}")
        return statements


def _at(d: int) -> str:
    return f"at{d}"


def joined_by_rows(
    parts: Sequence[OnRows],
    rest: Sequence[OnRows],
    blocks: RowBlocks,
    groups: int,
    arrays: Sequence[int],
    between: Mapping[int, int],
) -> LoopNest:
    """One kernel that runs `parts` on each whole block of rows, and `rest` on ragged last blocks.

    Its arguments are `arrays` by their numbers, and scratch memory, where each group has those
    `between`, of so many bytes; groups of several work-items have them in local memory, and wait
    for each other behind each part. What one work-item computes, the first one does. Raises
    LoweringError for kernels of several groups or different numbers of work-items, and where blocks
    along several dims are ragged.
    """
    if len(blocks.ragged) > 1 or bool(blocks.ragged) != bool(rest):
        raise LoweringError(f"blocks {blocks.lengths} of {blocks.extents} rows leave several rests")
    kernels = [part.kernel for part in (*parts, *rest)]
    items = {1, *(kernel.threads for kernel in kernels)}
    if len(items) > 2 or not all(map(is_of_one_group, kernels)):
        raise LoweringError("a kernel of several groups, or of other groups, is not joined")
    together = len(items) > 1
    both = [
        (part.overwritten, other.overwritten)
        for part, other in zip(parts, rest or parts, strict=True)
    ]
    overwritten = [[pair for pair in pairs if pair in others] for pairs, others in both]
    offsets, end = placed(between, [part.arrays for part in parts], overwritten)
    most = max(kernel.scratch.constant or 0 for kernel in kernels)
    _, scratch = placed({0: most}, [{0}])
    local = [Allocate(BETWEEN, _BYTE, "local", end)] if together and end else []
    beside = 0 if together else end
    own = name("group") * (beside + scratch)
    places = {
        n: (BETWEEN, as_index(at)) if local else ("scratch", own + at) for n, at in offsets.items()
    }

    shared = _shared_arrays(kernels)

    def run(several: Sequence[OnRows]) -> Iterator[Statement]:
        for part in several:
            body = _on_block(part, places, own + beside)
            is_alone = together and part.kernel.threads == 1
            yield If(name("item"), "<", as_index(1), body) if is_alone else Block(body)
            if together:
                yield MemoryBarrier()

    body = tuple(run(parts))
    for d in blocks.ragged:
        whole = name(_at(d)) + blocks.lengths[d]
        body = (If(whole, "<=", as_index(blocks.extents[d]), body, tuple(run(rest))),)
    count = math.prod(blocks.counts)
    each = -(-count // groups)
    begin = name("group") * each
    bounds = LetIndex("end_block", IndexCalc("min", begin + each, as_index(count)))
    loop = Loop(
        "block",
        begin,
        name("end_block"),
        as_index(1),
        (*blocks.first_rows("block"), *body),
    )
    return LoopNest(
        "kernel_0",
        arguments_of(parts, arrays),
        sizes=(),
        threads=max(items),
        body=(*local, *shared, bounds, loop),
        groups=as_index(-(-count // each)),
        scratch=as_index((beside + scratch) * -(-count // each)),
        head="\n".join(part.kernel.head for part in parts),
    )


def _on_block(part: OnRows, places: Mapping[int, Place], behind: Index) -> tuple[Statement, ...]:
    """A kernel's body, run as the only group on the current block."""
    arguments = [a for a in part.kernel.arguments if a.role in ("input", "output")]
    found = [
        places.get(number) or _place(number, strides, itemsize, argument)
        for number, strides, itemsize, argument in zip(
            part.arrays, part.strides, part.itemsizes, arguments, strict=True
        )
    ]
    first: list[Statement] = [LetIndex("group", ZERO)]
    for array in filter(_is_shared, part.kernel.body):
        assert isinstance(array, Allocate)
        first.append(
            Pointer(array.name, _shared(array), array.memory, array.region, ZERO, const=False)
        )
    rest = tuple([s for s in part.kernel.body if not _is_shared(s)])
    return with_buffers(replace(part.kernel, body=rest), found, behind, first)


def _shared_arrays(kernels: Sequence[LoopNest]) -> list[Statement]:
    """Declarations of local arrays that kernels reuse in turn, hoisted to the top level."""
    largest: dict[str, Allocate] = {}
    for array in (s for kernel in kernels for s in kernel.body if _is_shared(s)):
        assert isinstance(array, Allocate)
        before = largest.get(_shared(array), array)
        extent = max(array.extent, before.extent)
        largest[_shared(array)] = replace(array, name=_shared(array), extent=extent)
    return [*largest.values()]


def _is_shared(statement: Statement) -> bool:
    return isinstance(statement, Allocate) and statement.region != "private"


def _shared(array: Allocate) -> str:
    return f"{array.name}_{array.memory.name}"


def _place(number: int, strides: Sequence[int], itemsize: int, argument: Argument) -> Place:
    parts = itemsize // argument.memory.itemsize  # of a complex number
    return name_of(number), total(name(_at(d)) * (s * parts) for d, s in enumerate(strides))
