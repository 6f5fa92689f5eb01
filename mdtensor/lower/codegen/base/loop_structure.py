"""Loop structures: how a kernel numbers work-items, shares memory, and loops."""

from __future__ import annotations

from collections.abc import Callable

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.ir.statements import Statement
from mdtensor.lower.ir.tma_statements import TensorMap


def _no_memory(_: Frame) -> list[Statement]:
    return []


def _no_maps(_: Frame) -> tuple[TensorMap, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class LoopStructure:
    """The numbering of work-items, the memory that they share, and their loops.

    `loops` take the frame of a kernel and its destinations; those of `TILED` also what comes
    before a scan. `more_items` are those of a group that compute nothing.
    """

    numbers: Callable[[Frame], list[Statement]]
    loops: Callable[..., list[Statement]]
    memory: Callable[[Frame], list[Statement]] = _no_memory
    maps: Callable[[Frame], tuple[TensorMap, ...]] = _no_maps
    more_items: int = 0
