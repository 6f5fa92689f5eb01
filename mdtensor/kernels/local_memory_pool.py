"""Layout of local memory that is passed at launch, where a kernel cannot declare it."""

from __future__ import annotations

from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.kernel_source import KernelEntry
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.statements import Allocate

_LINE = 1024  # bytes at whose multiples arrays begin in a pool, as panels of bulk copies must


def pooled(nest: LoopNest, dialect: Dialect) -> tuple[dict[str, int], int]:
    """Byte offsets of local arrays in the launch's pool, and its size; {} and 0 if declared."""
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
    """The entry of a kernel: its name and launch parameters."""
    pool = pooled(nest, dialect)[1]
    return KernelEntry(nest.name, nest.threads, nest.groups, nest.scratch, pool, nest.counters)
