"""Data-dependent loop ranges, loaded once per register tile, before its loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, Tile
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.ir.index import Index, name
from mdtensor.lower.ir.register_types import I64
from mdtensor.lower.ir.statements import Let, Statement
from mdtensor.lower.ir.values import Calc, FromIndex, Ref
from mdtensor.lower.problem.data_bounds import function_of

_ONE = LaneVector(0, 1, 1)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Data-dependent loop bounds by dim, and the statements that declare them."""

    statements: tuple[Statement, ...] = ()
    of: Mapping[int, tuple[Index, Index]] = field(default_factory=dict[int, tuple[Index, Index]])


def ranges_of(frame: Frame, tile: Tile) -> Ranges:
    """The data-dependent range shared by all points of a tile, clipped to the cache tile."""
    bounds = frame.problem.bounds
    if bounds is None:
        return Ranges()
    tiling = frame.tilings[bounds.dim]
    function, reads = function_of(frame.problem, bounds)
    body = Body(frame, tile, {}, "b", lanes=None, prefix="bound")
    begin, end = body.values(function, reads, tile.points[0], (), _ONE)
    first, last = Ref(tiling.var("first"), I64), Ref(tiling.var("last"), I64)
    low, high = (FromIndex(name(tiling.var(side)), I64) for side in ("t", "e"))
    declared = (
        *body.statements,
        Let(first, Calc("max", (begin, low), I64)),
        Let(last, Calc("min", (end, high), I64)),
    )
    return Ranges(declared, {bounds.dim: (name(first.name), name(last.name))})
