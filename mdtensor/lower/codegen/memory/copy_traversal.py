"""The order in which work-items copy a tile: coalesced loads, few bank conflicts.

Neighbouring work-items copy neighbours along the first walk. The order is free where it costs no
sector of memory more, and is chosen so that stores go to different banks of local memory, or that
no work-item has to divide for the places of its pieces.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.staged_layouts import TileAxis
from mdtensor.lower.codegen.memory.copy_shape import CopiedTile
from mdtensor.lower.schedule.machine_model import WARP

SECTOR = 32  # bytes that memory is read by
BANKS, BANK_BYTES = 32, 4  # of local memory, that a warp accesses side by side


@dataclass(frozen=True, slots=True)
class TraversalLoop:
    """A loop of the traversal: its axis, number of steps, elements per step, and variable."""

    axis: TileAxis
    length: int
    step: int
    name: str

    def cut(self, count: int) -> tuple[TraversalLoop, TraversalLoop]:
        """Split the loop: `count` steps, which divide its length, inside an outer loop."""
        far = replace(
            self, length=self.length // count, step=self.step * count, name=f"{self.name}o"
        )
        return replace(self, length=count), far


Walks = tuple[TraversalLoop, ...]


def walks_of(tile: CopiedTile) -> Walks:
    """The loops over a tile's axes, the nearest first, in an order that avoids bank conflicts."""
    steps = [tile.lanes if n == 0 else 1 for n in range(len(tile.axes))]
    walks = tuple(
        TraversalLoop(
            axis, (axis.extent.constant or 1) // step, step, f"c{tile.layout.stream}_{axis.dim}"
        )
        for axis, step in zip(tile.axes, steps, strict=True)
    )
    return _apart_in_banks(tile, walks)


def in_other_order(tile: CopiedTile, walks: Walks, items: int) -> Walks:
    """The loops reordered so that `items` work-items more often cover whole loops."""
    return _points_first(tile, walks) if tile.lanes == 1 else _sectors_first(tile, walks, items)


def _sectors_first(tile: CopiedTile, walks: Walks, items: int) -> Walks:
    """The loops reordered so that work-items cover whole loops, if accesses still fill sectors.

    The first loop that work-items do not cover evenly is split by the greatest common divisor of
    its length and their number: the near part keeps its place, the far part becomes the last loop.
    """
    before = 1
    for n, walk in enumerate(walks):
        after = before * walk.length
        if items % after == 0 or walk.length == 1:
            before = after
            continue
        count = math.gcd(walk.length, items // before)
        beside = before * count * tile.lanes * tile.source.memory.itemsize
        if beside < SECTOR or count == walk.length:
            return walks
        near, far = walk.cut(count)
        return (*walks[:n], near, *walks[n + 1 :], far)
    return walks


def _points_first(tile: CopiedTile, walks: Walks) -> Walks:
    """The loops over kept dims before those over reduced ones, if both share memory sectors.

    Taps of a window are few and no power of two, so that their numbers would be divided for.
    """
    reduced, strides = tile.frame.problem.reduced, tile.stream.strides
    near = next((walk for walk in walks if not reduced[walk.axis.dim]), None)
    if near is None:
        return walks
    apart = abs(strides[near.axis.dim].constant or SECTOR) * tile.source.memory.itemsize
    return walks if apart >= SECTOR else tuple(sorted(walks, key=lambda w: reduced[w.axis.dim]))


def _apart_in_banks(tile: CopiedTile, walks: Walks) -> Walks:
    """The loops reordered so that neighbouring work-items store to different banks.

    Work-items walk along what lies in a run in the source first. Behind it, neighbours in the
    source are as far as those at the end of a run, so that the order is free.
    """
    strides = [walk.axis.stride.constant or 0 for walk in walks]
    if tile.frame.schedule.tensor or tile.lies_whole or 1 not in strides:
        return walks
    run, lanes = 1, walks[0].length
    while run < len(walks) and _continues(tile, walks[run - 1].axis, walks[run].axis):
        lanes *= walks[run].length
        run += 1
    beside = strides.index(1)
    if lanes >= WARP or beside <= run:
        return walks
    between = walks[run]
    words = strides[run] * tile.layout.memory.itemsize // BANK_BYTES
    count = min(WARP // lanes, BANKS // math.gcd(words, BANKS))
    while between.length % count:
        count //= 2
    near, far = between.cut(count)
    apart = [walk for walk in (near, walks[beside], far) if walk.length > 1]
    return (*walks[:run], *apart, *walks[run + 1 : beside], *walks[beside + 1 :])


def _continues(tile: CopiedTile, axis: TileAxis, following: TileAxis) -> bool:
    """Whether one axis continues another in the source without a gap."""
    strides = tile.stream.strides
    first, second = strides[axis.dim].constant, strides[following.dim].constant
    return first is not None and second == first * (axis.extent.constant or 0)
