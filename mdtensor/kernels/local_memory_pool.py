"""Where arrays in local memory lie in the pool of a launch, if a kernel cannot declare them."""

from __future__ import annotations

from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.kernel_source import KernelEntry
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.statements import Allocate

_LINE = 1024  # bytes at whose multiples arrays begin in a pool, as panels of bulk copies must


def pooled(nest: LoopNest, dialect: Dialect) -> tuple[dict[str, int], int]:
    """Where arrays in local memory lie in the pool of a launch, and its size; 0 if declared."""
    offsets: dict[str, int] = {}
    size = 0
    for array in nest.body:
        if isinstance(array, Allocate) and array.region == "local":
            offsets[array.name] = size
            size += -(-array.extent * array.memory.itemsize // _LINE) * _LINE
    if not dialect.declared_local or (size <= dialect.declared_local and not nest.maps):
        return {}, 0
    return offsets, size


def entry_of(nest: LoopNest, dialect: Dialect) -> KernelEntry:
    """A kernel of a program, and what it is launched with."""
    pool = pooled(nest, dialect)[1]
    return KernelEntry(nest.name, nest.threads, nest.groups, nest.scratch, pool, nest.counters)
