"""Schedules of chains computed block of rows by block of rows, ranked by the cost model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.fuse_kernels import placed
from mdtensor.lower.codegen.fuse_rows import RowBlocks
from mdtensor.lower.cpu.cost.cpu_cost import GROUP_OVERHEAD, INLINE_LAUNCH, WAKING
from mdtensor.lower.cpu.parallelism import GROUPS_PER_CORE
from mdtensor.lower.problem.problem import Problem, reaching_own_points
from mdtensor.lower.problem.problem_of_device import problem_of_device
from mdtensor.lower.schedule.chain_schedule import ChainSchedule
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import Target
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.rewrites.shared_rows import ChainStage, RowDim, pieces, rows_within
from mdtensor.translate.rewrites.shared_terms import with_shared_terms

# By what rows inside must promise to be faster: estimates are far off where elements are gathered.
RISK = 1.15
_FEW = 4  # schedules of a step that are ranked: some stream
_OF_CACHE = 0.28  # the part of a core's cache that what lies between may take
_MOST_ROWS, _FEWER_ROWS = 256, (1, 2, 4)  # rows of a block, and by what they are divided

Parts = tuple[tuple[Problem, ChainStage], ...]


@dataclass(frozen=True, slots=True)
class OnBlocks:
    """A chain specialised to a block of rows, and to a ragged last block.

    `between` are the bytes of the arrays that a group has for its own.
    """

    blocks: RowBlocks
    steps: Parts
    rest: Parts
    between: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RowChain:
    """A chain, its shared row dims, and the slots that can be local to a block (`own`)."""

    chain: tuple[Step, ...]
    rows: tuple[RowDim, ...]
    own: tuple[int, ...]

    def on_blocks(
        self, lengths: tuple[int, ...], target: Target, *, rows_inside: bool = False
    ) -> OnBlocks:
        """The chain on blocks of `lengths` rows along each dim."""
        blocks = RowBlocks(tuple(row.extent for row in self.rows), lengths)
        steps = self._parts(lengths, target, rows_inside=rows_inside)
        rest = self._parts(blocks.last, target, rows_inside=rows_inside) if blocks.ragged else ()
        between = {
            slot: buffer.spec.nbytes
            for _, piece in steps
            for slot, buffer in zip(piece.results, piece.md_hom.outputs, strict=True)
            if slot in self.own
        }
        return OnBlocks(blocks, steps, rest, between)

    @property
    def bytes_of_row(self) -> int:
        """The most bytes of intermediate arrays alive at one time, per row."""
        one = (1,) * len(self.rows)
        found = pieces(self.chain, self.rows, one, self.own)
        sizes = {
            slot: buffer.spec.nbytes
            for piece in found
            for slot, buffer in zip(piece.results, piece.md_hom.outputs, strict=True)
            if slot in self.own
        }
        used, over = zip(*[(piece.slots, piece.overwritten) for piece in found], strict=True)
        return placed(sizes, used, over)[1]

    def with_shared_terms(self) -> RowChain | None:
        """The chain with common terms of several `md_hom`s hoisted; None if there are none."""
        chain = with_shared_terms(self.chain)
        if len(chain) == len(self.chain):
            return None
        known = {slot for link in self.chain for slot in (*link.operands, *link.results)}
        terms = {slot for link in chain for slot in link.results} - known
        found = row_chain(chain, (*self.own, *sorted(terms)))
        return found if found.rows or not self.rows else None

    def _parts(self, lengths: Sequence[int], target: Target, *, rows_inside: bool) -> Parts:
        found = pieces(self.chain, self.rows, lengths, self.own, rows_inside=rows_inside)
        return tuple(
            (reaching_own_points(problem_of_device(piece.md_hom, target)), piece) for piece in found
        )


def row_chain(chain: Sequence[Step], own: Collection[int]) -> RowChain:
    """The chain with its shared row dims, if any.

    Slots in `own` are not visible outside of the chain.
    """
    return RowChain(tuple(chain), rows_within(chain, own), tuple(own))


def best_on_rows(chain: RowChain, target: Target) -> tuple[float, OnBlocks, ChainSchedule] | None:
    """The best schedule by the cost model: estimated seconds, the chain on blocks, the schedule."""
    alone = replace(target, cores=1)
    known: dict[Problem, tuple[float, Schedule] | None] = {}

    def schedules(parts: Parts) -> tuple[float, tuple[Schedule, ...]] | None:
        for problem, _ in parts:
            if problem not in known:
                known[problem] = _best_of_one_group(problem, alone)
        found = [pair for problem, _ in parts if (pair := known[problem]) is not None]
        if len(found) < len(parts):
            return None
        return sum(seconds for seconds, _ in found), tuple([schedule for _, schedule in found])

    best: tuple[float, OnBlocks, ChainSchedule] | None = None
    least = math.inf
    for made, inside, shared in _ways(chain, target):
        steps, rest = schedules(made.steps), schedules(made.rest)
        if steps is None or rest is None:
            continue
        count = math.prod(made.blocks.counts)
        groups = min(count, GROUPS_PER_CORE * target.cores)
        busiest = -(-count // target.cores)
        seconds = steps[0] * busiest + WAKING * target.launch_seconds
        seconds += groups * GROUP_OVERHEAD / target.cores
        promised = seconds * (RISK if inside else 1.0)
        if promised < least:
            least, lengths = promised, made.blocks.lengths
            schedule = ChainSchedule(lengths, groups, steps[1], rest[1], inside, shared)
            best = seconds, made, schedule
    return best


def _best_of_one_group(problem: Problem, alone: Target) -> tuple[float, Schedule] | None:
    """The best single-group schedule, and its seconds without a launch; or None."""
    for seconds, schedule in ranked(problem, alone, most=_FEW):
        if not schedule.streaming and math.prod(schedule.parts) == 1:
            return seconds - INLINE_LAUNCH, schedule
    return None


def _ways(chain: RowChain, target: Target) -> Iterator[tuple[OnBlocks, bool, bool]]:
    """The chain on blocks of various lengths.

    And whether rows are innermost in what lies between, and whether terms are shared; not where
    that makes no difference.
    """
    for shared, form in enumerate((chain, chain.with_shared_terms())):
        if form is None:
            continue
        for lengths in lengths_of_blocks(form, target):
            apart = form.on_blocks(lengths, target)
            yield apart, False, bool(shared)
            together = form.on_blocks(lengths, target, rows_inside=True)
            if together.steps != apart.steps:
                yield together, True, bool(shared)


def lengths_of_blocks(chain: RowChain, target: Target) -> Iterator[tuple[int, ...]]:
    """Candidate block lengths by dim: intermediates fit a core's cache, and smaller ones.

    Rows of the last dims are in a block together; no more than leave every core several blocks.
    """
    extents = [row.extent for row in chain.rows]
    every = math.prod(extents)
    most = min(_MOST_ROWS, every // (GROUPS_PER_CORE * target.cores))
    fits = _power(max(1, min(most, int(_OF_CACHE * target.l2_bytes / chain.bytes_of_row))))
    for count in dict.fromkeys(max(1, fits // fewer) for fewer in _FEWER_ROWS):
        lengths: list[int] = []
        left = count
        for extent in reversed(extents):
            lengths.insert(0, min(extent, left))
            left = max(1, left // extent)
        yield tuple(lengths)


def _power(most: int) -> int:
    """The largest power of two that is at most `most`."""
    return 1 << (most.bit_length() - 1)
