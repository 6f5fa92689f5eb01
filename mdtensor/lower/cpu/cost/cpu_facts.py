"""Facts of a problem that all its CPU estimates share, computed once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from mdtensor.dataclass import dataclass
from mdtensor.lower.cpu.cost.cache_traffic import (
    Footprint,
    MemoizedSpans,
    Shape,
    WorkingSets,
    footprints_of,
)
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scratch_memory import staged_dtype
from mdtensor.lower.problem.work import (
    bytes_moved,
    bytes_written,
    instructions_of_point,
    links_of_point,
)
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target, is_short_float


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The access pattern of a stream: strides, bytes of an element, offsets.

    `widens` tells whether loads convert elements to float32: those from the array, and those from a
    staged tile, which may have them in that type.
    """

    strides: tuple[int, ...]
    itemsize: int
    places: frozenset[int]
    widens: tuple[bool, bool] = (False, False)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that all estimates of a problem with fixed extents share.

    `copied` are the footprints of staged streams. Register tiles and working sets were computed for
    other schedules.
    """

    extents: tuple[int, ...]
    kept: tuple[int, ...]
    contracted: tuple[int, ...]
    walks: tuple[AccessPattern, ...]
    footprints: tuple[Footprint, ...]
    moved: int
    written: int
    per_point: float
    links: int
    reduced: tuple[bool, ...]
    scanned: int
    copied: tuple[Footprint, ...]
    tiles: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any], compare=False)
    working_sets: WorkingSets = field(default_factory=WorkingSets, compare=False)


class Case(NamedTuple):
    """The input of an estimate: problem, schedule, target, and derived numbers.

    A tuple, which is made in a third of the time that a dataclass takes: there is one per estimate.
    """

    problem: Problem
    schedule: Schedule
    target: Target
    facts: Facts
    shape: Shape


@lru_cache(64)
def facts_of(problem: Problem) -> Facts:
    """The facts of a problem, memoised."""
    places: list[set[int]] = [set() for _ in problem.streams]
    for read in problem.reads:
        places[read.stream].add(as_index(read.offset).constant or 0)
    walks = [
        AccessPattern(
            tuple([stride.constant or 0 for stride in stream.strides]),
            problem.inputs[stream.buffer].itemsize,
            frozenset(places[number]),
            _widens(problem, number),
        )
        for number, stream in enumerate(problem.streams)
    ]
    footprints = footprints_of(problem)
    reads = footprints[: len(problem.streams)]
    return Facts(
        tuple([problem.extent(d) for d in problem.dims]),
        problem.kept,
        problem.contracted,
        tuple(walks),
        footprints,
        bytes_moved(problem),
        bytes_written(problem),
        instructions_of_point(problem.scalar, problem.operator),
        links_of_point(problem.scalar, problem.operator),
        tuple([problem.reduced[d] for d in problem.dims]),
        problem.scanned,
        tuple([replace(read, steps=(), known=MemoizedSpans()) for read in reads]),
    )


def _widens(problem: Problem, number: int) -> tuple[bool, bool]:
    is_short = is_short_float(problem.inputs[problem.streams[number].buffer])
    return is_short, is_short and is_short_float(staged_dtype(problem, number))


def reads_around(problem: Problem) -> bool:
    """Whether a stream is read at several offsets, as by a stencil."""
    offsets = {(read.stream, read.offset) for read in problem.reads if not read.computed}
    return len(offsets) > len({stream for stream, _ in offsets})
