"""Loop peeling: vector stores of a row begin at aligned addresses.

A row is what one run of the loop along the lane dim writes: neighbouring results. Where it begins
is known when the kernel runs; how far that is from the next such address is what is peeled off,
in narrower vectors. Stores of the others need no test, touch one cache line each, and may bypass
the caches. Where rows of a register tile begin differently, that is the first row; the others are
joined with what they keep of the vectors before (see `lower.codegen.cpu.join_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame, powers_of_two
from mdtensor.lower.codegen.cpu.join_rows import (
    begun_rows,
    declared,
    ended_rows,
    joined_rows,
    kept_rows,
)
from mdtensor.lower.ir.index import as_index, name
from mdtensor.lower.ir.statements import (
    Block,
    If,
    Increment,
    IndexCalc,
    LetHead,
    LetIndex,
    Loop,
    Statement,
)


def peeled_loops(
    frame: Frame, destination: Destination, inner: Callable[[int], tuple[Statement, ...]]
) -> list[Statement]:
    """The loops along the lane dim; `inner(n)` is the register tile with `n` of its points."""
    lane, width = frame.schedule.lane, frame.schedule.width
    tiling = frame.tilings[lane]
    var, head, whole = tiling.var("r"), tiling.var("head"), tiling.var("whole")
    start, end = name(tiling.var("t")), name(tiling.var("e"))
    place = destination.at_tile(frame, frame.problem.kept)
    nbytes = width * destination.memory.itemsize
    statements: list[Statement] = [
        LetIndex(var, start, mutable=True),
        LetHead(head, destination.pointer, destination.memory, place, nbytes),
        LetIndex(whole, IndexCalc("min", start + name(head), end)),
    ]

    def rest(stop: str, largest: int) -> list[Statement]:
        found: list[Statement] = []
        for _, length in powers_of_two(largest - 1, largest):
            body = (*inner(length), Increment(var, length))
            found.append(If(name(var) + length, "<=", name(stop), body))
        return found

    def loops(tile: Callable[[int], Sequence[Statement]]) -> list[Statement]:
        counts = dict.fromkeys((tiling.register, width))
        return [Loop(var, None, end, as_index(n), tuple(tile(n))) for n in counts]

    first = inner(width)
    rows = kept_rows(first)
    if rows:
        begun = Block((*begun_rows(first), Increment(var, width)))
        whole_vectors = loops(lambda count: joined_rows(inner(count), count // width))
        joined = (*declared(rows), begun, *whole_vectors, *ended_rows(first))
        middle: list[Statement] = [If(name(var) + width, "<=", end, joined)]
    else:
        middle = loops(inner)
    return [*statements, *rest(whole, width), *middle, *rest(tiling.var("e"), width)]
