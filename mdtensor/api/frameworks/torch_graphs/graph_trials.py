"""Trials of a graph: by each step's own choice, all by mdtensor, or all by torch.

Two libraries that take turns wait for each other's threads, which nobody sees in the time of one
step. So whole graphs are timed as well, on the calls that the program makes anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

WAYS: Sequence[bool | None] = (None, True, False)
"""Each step by its own choice, all by our kernels, all by torch."""
_ROW, _ROWS = 4, 2  # calls in a row by one way, of which the first is not counted, and rows of each


class GraphTrials:
    """The choice of how a graph runs, from the times of its calls.

    >>> trials = GraphTrials()
    >>> for _ in range(24):
    ...     trials.took(trials.way, 2.0 if trials.way is None else 1.0)
    >>> trials.is_over, trials.way
    (True, True)
    """

    def __init__(self) -> None:
        self._calls = 0
        self.seconds: dict[bool | None, float] = {}

    @property
    def is_over(self) -> bool:
        """Whether the trials are complete."""
        return self._calls >= _ROW * _ROWS * len(WAYS)

    @property
    def way(self) -> bool | None:
        """The way of the next call: the next to be timed, or the fastest."""
        if self.is_over:
            return min(WAYS, key=lambda way: self.seconds[way])
        return WAYS[self._calls // _ROW % len(WAYS)]

    def took(self, way: bool | None, seconds: float) -> None:
        """Records the seconds of a call by a way, of which the minimum counts."""
        if self._calls % _ROW:
            self.seconds[way] = min(seconds, self.seconds.get(way, seconds))
        self._calls += 1

    def begin_again(self) -> None:
        """Restarts the trials, since kernels have changed."""
        self._calls = 0
        self.seconds = {}
