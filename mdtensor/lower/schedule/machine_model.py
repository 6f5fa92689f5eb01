"""Abstract system models: the layers of a device over which a computation is spread.

Definition: 002, section 4.3.2, Definition 10. A layer is data: core layers run their parts in
parallel, memory layers one after the other. A further layer (devices, nodes) is one more row.
"""

from __future__ import annotations

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError

# Facts that all devices of a kind share, for which code is generated. Of GPUs: work-items that can
# exchange values without local memory, and bytes of a line of memory and of a sector of it.
WARP, GPU_LINE, GPU_SECTOR = 32, 128, 32
# Of processors: bytes of a line of their caches and of a page; bytes between lines that map to one
# set of L1; L2 and L3 have so many ways.
CPU_LINE, PAGE, WAY_BYTES, L2_WAYS = 64, 4096, 4096, 16


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a device, and the field of Schedule with its share of each dim."""

    name: str
    parallel: bool
    field: str


@dataclass(frozen=True, slots=True)
class ASM:
    """A device's layers, outermost first, and the memory regions where inputs may be staged.

    `vectors` tells whether work-items hold vectors; `cooperative` whether the work-items of a
    group copy together and see one local memory.
    """

    name: str
    layers: tuple[Layer, ...]
    regions: tuple[str, ...]
    vectors: bool
    cooperative: bool


CPU = ASM(
    "cpu",
    (
        Layer("core", parallel=True, field="parts"),
        Layer("cache", parallel=False, field="tiles"),
        Layer("register", parallel=False, field="registers"),
        Layer("lane", parallel=True, field="width"),
    ),
    ("scratch", "private"),
    vectors=True,
    cooperative=False,
)

GPU = ASM(
    "gpu",
    (
        Layer("grid", parallel=True, field="parts"),
        Layer("block", parallel=False, field="tiles"),
        Layer("thread", parallel=True, field="threads"),
        Layer("register", parallel=False, field="registers"),
    ),
    ("local",),
    vectors=False,
    cooperative=True,
)

_BY_NAME = {asm.name: asm for asm in (CPU, GPU)}


def asm_of(name: str) -> ASM:
    """Look up a machine model by name; LoweringError if there is none."""
    if name not in _BY_NAME:
        raise LoweringError(f"no abstract system model {name!r}; there are {sorted(_BY_NAME)}")
    return _BY_NAME[name]
