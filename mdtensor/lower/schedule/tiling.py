"""Tilings: extents of every layer for one dim, from a problem and a schedule."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class DimTiling:
    """The tiling of one dim on all layers.

    A group computes `part` points of the `extent`, there are `parts` of them; `tile` is the extent
    of a cache tile, a whole number of `block`s; a work-item computes `register` points at once.
    `remainder` is what is left of the extent after whole register tiles; None where unknown.
    Of the register tile, `chunk` points are neighbours; 0 where all are. Chunks of `in_row`
    work-items lie in a row, of all of them if it is 0; then come these work-items' next chunks.
    The first block begins `lead` points before the dim does. With `overlap`, the last one ends
    where the dim does, and begins inside the one before.
    """

    label: str
    extent: Index
    register: int
    threads: int
    part: Index
    parts: Index
    tile: int
    chunk: int = 0
    lead: int = 0
    in_row: int = 0
    overlap: bool = False

    @property
    def near(self) -> int:
        """The distance between the first points of neighbouring work-items."""
        return self.chunk or self.register

    @property
    def row(self) -> int:
        """The number of work-items in a row of chunks."""
        return self.in_row or self.threads

    def positions(self, count: int) -> tuple[int, ...]:
        """Positions of a work-item's first `count` points, relative to its first one."""
        return _positions(self.near, self.near * self.row, count)

    @property
    def is_ragged(self) -> bool:
        """Whether the last block may be cut off by the end of the dim."""
        extent = self.extent.constant
        if self.overlap:
            return False
        return extent is None or self.lead > 0 or extent % self.block != 0

    @property
    def block(self) -> int:
        """Points that the work-items of a group compute at once."""
        return self.register * self.threads

    @property
    def first(self) -> Index:
        """The index of a work-item's first point in the tile."""
        start = name(self.var("t"))
        if self.threads == 1:
            return start
        if self.row == self.threads:
            return start + name(self.var("x")) * self.near
        start = start + name(self.var("w")) * (self.register * self.row)
        return start + name(self.var("l")) * self.near if self.row > 1 else start

    def is_even(self, length: int = 0) -> bool:
        """Whether parts and their tiles are whole multiples of a length (0: of blocks)."""
        extent, part = self.extent.constant, self.part.constant
        if extent is None or part is None:
            return False
        length = length or self.block
        if self.parts.constant == 1:
            return extent % length == 0
        return extent % part == 0 and part % length == 0

    @property
    def is_split(self) -> bool:
        """Whether several groups share the dim."""
        return self.parts.constant != 1

    @property
    def remainder(self) -> int | None:
        """Points left over by whole register tiles, or None where the extent is symbolic."""
        extent = self.extent.constant
        return None if extent is None else extent % self.register

    @property
    def blocks(self) -> Index:
        """Number of blocks in a cache tile, or in a part where the dim has no cache tiles."""
        if self.tile:
            return as_index(self.tile // self.block)
        return divided(self.part, self.block)

    def var(self, prefix: str) -> str:
        """A name for this dim in the kernel, such as `r_i`."""
        return f"{prefix}_{self.label}"


@lru_cache(1024)
def _positions(near: int, whole: int, count: int) -> tuple[int, ...]:
    return tuple(n // near * whole + n % near for n in range(count))


def divided(index: Index, by: int) -> Index:
    """The expression divided by a number that divides all its coefficients."""
    assert all(coefficient % by == 0 for _, coefficient in index.terms)
    return Index(tuple((names, coefficient // by) for names, coefficient in index.terms))


_latest: tuple[Problem, Schedule, tuple[DimTiling, ...]] | None = None


def tilings_of(problem: Problem, schedule: Schedule) -> tuple[DimTiling, ...]:
    """The tiling of every dim; the last result is memoised.

    A candidate's tilings are requested a dozen times in a row, and later only for derived schedules
    that agree in all that tilings depend on.
    """
    global _latest
    latest = _latest
    if latest is not None and latest[0] is problem:
        if latest[1] is schedule:
            return latest[2]
        if _are_tiled_alike(latest[1], schedule):
            _latest = problem, schedule, latest[2]
            return latest[2]
    tilings = _tilings(problem, schedule)
    _latest = problem, schedule, tilings
    return tilings


def _are_tiled_alike(one: Schedule, other: Schedule) -> bool:
    """Whether schedules share the very values from which tilings are computed."""
    return (
        one.parts is other.parts
        and one.registers is other.registers
        and one.threads is other.threads
        and one.tiles is other.tiles
        and one.chunks is other.chunks
        and one.warp is other.warp
        and one.lead is other.lead
        and one.group_order is other.group_order
        and one.tail == other.tail
        and (one.resident, one.scatter, one.bulk) == (other.resident, other.scatter, other.bulk)
        and one.cluster == other.cluster
    )


def _identifier(problem: Problem, dim: int) -> str:
    """The label of a dim, or another one where it can be no part of a variable's name."""
    label = problem.labels[dim]
    if f"d{label}".isidentifier():
        return label
    label = f"d{dim}"
    while label in problem.labels:
        label += "_"
    return label


def _tilings(problem: Problem, schedule: Schedule) -> tuple[DimTiling, ...]:
    """The tiling of every dim.

    Parts and tiles are rounded up to whole blocks, so that only the end of the dim itself is ever
    ragged. In a general problem a part is `B_d` blocks, a name whose value the launch decides.
    """
    result: list[DimTiling] = []
    for d in problem.dims:
        label = _identifier(problem, d)
        register, threads = schedule.registers[d], schedule.threads[d]
        block = register * threads
        tile = whole_blocks(schedule.tiles[d], block)
        extent = problem.extents[d].constant
        lead = schedule.lead[d] if schedule.lead else 0
        if extent is None:
            part = name(f"B_{label}") * block
            parts = as_index(1) if schedule.parts[d] == 1 else name(f"P_{label}")
        else:
            length, count = division(extent + lead, block, schedule.parts[d])
            part, parts = as_index(length), as_index(count)
            tile = 0 if tile >= length else tile
        walked = not problem.reduced[d] or d == problem.scanned or schedule.scatter
        if schedule.resident and walked:
            tile = 0 if part.constant == block else block
        chunk = schedule.chunks[d] if schedule.chunks else 0
        tiling = DimTiling(
            label,
            problem.extents[d],
            register,
            threads,
            part,
            parts,
            tile,
            chunk,
            lead,
            _in_row(problem, schedule, d),
        )
        if _overlaps(problem, schedule, d, tiling):
            tiling = replace(tiling, overlap=True)
        result.append(tiling)
    return tuple(result)


def whole_blocks(length: int, block: int) -> int:
    """A length, rounded up to whole blocks."""
    return -(-length // block) * block


def division(extent: int, block: int, parts: int) -> tuple[int, int]:
    """The length of a group's part of a dim, in whole blocks, and the number of parts."""
    blocks = -(-extent // block)
    length = -(-blocks // max(1, parts)) * block
    return length, max(1, -(-extent // length))


def _in_row(problem: Problem, schedule: Schedule, d: int) -> int:
    """Lanes of a warp that share a scanned dim; 1 where they do not, 0 for other dims.

    Four warps that multiply matrices together have whole rows each.
    """
    if schedule.bulk:
        return schedule.warp[d]
    if not schedule.resident or d != problem.scanned:
        return 0
    whole = math.prod(schedule.threads) % WARP == 0 and schedule.group_order[-1] == d
    return math.gcd(schedule.threads[d], WARP) if whole else 1


def _overlaps(problem: Problem, schedule: Schedule, d: int, tiling: DimTiling) -> bool:
    """Whether the last block of a dim may overlap its predecessor under the schedule.

    Points are computed twice then, which elements of a reduction or a scan cannot be; and along
    elements that are accessed several at once, a block begins where the others do.
    """
    extent, alone = tiling.extent.constant, tiling.part.constant == tiling.block
    if not schedule.resident or schedule.tail != "overlap" or not alone:
        return False
    if problem.contracted and not _can_overlap(problem, schedule, d):
        return False
    if extent is None or extent < tiling.block or tiling.lead:
        return False
    accesses = (*problem.streams, *problem.writes)
    beside = any(access.strides[d].constant in (1, -1) for access in accesses)
    return not beside or extent % tiling.near == 0


def _can_overlap(problem: Problem, schedule: Schedule, d: int) -> bool:
    """Whether blocks of a kept dim may overlap in a problem with reduced dims.

    The results of a cluster lie where its part begins, and not its block.
    """
    elsewhere = schedule.cluster or schedule.bulk or schedule.scatter
    return not problem.reduced[d] and problem.scanned < 0 and not elsewhere
