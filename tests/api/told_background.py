"""Background work of tests: done when a test tells it to be, in the thread that tells."""

from __future__ import annotations

import contextvars
import weakref
from queue import SimpleQueue
from typing import Any, ClassVar

from mdtensor.api.engine.background_worker import Background, Work


class ToldBackground(Background[Work]):
    """A queue without a thread: `settle` does what waits, in order, and what that asks for."""

    _made: ClassVar[weakref.WeakSet[ToldBackground[Any]]] = weakref.WeakSet()

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._made.add(self)

    def _begin(self) -> None:
        pass

    def _is_settled(self) -> bool:
        return not self._waiting

    def settle(self, timeout: float) -> None:
        """Does all that waits; nothing where there is no time. What it raises goes to the test."""
        while timeout > 0 and not self._is_closing:
            # As in a thread of its own, nothing is set for the context.
            if not contextvars.Context().run(self._do_next):
                return

    @classmethod
    def forget(cls) -> None:
        """Nothing waits any more."""
        for each in cls._made:
            each._waiting, each._asked = {}, SimpleQueue()
