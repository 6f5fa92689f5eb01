"""Statements of kernels with TMA: signals (mbarriers), tensor maps, copies, wgmma products."""

from __future__ import annotations

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.values import Ref


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map (TMA descriptor): an array in a buffer, and the box of a copy.

    Dims are the nearest first, whose elements are neighbours; strides are in elements. A row of a
    box along that dim has 128 bytes, and lies in local memory with its 16-byte pieces in another
    order: the number of a piece is combined with that of its row, modulo 8, by exclusive or.
    Elements outside of the extents are read as 0 and not written. Those that are read as `tf32` are
    rounded to it on their way. `box` counts the elements of a box along each dim, which lie `steps`
    apart; () where they are neighbours.
    """

    name: str
    buffer: str
    memory: np.dtype
    offset: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    tf32: bool = False
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Signals:
    """Declares mbarriers in local memory: arrays of given lengths, and arrivals of each.

    A signal is in phase 0, and comes to the next one, 1 or 0 again, when all senders sent it and
    the bytes that it was told to expect are there.
    """

    signals: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class AwaitSignal:
    """Waits until an mbarrier has left a phase; the phase before the first one is 1."""

    buffer: str
    index: Index
    phase: Index


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Arrives at an mbarrier, and announces the bytes that TMA copies will add."""

    buffer: str
    index: Index
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class BulkCopy:
    """Starts a TMA copy of a box to local memory, which an mbarrier completes."""

    map: str
    at: tuple[Index, ...]
    target: str
    to: Index
    signal: str
    index: Index


@dataclass(frozen=True, slots=True)
class BulkStore:
    """Starts a TMA copy of a box from local memory, after a fence."""

    map: str
    at: tuple[Index, ...]
    source: str
    begin: Index


@dataclass(frozen=True, slots=True)
class AwaitStores:
    """Waits until all but the last `pending` TMA stores of the work-item are done.

    Or only until they have `read` what they store.
    """

    pending: int
    read: bool = False


@dataclass(frozen=True, slots=True)
class WarpBarrier:
    """A barrier of the work-items of a warp.

    Where `shown`, their writes to local memory are visible to bulk copies as well.
    """

    shown: bool = False


@dataclass(frozen=True, slots=True)
class PanelOperand:
    """Rows, or columns, in panels of local memory whose rows have 128 bytes (see `TensorMap`).

    Where they lie `turned`, neighbours are of one element of the reduction, panels of them are
    `panel` elements apart; else neighbours are those of the reduction. Eight rows of a panel are
    one after the other; `step` is from 32 bytes of the reduction to the next ones.
    """

    buffer: str
    start: Index
    turned: bool
    panel: int
    step: int
    memory: np.dtype


@dataclass(frozen=True, slots=True)
class PanelProduct:
    """An asynchronous wgmma product: four warps add 64 rows times columns to accumulators.

    Warp w has rows 16 w to 16 w + 15, its work-items hold of them what those of `MatrixProduct`
    do. There are `steps` of 32 bytes of the reduction. The accumulators, and the operands, must be
    left alone until the product was awaited.

    Rows may go through registers, those of so many steps at a time as are `held`: a work-item has
    two neighbours of them instead of two that are eight apart. Such steps are a product of their
    own, which begins when all before it but the last are done.
    """

    rows: PanelOperand
    columns: PanelOperand
    steps: int
    accumulators: tuple[tuple[tuple[Ref, Ref], ...], ...]
    held: int = 0


@dataclass(frozen=True, slots=True)
class AwaitProducts:
    """Waits until all but the last `pending` products of the four warps are done.

    If none is left, these `accumulators` have their results.
    """

    pending: int
    accumulators: tuple[Ref, ...] = ()


BulkStatement = (
    Signals
    | AwaitSignal
    | SendSignal
    | BulkCopy
    | BulkStore
    | AwaitStores
    | WarpBarrier
    | PanelProduct
    | AwaitProducts
)
