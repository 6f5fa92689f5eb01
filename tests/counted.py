"""Work that is counted instead of timed."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Self


@contextmanager
def no_collections() -> Iterator[None]:
    """Collects no garbage in a block: that of other tests ends by calls, which would count."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Counted:
    """Counts the calls of functions, of Python's and of C's, that this thread makes in a block.

    Where there are more than `most`, the block ends with an AssertionError, so that work without
    end fails as well.
    """

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.steps = 0

    def __enter__(self) -> Self:
        self._within = ExitStack()
        self._within.enter_context(no_collections())
        self._within.callback(sys.setprofile, sys.getprofile())
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._within.close()
        self._check()

    def _note(self, _: FrameType, event: str, __: object) -> None:
        self.steps += event in ("call", "c_call")
        if self.steps > self.most:
            sys.setprofile(None)
            self._check()

    def _check(self) -> None:
        assert self.steps <= self.most, f"more than {self.most} calls"
