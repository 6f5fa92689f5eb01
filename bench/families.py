"""The families of cases; each has a result file of its own."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import TypeVar

from bench.kernels import KERNELS
from bench.kernels.everyday import EVERYDAY
from bench.workload import Workload
from bench.workloads import WORKLOADS

_W = TypeVar("_W", bound=Workload)

EINSUM = "einsum"
BEYOND = "kernels"

FAMILIES: Mapping[str, tuple[Workload, ...]] = {EINSUM: WORKLOADS, BEYOND: KERNELS}
# All cases of processors: `bench.natural` has a few more.
ALL = (*WORKLOADS, *KERNELS, *EVERYDAY)


def selected(pattern: str | None, family: str = EINSUM) -> list[Workload]:
    """The cases of a family whose name fits a pattern, or contains it; all cases for None."""
    return [workload for workload in FAMILIES[family] if fits(workload, pattern)]


def fits(workload: Workload, pattern: str | None) -> bool:
    """Whether a case's name fits one of some patterns, or contains it; any fits None."""
    return place_of(workload, pattern) is not None


def place_of(workload: Workload, pattern: str | None) -> int | None:
    """The number of the first of some patterns that a case's name fits; None where none is."""
    for number, part in enumerate(part.strip() for part in (pattern or "*").split(",")):
        if fnmatch.fnmatchcase(workload.name, part) or part in workload.name:
            return number
    return None


def in_order(workloads: Iterable[_W], pattern: str | None) -> list[_W]:
    """The cases that fit some patterns, in the order of these."""
    places = [(place_of(workload, pattern), workload) for workload in workloads]
    known = [(place, workload) for place, workload in places if place is not None]
    return [workload for _, workload in sorted(known, key=lambda pair: pair[0])]


_BY_NAME = {workload.name: workload for workload in ALL}


def named(name: str) -> Workload:
    """The case of a name; KeyError where there is none."""
    return _BY_NAME[name]
