"""The families of cases; each has a result file of its own."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from bench.kernels import KERNELS
from bench.workload import Workload
from bench.workloads import WORKLOADS

EINSUM = "einsum"
BEYOND = "kernels"

FAMILIES: Mapping[str, tuple[Workload, ...]] = {EINSUM: WORKLOADS, BEYOND: KERNELS}


def selected(pattern: str | None, family: str = EINSUM) -> list[Workload]:
    """The cases of a family whose name fits a pattern, or contains it; all cases for None."""
    return [workload for workload in FAMILIES[family] if fits(workload, pattern)]


def fits(workload: Workload, pattern: str | None) -> bool:
    """Whether a case's name fits one of some patterns, or contains it; any fits None."""
    parts = [part.strip() for part in (pattern or "*").split(",")]
    return any(fnmatch.fnmatchcase(workload.name, part) or part in workload.name for part in parts)


_BY_NAME = {workload.name: workload for cases in FAMILIES.values() for workload in cases}


def named(name: str) -> Workload:
    """The case of a name; KeyError where there is none."""
    return _BY_NAME[name]
