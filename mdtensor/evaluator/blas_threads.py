"""The number of OpenBLAS' threads: one fewer in products beside a compiler that is at work.

These threads wait for each other awake. Where one has to share its core, even with a process of the
lowest priority, a product takes six times as long; with a thread less it takes twice as long on two
cores, and hardly longer on many.
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


@contextmanager
def leaving_a_core() -> Generator[None]:
    """Context manager within which OpenBLAS has a thread less, while a compiler is at work.

    For one thread at a time.
    """
    library = _library() if is_compiling() else None
    if library is None:
        yield
        return
    get, put = library
    before = get()
    fewer = max(1, before - 1)
    try:
        put(fewer)
        yield
    finally:
        if get() == fewer:  # else somebody has set it meanwhile
            put(before)


@cache
def _library() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """What reads and sets the threads of the OpenBLAS of NumPy's wheel; None for other builds."""
    folder = Path(np.__file__).parent.with_name("numpy.libs")
    for path in folder.glob("*openblas*"):
        library = ctypes.CDLL(str(path))
        for name in _NAMES:
            if hasattr(library, name.format("set")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None
