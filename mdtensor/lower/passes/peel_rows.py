"""Peeling: whole vectors of a row begin where the address of its results is a multiple of theirs.

A row is what one run of the loop along the lane dim writes: neighbouring results. Where it begins
is known when the kernel runs; how far that is from the next such address is what is peeled off,
in narrower vectors. Stores of the others need no test, touch one cache line each, and may bypass
the caches.
"""

from __future__ import annotations

from collections.abc import Callable

from mdtensor.lower.index import as_index, name, total
from mdtensor.lower.nest import If, IndexCalc, LetHead, LetIndex, Loop, Statement, Step
from mdtensor.lower.passes.micro_kernel import Frame, powers_of_two
from mdtensor.lower.passes.write_outputs import Destination


def peeled_loops(
    frame: Frame, destination: Destination, inner: Callable[[int], tuple[Statement, ...]]
) -> list[Statement]:
    """The loops along the lane dim; `inner(n)` is the register tile with `n` of its points."""
    lane, width = frame.schedule.lane, frame.schedule.width
    tiling = frame.tilings[lane]
    var, head, whole = tiling.var("r"), tiling.var("head"), tiling.var("whole")
    start, end = name(tiling.var("t")), name(tiling.var("e"))
    place = destination.offset + total(
        destination.strides[d] * name(frame.tilings[d].var("r")) for d in frame.problem.kept
    )
    nbytes = width * destination.memory.itemsize
    statements: list[Statement] = [
        LetIndex(var, start, mutable=True),
        LetHead(head, destination.pointer, destination.memory, place, nbytes),
        LetIndex(whole, IndexCalc("min", start + name(head), end)),
    ]

    def rest(stop: str, largest: int) -> list[Statement]:
        found: list[Statement] = []
        for _, length in powers_of_two(largest - 1, largest):
            body = (*inner(length), Step(var, length))
            found.append(If(name(var) + length, "<=", name(stop), body))
        return found

    statements += rest(whole, width)
    if tiling.register > width:
        block = as_index(tiling.register)
        statements.append(Loop(var, None, end, block, inner(tiling.register)))
    statements.append(Loop(var, None, end, as_index(width), inner(width)))
    return [*statements, *rest(tiling.var("e"), width)]
