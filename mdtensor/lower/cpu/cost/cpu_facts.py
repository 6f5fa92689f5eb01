"""Facts about a problem that all its estimates for processors share, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mdtensor.lower.cpu.cost.cache_traffic import Footprint, Shape, footprints_of
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import (
    bytes_moved,
    bytes_written,
    instructions_of_point,
    links_of_point,
)
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target


@dataclass(frozen=True, slots=True)
class Walk:
    """The access pattern of a stream: strides, bytes of an element, offsets."""

    strides: tuple[int, ...]
    itemsize: int
    places: frozenset[int]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that all estimates of a problem with fixed extents share."""

    extents: tuple[int, ...]
    kept: tuple[int, ...]
    contracted: tuple[int, ...]
    walks: tuple[Walk, ...]
    footprints: tuple[Footprint, ...]
    moved: int
    written: int
    per_point: float
    links: int
    reduced: tuple[bool, ...]
    scanned: int


class Case(NamedTuple):
    """The input of an estimate: problem, schedule, target, and numbers derived from them.

    A tuple, which is made in a third of the time that a dataclass takes: there is one per estimate.
    """

    problem: Problem
    schedule: Schedule
    target: Target
    facts: Facts
    shape: Shape


@lru_cache(64)
def facts_of(problem: Problem) -> Facts:
    """The facts of a problem, memoized."""
    places: list[set[int]] = [set() for _ in problem.streams]
    for read in problem.reads:
        places[read.stream].add(as_index(read.offset).constant or 0)
    walks = [
        Walk(
            tuple([stride.constant or 0 for stride in stream.strides]),
            problem.inputs[stream.buffer].itemsize,
            frozenset(places[number]),
        )
        for number, stream in enumerate(problem.streams)
    ]
    return Facts(
        tuple([problem.extent(d) for d in problem.dims]),
        problem.kept,
        problem.contracted,
        tuple(walks),
        footprints_of(problem),
        bytes_moved(problem),
        bytes_written(problem),
        instructions_of_point(problem.scalar, problem.operator),
        links_of_point(problem.scalar, problem.operator),
        tuple([problem.reduced[d] for d in problem.dims]),
        problem.scanned,
    )


def reads_around(problem: Problem) -> bool:
    """Whether points read a stream at several places, as those of a stencil do."""
    offsets = {(read.stream, read.offset) for read in problem.reads if not read.computed}
    return len(offsets) > len({stream for stream, _ in offsets})
