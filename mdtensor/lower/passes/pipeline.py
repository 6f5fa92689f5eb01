"""Tiles of the reduced dims in stages: some are on their way while one is computed with.

Local memory holds several tiles of every staged input. A turn waits for the oldest, begins the
copy of the newest to the place of the one that was computed with last, and computes. What cannot
be copied as it is goes through registers: it is loaded before a turn's computation and stored
after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mdtensor.lower.index import Index, as_index, name
from mdtensor.lower.nest import (
    AwaitCopies,
    Barrier,
    CommitCopies,
    If,
    IndexCalc,
    LetIndex,
    Loop,
    Statement,
    Step,
)
from mdtensor.lower.passes.combine_tile import CombineTile
from mdtensor.lower.passes.copy_together import CopyTogether
from mdtensor.lower.passes.micro_kernel import READ_STAGE, Frame
from mdtensor.lower.passes.reduced_tiles import clamped_dims

WRITE_STAGE = "write_stage"
_TURN, _TURNS = "turn", "turns"


def pipelined_tiles(
    frame: Frame, copies: Sequence[CopyTogether], combine: CombineTile
) -> list[Statement]:
    """All tiles of the reduced dims, one after the other."""
    stages = frame.schedule.stages
    tiled = [d for d in frame.schedule.group_order if frame.problem.reduced[d]]
    tiled = [d for d in tiled if frame.tilings[d].tile]
    through = [c for c in copies if frame.schedule.prefetch and not c.is_asynchronous]
    direct = [c for c in copies if c not in through]
    awaited = any(copy.is_asynchronous for copy in direct)
    turns, count = _turns(frame, tiled)
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
        statements.append(If(as_index(1), "<", count, tuple(_advanced(frame, tiled, "m"))))
    statements += [
        LetIndex(READ_STAGE, as_index(0), mutable=True),
        LetIndex(WRITE_STAGE, as_index(stages - 1), mutable=True),
    ]
    body: list[Statement] = [AwaitCopies(stages - 2)] if awaited else []
    body += [Barrier()] if frame.items > 1 else []
    begun = _begun(frame, direct, tiled, name(WRITE_STAGE))
    body += [If(name(_TURN) + (stages - 1), "<", count, tuple(begun))] if direct else []
    body += [CommitCopies()] if awaited else []
    body += _fetched(frame, through, tiled)
    body += _combined(frame, combine, tiled)
    if through:
        body.append(LetIndex("next_stage", name(READ_STAGE) + 1, mutable=True))
        body.append(_wrapped("next_stage", stages))
        body += [s for copy in through for s in copy.put(name("next_stage"))]
        body.append(If(name(_TURN) + 2, "<", count, tuple(_advanced(frame, tiled, "m"))))
    body += _advanced(frame, tiled, "t")
    for stage in (READ_STAGE, WRITE_STAGE):
        body += [Step(stage, 1), _wrapped(stage, stages)]
    return [*statements, Loop(_TURN, as_index(0), count, as_index(1), tuple(body))]


def _turns(frame: Frame, tiled: Sequence[int]) -> tuple[list[Statement], Index]:
    """The number of all tiles, and what declares it where it is not known."""
    statements: list[Statement] = []
    count = as_index(1)
    for d in tiled:
        tiling = frame.tilings[d]
        extent, part = tiling.extent.constant, tiling.part.constant
        if extent is not None and not tiling.is_split:
            count = count * -(-extent // tiling.tile)
        elif part is not None and tiling.is_even(tiling.tile):
            count = count * (part // tiling.tile)
        else:
            length = name(tiling.var("hi")) - name(tiling.var("lo")) + (tiling.tile - 1)
            tiles = IndexCalc("/", length, as_index(tiling.tile))
            statements.append(LetIndex(tiling.var(_TURNS), tiles))
            count = count * name(tiling.var(_TURNS))
    return statements, count


def _starts(frame: Frame, tiled: Sequence[int], prefix: str) -> Mapping[int, Index]:
    """Where the tile begins that a cursor points to."""
    return {
        d: name(frame.tilings[d].var(prefix if d in tiled else "t")) for d in frame.problem.dims
    }


def _begun(
    frame: Frame, copies: Sequence[CopyTogether], tiled: Sequence[int], stage: Index
) -> list[Statement]:
    """Begins to copy the next tile, and goes on to the one behind it."""
    starts, clamped = _starts(frame, tiled, "n"), clamped_dims(frame)
    statements = [s for copy in copies for s in copy.begin(starts, clamped, stage)]
    return [*statements, *_advanced(frame, tiled, "n")] if copies else []


def _fetched(frame: Frame, copies: Sequence[CopyTogether], tiled: Sequence[int]) -> list[Statement]:
    """Loads the next tile to registers."""
    starts, clamped = _starts(frame, tiled, "m"), clamped_dims(frame)
    return [s for copy in copies for s in copy.fetch(starts, clamped)]


def _advanced(frame: Frame, tiled: Sequence[int], prefix: str) -> list[Statement]:
    """Moves a cursor on by a tile, the innermost dim first."""
    if not tiled:
        return []
    tiling = frame.tilings[tiled[-1]]
    cursor, low, high = tiling.var(prefix), name(tiling.var("lo")), name(tiling.var("hi"))
    statements: list[Statement] = [Step(cursor, tiling.tile)]
    if len(tiled) > 1:
        carried = (Step(cursor, low - name(cursor)), *_advanced(frame, tiled[:-1], prefix))
        statements.append(If(high, "<=", name(cursor), carried))
    return statements


def _wrapped(stage: str, stages: int) -> Statement:
    return If(as_index(stages), "<=", name(stage), (Step(stage, -stages),))


def _combined(frame: Frame, combine: CombineTile, tiled: Sequence[int]) -> list[Statement]:
    """Combines the tile at the cursor `t`, which may be cut off by the end of a dim."""
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
