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
    cases = FAMILIES[family]
    if pattern is None:
        return list(cases)
    patterns = [part.strip() for part in pattern.split(",")]
    return [
        w
        for w in cases
        if any(fnmatch.fnmatchcase(w.name, part) or part in w.name for part in patterns)
    ]


_BY_NAME = {workload.name: workload for cases in FAMILIES.values() for workload in cases}


def named(name: str) -> Workload:
    """The case of a name; KeyError where there is none."""
    return _BY_NAME[name]
