"""Statements for cooperation of work-items in a group, and of groups.

They synchronise, copy tiles to local memory, exchange values, and multiply matrices. Those of bulk
copies are in `tma_statements`.
"""

from __future__ import annotations

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.register_types import F16
from mdtensor.lower.ir.values import Ref


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier of the group, after which all work-items see each other's local memory."""


@dataclass(frozen=True, slots=True)
class MemoryBarrier:
    """A barrier of the group, after which all work-items see each other's writes to any memory."""


@dataclass(frozen=True, slots=True)
class CopyAsync:
    """An asynchronous copy of `lanes` adjacent elements to local memory, of 4, 8 or 16 bytes.

    It is complete when the group of copies to which it belongs was awaited.
    """

    target: str
    to: Index
    source: str
    at: Index
    memory: np.dtype
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class CommitCopies:
    """Commits the work-item's asynchronous copies so far as a group, and begins the next one."""


@dataclass(frozen=True, slots=True)
class AwaitCopies:
    """Waits until all but the last `pending` groups of the work-item's copies are complete."""

    pending: int


@dataclass(frozen=True, slots=True)
class CopyOut:
    """A copy of `count` adjacent elements from local memory to a buffer, begun by all `items`.

    A fence of their writes, then a barrier, must come before. Both places, and what is copied, are
    multiples of 16 bytes.
    """

    target: str
    to: Index
    source: str
    at: Index
    memory: np.dtype
    count: int
    items: int


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """A proxy fence: copies that start after a barrier see the work-item's earlier writes."""


@dataclass(frozen=True, slots=True)
class AwaitCopiesOut:
    """Waits, by the next barrier, for copies from local memory, or until they have `read` it.

    That holds for all but the last `pending` ones.
    """

    pending: int = 0
    read: bool = False


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic add, min or max of a value into an integer in local memory."""

    op: str
    buffer: str
    memory: np.dtype
    index: Index
    value: Ref


@dataclass(frozen=True, slots=True)
class Arrive:
    """Declares an index variable: 1 in the last of `count` groups to arrive here, else 0.

    What the groups wrote to memory before, the last one sees. The counter of that number, which
    was 0, is 0 again afterwards.
    """

    name: str
    counter: Index
    count: Index


@dataclass(frozen=True, slots=True)
class BeginCluster:
    """The arrival half of a cluster barrier: signals that this group has started."""


@dataclass(frozen=True, slots=True)
class AwaitCluster:
    """The waiting half of a cluster barrier: all groups have started, and local memory exists."""


@dataclass(frozen=True, slots=True)
class ClusterLeaderPointer:
    """Declares a pointer to an array in the local memory of the cluster's first group."""

    name: str
    buffer: str
    memory: np.dtype


@dataclass(frozen=True, slots=True)
class ClusterArrive:
    """Declares an index variable: 1 in the cluster's first group, else 0.

    That group waits until all have come here, and sees what they wrote to its local memory.
    """

    name: str
    number: Index


@dataclass(frozen=True, slots=True)
class WarpShuffle:
    """A warp shuffle: declares `refs` as the `values` of another work-item of the warp.

    That is the one `lane` further ("down") or before ("up"), or the `lane`-th ("from") of each
    `width` work-items; where they have none such, what is declared means nothing. All `items`
    work-items of the group take part. Languages without warps do it by local memory: `buffers` are
    arrays that have an element for each work-item at `offsets`.
    """

    kind: str
    lane: int
    refs: tuple[Ref, ...]
    values: tuple[Ref, ...]
    items: int
    buffers: tuple[str, ...]
    offsets: tuple[int, ...]
    width: int = 32


@dataclass(frozen=True, slots=True)
class Post:
    """Publishes values to other groups, from a word of the counters on.

    Each four bytes are written together with the launch's number and `state`, which is 1, 2 or 3.
    """

    word: Index
    state: int
    values: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Await:
    """Waits for values that another group publishes; declares them and their state."""

    state: str
    word: Index
    refs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """Rows, or columns, along a reduction in a tile of floats in local memory.

    They come in groups of 8, `across` elements apart, groups at `offsets` from `start`; elements
    of the reduction are `along` apart. One of the two is 1, the other a multiple of 16 bytes. What
    is float32 is multiplied as tf32.
    """

    buffer: str
    start: Index
    across: int
    along: int
    offsets: tuple[int, ...]
    memory: np.dtype = F16


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A matrix product of a warp: rows times columns, added to its work-items' accumulators.

    These are float64 where rows and columns are, else float32. `depth` elements of the reduction
    are multiplied: 32 bytes of a row, of float64 up to 128. Work-item `lane` holds, of group m of
    rows and group n of columns, row lane / 4 and the columns 2 * (lane % 4) and one more:
    `accumulators[m][n]`. Groups of rows come in pairs.
    """

    rows: MatrixOperand
    columns: MatrixOperand
    accumulators: tuple[tuple[tuple[Ref, Ref], ...], ...]
    depth: int


GroupStatement = (
    Barrier
    | MemoryBarrier
    | CopyAsync
    | CommitCopies
    | AwaitCopies
    | CopyOut
    | ProxyFence
    | AwaitCopiesOut
    | Atomic
    | Arrive
    | BeginCluster
    | AwaitCluster
    | ClusterLeaderPointer
    | ClusterArrive
    | WarpShuffle
    | Post
    | Await
    | MatrixProduct
)
