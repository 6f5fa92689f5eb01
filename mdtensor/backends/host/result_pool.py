"""The process's memory pool, and its bound."""

from __future__ import annotations

import atexit
import os
from pathlib import Path

from mdtensor.backends.host.memory_pool import MemoryPool
from mdtensor.byte_counts import bytes_of
from mdtensor.forks import keep_over_forks

VARIABLE = "MDTENSOR_POOL"
_PART = 8  # of the memory that the process may use
_UNKNOWN = 4 << 30  # bytes of memory where the system does not tell
_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of control groups, version 2 and 1


class PoolBound:
    """The bound on pooled bytes: as set, else MDTENSOR_POOL, else 1/8 of memory.

    Raises MemoryLimitError where the variable is no number of bytes.
    """

    def __init__(self) -> None:
        self._bytes: int | None = None

    def __call__(self) -> int:
        """The bound, in bytes."""
        if self._bytes is None:
            said = os.environ.get(VARIABLE, "")
            self._bytes = bytes_of(said, VARIABLE, 0) if said else usable_memory(_CGROUP) // _PART
        return self._bytes

    def set(self, nbytes: int) -> None:
        """Set the bound in bytes; 0 turns the pool off."""
        self._bytes = nbytes


def usable_memory(group: Path) -> int:
    """Bytes of memory of the machine, or of the process's control group if fewer."""
    found = [_physical()]
    for limit in _LIMITS:
        try:
            found.append(int((group / limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return min(found)


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN


BOUND = PoolBound()
POOL = MemoryPool(BOUND)
# The child of a fork would wait forever for what another thread was about to change.
keep_over_forks(POOL.lock)
atexit.register(POOL.close)
