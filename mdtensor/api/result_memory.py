"""`memory`: the pool of memory for results."""

from __future__ import annotations

from typing import Any

from mdtensor.backends.host.memory_pool import Memory
from mdtensor.backends.host.result_pool import BOUND, POOL
from mdtensor.byte_counts import bytes_of
from mdtensor.options import flag


def memory(*, free: bool = False, bound: int | str | None = None) -> Memory:
    """The memory of large results that are NumPy arrays, and the pool that it is recycled in.

    Memory of results of 1 MB and more is recycled once no array reads it. `free` gives all that is
    pooled back to the system. `bound`, such as "2GB", is the most that may be pooled from now on; 0
    has every result lie in new memory. Before it is given, the environment variable MDTENSOR_POOL
    says it, else an eighth of the memory that the process may use.

    Raises MemoryLimitError for a bound that is no number of bytes.

    >>> import numpy as np
    >>> import mdtensor
    >>> _ = mdtensor.memory(free=True)
    >>> square = mdtensor.einsum("ij,jk->ik", np.ones((512, 4)), np.ones((4, 512)))
    >>> mdtensor.memory().live >= square.nbytes
    True
    >>> del square
    >>> mdtensor.memory().pooled >= 512 * 512 * 8
    True
    >>> mdtensor.memory(free=True).pooled
    0
    """
    is_freed = flag("free", free)
    given: Any = bound
    if given is not None:
        BOUND.set(bytes_of(given, "bound", 0))
        POOL.trim(float("inf"))
    if is_freed:
        POOL.free()
    return POOL.now()
