"""The thread count of OpenBLAS: one for small products, one fewer while a compiler runs.

OpenBLAS' threads busy-wait for each other. Where one has to share its core, even with a process of
the lowest priority, a product takes six times as long; with a thread less it takes twice as long on
two cores, and hardly longer on many. They stay awake behind a product, too: kernels among small
products took twice as long.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from mdtensor.precedence import is_compiling

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads")


# Multiplications of a product that one thread does in less than 0.2 ms.
SMALL = 1 << 23


@contextmanager
def threads_for(multiplications: int) -> Generator[None]:
    """A context manager that sets OpenBLAS' thread count for a product of matrices.

    For one thread at a time.
    """
    is_small = multiplications <= SMALL
    library = _library() if is_small or is_compiling() else None
    if library is None:
        yield
        return
    get, put = library
    before = get()
    fewer = 1 if is_small else max(1, before - 1)
    try:
        put(fewer)
        yield
    finally:
        if get() == fewer:  # else somebody has set it meanwhile
            put(before)


@cache
def _library() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """The getter and setter of the thread count of NumPy's bundled OpenBLAS; None without one."""
    folder = Path(np.__file__).parent.with_name("numpy.libs")
    for path in folder.glob("*openblas*"):
        library = ctypes.CDLL(str(path))
        for name in _NAMES:
            if hasattr(library, name.format("set")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None
