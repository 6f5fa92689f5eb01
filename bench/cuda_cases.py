"""The cases that are measured on GPUs: those of the families, and larger ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bench.families import BEYOND, EINSUM, named
from bench.workload import Workload
from bench.workloads import CCSDT, TABLE_6, Contraction, matmul

_EINSUM = (
    matmul(1024, 1024, 1024),
    matmul(4096, 4096, 4096),
    matmul(8192, 8192, 8192),
    matmul(10, 500, 64),
    matmul(16, 1000, 2048),
    matmul(1, 1000, 2048),
    matmul(16, 4096, 25088),
    matmul(1, 4096, 25088),
    *(named(name) for name in ("bmatmul-16x10x500x64", "dot-2^24", "matvec-4096", "matvec-8192")),
    *CCSDT,
    *TABLE_6,
)
_KERNELS = tuple(
    named(name)
    for name in (
        "jacobi3d-256^3",
        "jacobi3d-512^3",
        "gaussian-4096x4096",
        "scan-add-2^24",
        "histogram-2^24x256-int32",
        "argmax-rows-4096x4096",
        "min-plus-1024x1024x1024",
        "prl-2^10x2^15",
        "mcc-1x7x7x512-512x3x3",
        "mcc-resnet-1x230x230x3-64x7x7-s2",
        "mcc-resnet-16x230x230x3-64x7x7-s2",
        "mcc-vgg-1x224x224x3-64x3x3",
        "mcc-mobilenet-1x225x225x3-32x3x3-s2",
        "resnet50-03-1x56x56x64-64x3x3",
        "mcc-vgg-16x224x224x3-64x3x3",
        "mcc-mobilenet-16x225x225x3-32x3x3-s2",
        "capsule-resnet-1x230x230x3-64x7x7-s2-4x4",
        "capsule-vgg-1x226x226x3-64x3x3-4x4",
        "capsule-mobilenet-1x225x225x3-32x3x3-s2-4x4",
        "capsule-resnet-16x230x230x3-64x7x7-s2-4x4",
        "capsule-mobilenet-16x225x225x3-32x3x3-s2-4x4",
    )
)


def _without_floors(workload: Workload) -> Workload:
    """The case as it is, less what is demanded of processors."""
    if isinstance(workload, Contraction):
        return dataclasses.replace(workload, floor=None, limit_floor=None)
    return dataclasses.replace(workload, floor=None, limit_floor=None)  # type: ignore[type-var]


CASES: Mapping[str, Sequence[Workload]] = {
    family: tuple(map(_without_floors, cases))
    for family, cases in ((EINSUM, _EINSUM), (BEYOND, _KERNELS))
}
