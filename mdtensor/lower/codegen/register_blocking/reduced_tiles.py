"""The loops over tiles of the reduced dims: all work-items copy, each combines its points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.partition import tile_loops
from mdtensor.lower.codegen.memory.cooperative_copy import CooperativeCopy
from mdtensor.lower.codegen.register_blocking.combine_tile import CombineTile
from mdtensor.lower.ir.group_statements import Barrier
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import If, IndexCalc, LetIndex, Loop, Statement


def reduced_tiles(
    frame: Frame, copies: Sequence[CooperativeCopy], combine: CombineTile
) -> list[Statement]:
    """The loops over tiles of the reduced dims, with the innermost dim's partial tile last."""
    tiled = [d for d in frame.schedule.group_order if d in frame.problem.contracted]
    tiled = [d for d in tiled if frame.tilings[d].tile]
    starts = {d: name(frame.tilings[d].var("t")) for d in frame.problem.dims}
    if not tiled:
        return [*copied(frame, copies, starts), *combine.statements(-1)]
    innermost = _innermost(frame, copies, combine, tiled[-1], starts)
    return tile_loops(frame.tilings, tiled[:-1], innermost)


def _innermost(
    frame: Frame,
    copies: Sequence[CooperativeCopy],
    combine: CombineTile,
    d: int,
    starts: Mapping[int, Index],
) -> list[Statement]:
    tiling = frame.tilings[d]
    start, low, high = tiling.var("t"), name(tiling.var("lo")), name(tiling.var("hi"))
    tile = as_index(tiling.tile)
    even = tiling.is_even(tiling.tile)
    ahead = frame.schedule.prefetch and bool(copies)
    statements: list[Statement] = [LetIndex(start, low, mutable=True)]
    if ahead:
        statements += _fetched(copies, starts)
    body: list[Statement] = [LetIndex(tiling.var("e"), name(start) + tiling.tile)]
    body += _put(frame, copies) if ahead else copied(frame, copies, starts)
    if ahead:
        following = name(start) + tiling.tile
        if even:
            body.append(LetIndex("following", IndexCalc("min", following, high - tiling.tile)))
            following = name("following")
        body += _fetched(copies, {**starts, d: following})
    body += combine.statements(d)
    statements.append(Loop(start, None, high, tile, tuple(body)))
    if even:
        return statements
    rest: list[Statement] = [LetIndex(tiling.var("e"), high)]
    rest += _put(frame, copies) if ahead else copied(frame, copies, starts)
    rest += combine.statements(-1)
    return [*statements, If(name(start), "<", high, tuple(rest))]


def copied(
    frame: Frame, copies: Sequence[CooperativeCopy], starts: Mapping[int, Index]
) -> list[Statement]:
    """Copy the tiles of all staged streams at the given start indices."""
    return [*_fetched(copies, starts), *_put(frame, copies)] if copies else []


def _fetched(copies: Sequence[CooperativeCopy], starts: Mapping[int, Index]) -> list[Statement]:
    return [statement for copy in copies for statement in copy.fetch(starts)]


def _put(frame: Frame, copies: Sequence[CooperativeCopy]) -> list[Statement]:
    stored = [statement for copy in copies for statement in copy.put()]
    return stored if frame.items == 1 else [Barrier(), *stored, Barrier()]
