"""The cases that are measured on GPUs: those of the families, and larger ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bench.families import BEYOND, EINSUM, FAMILIES
from bench.kernels.records import linkage
from bench.workload import Workload
from bench.workloads import Contraction, matmul

_LARGER = (
    matmul(4096, 4096, 4096),
    matmul(8192, 8192, 8192),
    matmul(16, 4096, 25088),
    matmul(1, 4096, 25088),
)
# Cases of processors with the peers that are fast enough on GPUs alone.
_WITH_MORE_PEERS = {case.name: case for case in (linkage(2**15, 2**15, "2^15x2^15", on_gpu=True),)}


def _without_floors(workload: Workload) -> Workload:
    """The case as it is, less what is demanded of processors."""
    if isinstance(workload, Contraction):
        return dataclasses.replace(workload, floor=None, limit_floor=None)
    return dataclasses.replace(workload, floor=None, limit_floor=None)  # type: ignore[type-var]


CASES: Mapping[str, Sequence[Workload]] = {
    family: tuple(map(_without_floors, cases))
    for family, cases in (
        (EINSUM, (*FAMILIES[EINSUM], *_LARGER)),
        (BEYOND, [_WITH_MORE_PEERS.get(case.name, case) for case in FAMILIES[BEYOND]]),
    )
}
"""By family; a result file has those that were measured so far."""
