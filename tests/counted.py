"""Work that is counted instead of timed."""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import Self


class Counted:
    """Counts the calls of functions, of Python's and of C's, that this thread makes in a block.

    Where there are more than `most`, the block ends with an AssertionError, so that work without
    end fails as well.
    """

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.steps = 0

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        self._check()

    def _note(self, _: FrameType, event: str, __: object) -> None:
        self.steps += event in ("call", "c_call")
        if self.steps > self.most:
            sys.setprofile(None)
            self._check()

    def _check(self) -> None:
        assert self.steps <= self.most, f"more than {self.most} calls"
