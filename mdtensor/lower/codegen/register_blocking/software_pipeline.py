"""Software pipelining: later tiles are copied while the current one is computed.

Local memory holds several tiles of every staged input. A turn waits for the oldest, begins the
copy of the newest to the place of the one that was computed with last, and computes. What cannot
be copied as it is goes through registers: it is loaded before a turn's computation and stored
after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.stream_pointers import READ_STAGE
from mdtensor.lower.codegen.memory.cooperative_copy import CooperativeCopy
from mdtensor.lower.codegen.memory.tile_sequence import (
    TURN,
    advanced,
    starts_of,
    tiled_of,
    turns_of,
    wrapped,
)
from mdtensor.lower.codegen.register_blocking.combine_tile import CombineTile
from mdtensor.lower.ir.group_statements import AwaitCopies, Barrier, CommitCopies
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import If, Increment, IndexCalc, LetIndex, Loop, Statement

WRITE_STAGE = "write_stage"


def pipelined_tiles(
    frame: Frame, copies: Sequence[CooperativeCopy], combine: CombineTile
) -> list[Statement]:
    """The pipelined loop over all tiles of the reduced dims."""
    stages = frame.schedule.stages
    tiled = tiled_of(frame)
    through = [c for c in copies if frame.schedule.prefetch and not c.tile.is_asynchronous]
    direct = [c for c in copies if c not in through]
    awaited = any(copy.tile.is_asynchronous for copy in direct)
    turns, count = turns_of(frame, tiled)
    statements: list[Statement] = [*turns]
    if any(frame.tilings[d].tile for d in frame.problem.kept) and frame.items > 1:
        statements.append(Barrier())  # the last tile of the block before may still be read
    for prefix in ("t", "n", "m")[: 3 if through else 2]:
        for d in tiled:
            low = name(frame.tilings[d].var("lo"))
            statements.append(LetIndex(frame.tilings[d].var(prefix), low, mutable=True))
    for stage in range(stages - 1):
        begun = _begun(frame, direct, tiled, as_index(stage))
        statements.append(If(as_index(stage), "<", count, tuple(begun)))
        statements += [CommitCopies()] if awaited else []
    if through:
        statements += _fetched(frame, through, tiled)
        statements += [s for copy in through for s in copy.put(as_index(0))]
        statements.append(If(as_index(1), "<", count, tuple(advanced(frame, tiled, "m"))))
    statements += [
        LetIndex(READ_STAGE, as_index(0), mutable=True),
        LetIndex(WRITE_STAGE, as_index(stages - 1), mutable=True),
    ]
    body: list[Statement] = [AwaitCopies(stages - 2)] if awaited else []
    body += [Barrier()] if frame.items > 1 else []
    begun = _begun(frame, direct, tiled, name(WRITE_STAGE))
    body += [If(name(TURN) + (stages - 1), "<", count, tuple(begun))] if direct else []
    body += [CommitCopies()] if awaited else []
    body += _fetched(frame, through, tiled)
    body += _combined(frame, combine, tiled)
    if through:
        body.append(LetIndex("next_stage", name(READ_STAGE) + 1, mutable=True))
        body.append(wrapped("next_stage", stages))
        body += [s for copy in through for s in copy.put(name("next_stage"))]
        body.append(If(name(TURN) + 2, "<", count, tuple(advanced(frame, tiled, "m"))))
    body += advanced(frame, tiled, "t")
    for stage in (READ_STAGE, WRITE_STAGE):
        body += [Increment(stage, 1), wrapped(stage, stages)]
    return [*statements, Loop(TURN, as_index(0), count, as_index(1), tuple(body))]


def _begun(
    frame: Frame, copies: Sequence[CooperativeCopy], tiled: Sequence[int], stage: Index
) -> list[Statement]:
    """Start the copy of the next tile, and advance the cursor."""
    starts = starts_of(frame, tiled, "n")
    statements = [s for copy in copies for s in copy.begin(starts, stage)]
    return [*statements, *advanced(frame, tiled, "n")] if copies else []


def _fetched(
    frame: Frame, copies: Sequence[CooperativeCopy], tiled: Sequence[int]
) -> list[Statement]:
    """Load the next tile to registers."""
    starts = starts_of(frame, tiled, "m")
    return [s for copy in copies for s in copy.fetch(starts)]


def _combined(frame: Frame, combine: CombineTile, tiled: Sequence[int]) -> list[Statement]:
    """Combine the tile at the cursor `t`, which may be partial at a dim's end."""
    whole = all(frame.tilings[d].is_even(frame.tilings[d].tile) for d in tiled)
    ends: list[Statement] = []
    for d in tiled:
        end, high = (
            name(frame.tilings[d].var("t")) + frame.tilings[d].tile,
            frame.tilings[d].var("hi"),
        )
        ends.append(
            LetIndex(frame.tilings[d].var("e"), end if whole else IndexCalc("min", end, name(high)))
        )
    return [*ends, *combine.statements(tiled[-1] if tiled and whole else -1)]
