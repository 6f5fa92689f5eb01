"""Reuse of another library's OpenMP threads in this process.

Two pools with as many threads as there are cores wait for each other: threads of either spin for a
while when their work is done, and what the other pool begins then has to share their cores. So
kernels run on the other library's threads, where that is known to compute between them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

# `void GOMP_parallel(void (*run)(void *), void *data, unsigned threads, unsigned flags)` runs a
# function in all threads of a team. GNU's runtime has it; Intel's and LLVM's have it for programs
# that GCC compiled.
_PARALLEL = "GOMP_parallel"

# What is told where such a function lies, by devices whose kernels can run on a team.
_listeners: list[Callable[[int], object]] = []
_found = 0


def when_shared(listener: Callable[[int], object]) -> None:
    """Register a listener for the address of GOMP_parallel, called now or once it is found."""
    _listeners.append(listener)
    if _found:
        listener(_found)


def parallel_of_torch() -> int:
    """The address of GOMP_parallel in the runtime that torch is linked with; 0 if none is."""
    for place in getattr(sys.modules.get("torch"), "__path__", ()):
        library = Path(place, "lib", "libtorch_cpu.so")
        try:
            loaded = ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            return ctypes.cast(getattr(loaded, _PARALLEL), ctypes.c_void_p).value or 0
        except (OSError, AttributeError):  # not loaded, or without OpenMP
            continue
    return 0


def share_threads_of_torch() -> None:
    """Run kernels on torch's threads, if torch computes by OpenMP."""
    global _found
    if not _found and (found := parallel_of_torch()):
        _found = found
        for listener in _listeners:
            listener(found)
