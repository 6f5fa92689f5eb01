"""Streamed output: a block's results are collected in local memory and copied out as runs.

Where a block's results at one index of the dim along which a group marches lie in one run, work-
items put them into local memory, and what leaves is the run: one copy of whole lines, however rows
end, for which no work-item waits. There are as many runs as planes are on their way, and two at
least: one is written while the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.memory.tile_sequence import wrapped
from mdtensor.lower.gpu.streaming.planes import marched_dim, points_along
from mdtensor.lower.ir.group_statements import (
    AwaitCopiesOut,
    Barrier,
    CopyOut,
    ProxyFence,
)
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.statements import Allocate, If, Increment, LetIndex, Pointer, Statement
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling

_FEWEST = 2  # runs
_BYTES = 16  # at whose multiples copies begin and end
_OUT = "out"  # the number of the run that is written
_LAST = "left"  # that of the run before


def lengths_of_runs(
    problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> tuple[int, ...]:
    """The length of a block's run in each output, in elements; LoweringError if it has gaps."""
    if not schedule.march or not schedule.results:
        return ()
    d = marched_dim(schedule, tilings)
    return tuple(_length(problem, tilings, d, number) for number in range(len(problem.writes)))


def _length(problem: Problem, tilings: Sequence[DimTiling], d: int, number: int) -> int:
    write = problem.writes[number]
    itemsize = problem.outputs[write.buffer].itemsize
    strides = {e: write.strides[e].constant or 0 for e in problem.dims}
    places = [as_index(write.offset).constant or 0, strides[d]]
    length, is_cut = 1, False
    for e in sorted((e for e in problem.dims if e != d), key=lambda e: strides[e]):
        tiling, points = tilings[e], points_along(tilings[e])
        extent = tiling.extent.constant or 1
        if points > 1 and (is_cut or strides[e] != length):
            raise LoweringError("results leave through local memory where a block's lie in a run")
        if points < extent:
            if tiling.is_ragged:
                raise LoweringError("results leave through local memory in whole blocks")
            is_cut = True
            places += [strides[e] * points, strides[e] * (extent - points)]
        length *= points
    if any(place * itemsize % _BYTES for place in (*places, length)):
        raise LoweringError(f"runs of results begin and end at multiples of {_BYTES} bytes")
    return length


def runs_of(schedule: Schedule) -> int:
    """The number of runs per output that local memory holds."""
    return max(_FEWEST, schedule.stages)


@dataclass(frozen=True, slots=True)
class StreamedOutput:
    """The runs of results in local memory, for a group that streams along `d`."""

    destinations: tuple[Destination, ...]
    lengths: tuple[int, ...]
    tilings: tuple[DimTiling, ...]
    d: int
    items: int
    runs: int = _FEWEST

    def declared(self) -> list[Statement]:
        """Declare the arrays in local memory."""
        return [
            Allocate(self._array(k), given.memory, "local", self.runs * self._apart(k))
            for k, given in self._numbered()
        ]

    def begun(self) -> list[Statement]:
        """Declare the number of the run being written."""
        return [LetIndex(_OUT, as_index(0), mutable=True)] if self.lengths else []

    def placed(self, destinations: Sequence[Destination]) -> list[Destination]:
        """The destinations of results: runs in local memory, if results leave through them."""
        if not self.lengths:
            return list(destinations)
        return [
            replace(
                given,
                pointer=self._array(k),
                strides=tuple(
                    as_index(0 if e == self.d else s) for e, s in enumerate(given.strides)
                ),
                offset=as_index(0),
            )
            for k, given in self._numbered()
        ]

    def pointed(self, pointers: Sequence[Statement]) -> list[Statement]:
        """Pointers to results, rebased to the start of a block's run."""
        arrays = {self._array(k): (k, given) for k, given in self._numbered()}

        def pointed(pointer: Statement) -> Statement:
            if not isinstance(pointer, Pointer) or pointer.buffer not in arrays:
                return pointer
            k, given = arrays[pointer.buffer]
            offset = pointer.offset - self._starts(given) + name(_OUT) * self._apart(k)
            return replace(pointer, region="local", offset=offset)

        return [pointed(pointer) for pointer in pointers]

    def shown(self) -> list[Statement]:
        """Before a barrier: fence the results written, and wait until a run is free."""
        pending = (self.runs - _FEWEST) * len(self.lengths)
        return [ProxyFence(), AwaitCopiesOut(pending, read=True)] if self.lengths else []

    def left(self) -> list[Statement]:
        """After a barrier: start the copy of the previous block's run."""
        tiling = self.tilings[self.d]
        begun = self._copies()
        here, low = name(tiling.var("t")), name(tiling.var("lo"))
        return [If(low, "<", here, tuple(begun))] if begun else []

    def passed(self) -> list[Statement]:
        """Advance to the next run."""
        return [Increment(_OUT, 1), wrapped(_OUT, self.runs)] if self.lengths else []

    def ended(self) -> list[Statement]:
        """Copy the last run, and wait for all copies."""
        if not self.lengths:
            return []
        return [ProxyFence(), Barrier(), *self._copies(), AwaitCopiesOut()]

    def _copies(self) -> list[Statement]:
        """Start the copies of the previous block's runs."""
        if not self.lengths:
            return []
        last = LetIndex(_LAST, name(_OUT) + (self.runs - 1), mutable=True)
        found: list[Statement] = [last, wrapped(_LAST, self.runs)]
        for k, given in self._numbered():
            stride = as_index(given.strides[self.d])
            to = given.offset + self._starts(given) + stride * (self._here() - 1)
            at = name(_LAST) * self._apart(k)
            array, count = self._array(k), self.lengths[k]
            found.append(CopyOut(given.pointer, to, array, at, given.memory, count, self.items))
        return found

    def _here(self) -> Index:
        return name(self.tilings[self.d].var("t"))

    def _starts(self, given: Destination) -> Index:
        starts = ((e, name(t.var("t"))) for e, t in enumerate(self.tilings))
        return total(given.strides[e] * start for e, start in starts if e != self.d)

    def _numbered(self) -> list[tuple[int, Destination]]:
        return list(enumerate(self.destinations)) if self.lengths else []

    def _array(self, k: int) -> str:
        return f"R{k}"

    def _apart(self, k: int) -> int:
        return -(-self.lengths[k] // 32) * 32
