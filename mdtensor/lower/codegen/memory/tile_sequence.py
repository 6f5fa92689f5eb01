"""The tiles of all reduced dims as one flat sequence, and cursors into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import If, Increment, IndexCalc, LetIndex, Statement

TURN = "turn"
_TURNS = "turns"


def tiled_of(frame: Frame) -> list[int]:
    """The reduced dims that are tiled, outermost first."""
    reduced = [d for d in frame.schedule.group_order if frame.problem.reduced[d]]
    return [d for d in reduced if frame.tilings[d].tile]


def turns_of(frame: Frame, tiled: Sequence[int]) -> tuple[list[Statement], Index]:
    """The total number of tiles, and declarations for it where it is not constant."""
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


def starts_of(frame: Frame, tiled: Sequence[int], prefix: str) -> Mapping[int, Index]:
    """The start indices of the tile at a cursor."""
    return {
        d: name(frame.tilings[d].var(prefix if d in tiled else "t")) for d in frame.problem.dims
    }


def advanced(frame: Frame, tiled: Sequence[int], prefix: str) -> list[Statement]:
    """Advance a cursor by one tile, the innermost dim first."""
    if not tiled:
        return []
    tiling = frame.tilings[tiled[-1]]
    cursor, low, high = tiling.var(prefix), name(tiling.var("lo")), name(tiling.var("hi"))
    statements: list[Statement] = [Increment(cursor, tiling.tile)]
    if len(tiled) > 1:
        carried = (Increment(cursor, low - name(cursor)), *advanced(frame, tiled[:-1], prefix))
        statements.append(If(high, "<=", name(cursor), carried))
    return statements


def wrapped(stage: str, stages: int) -> Statement:
    """Wrap a stage number around: after the last stage comes the first."""
    return If(as_index(stages), "<=", name(stage), (Increment(stage, -stages),))
