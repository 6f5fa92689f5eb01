"""LoopNest: the IR of one kernel, from which the renderers print."""

from __future__ import annotations

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import ZERO, Index
from mdtensor.lower.ir.statements import Statement
from mdtensor.lower.ir.tma_statements import TensorMap


@dataclass(frozen=True, slots=True)
class Argument:
    """A buffer argument of a kernel; `role` is input, output, scratch or counters.

    Counters are integers that are 0 before a program's first launch, and keep what a launch leaves
    there for the next one.
    """

    name: str
    memory: np.dtype
    role: str


@dataclass(frozen=True, slots=True)
class LoopNest:
    """One kernel: its arguments, run-time sizes, group size, body, and launch parameters.

    `groups` is the number of work-groups, `threads` of work-items in each, `scratch` the bytes
    of scratch memory, `counters` how many counters it needs; all but `threads` are expressions
    over `sizes`. With `in_order`, groups are numbered as they begin, so that one may wait for
    those before it; their number must be known then. `maps` are arguments behind all others. So
    many neighbouring groups are a `cluster`: they run at one time, and reach each other's memory.
    With `stores_in_loops`, results are stored in loops and again behind them.
    """

    name: str
    arguments: tuple[Argument, ...]
    sizes: tuple[str, ...]
    threads: int
    body: tuple[Statement, ...]
    groups: Index
    scratch: Index
    head: str = ""
    counters: Index = ZERO
    in_order: bool = False
    maps: tuple[TensorMap, ...] = ()
    cluster: int = 1
    stores_in_loops: bool = False
