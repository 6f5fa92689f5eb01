"""Overlapping last tiles: the last staged tile of a reduced dim is moved back to end with it.

Its first elements were in the tile before, and are not combined again. So every turn copies a whole
tile, from one place plus constants, where else each element's index would be compared with the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdtensor.lower.codegen.base.source_layout import may_end_inside
from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.ir.index import Index, name
from mdtensor.lower.ir.statements import IndexCalc, LetIndex
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling

FIRST_COPIED = "f"  # names the first index of the tile that was copied, which may be early


def early_dims(
    problem: Problem,
    schedule: Schedule,
    tilings: Sequence[DimTiling],
    number: int,
    nearest: int,
    memory: np.dtype,
) -> frozenset[int]:
    """The dims along which a stream's last staged tile overlaps its predecessor.

    Elements of the tile lie side by side along the dim `nearest`, and may be read several at once:
    along it tiles begin early by whole vectors or not at all.
    """
    if not schedule.resident or schedule.tensor or problem.scanned >= 0:
        return frozenset()
    lanes = lanes_of(memory)

    def begins_early(d: int) -> bool:
        tiling, extent = tilings[d], tilings[d].extent.constant
        if not tiling.tile or extent is None:
            return False
        apart = d != nearest or (extent - tiling.tile) % lanes == 0
        return apart and may_end_inside(problem, tilings, d)

    stream = problem.streams[number]
    return frozenset(d for d in problem.contracted if stream.uses(d) and begins_early(d))


def early_start(tiling: DimTiling, start: Index) -> IndexCalc:
    """The first index that a tile's copy reads: `start`, or less for the last tile of a dim."""
    return IndexCalc("min", start, tiling.extent - tiling.tile)


def first_copied(tiling: DimTiling, *, whole: bool) -> LetIndex:
    """Declare the first index that the current tile's copy read; `start` for a `whole` tile."""
    start = name(tiling.var("t"))
    return LetIndex(tiling.var(FIRST_COPIED), start if whole else early_start(tiling, start))
