"""Streams of other libraries, and allocation while a stream is captured."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

from mdtensor.dataclass import dataclass

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream handle with the `__cuda_stream__` protocol."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def stream_at(cupy: Any, handle: int) -> Any:
    """Wrap a stream handle of the current device for CuPy, as a context manager."""
    # Older versions know no protocol.
    from_external = getattr(cupy.cuda.Stream, "from_external", None)
    if from_external is None:
        return cupy.cuda.ExternalStream(handle)
    return from_external(_Stream(handle))


@contextmanager
def beside_captures() -> Generator[None]:
    """Context manager in which a thread may load code and allocate during a capture.

    While somebody records a graph the driver refuses that otherwise, though it is no part of it.
    """
    exchange, mode = _exchange_mode(), ctypes.c_int(_RELAXED)
    is_exchanged = not exchange(ctypes.byref(mode))
    try:
        yield
    finally:
        if is_exchanged:
            exchange(ctypes.byref(mode))


@cache
def _exchange_mode() -> Callable[[Any], int]:
    """The driver's cuThreadExchangeStreamCaptureMode, or a stub that fails with 1."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(library).cuThreadExchangeStreamCaptureMode
    except (OSError, AttributeError):
        return lambda _: 1
