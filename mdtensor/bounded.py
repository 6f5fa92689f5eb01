"""Bounded dicts, used as caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Bounded(dict[Key, Value]):
    """A dict of at most `most` entries: when full, `keep` evicts the oldest quarter.

    Reads are a dict's own and cost what these cost; they make nothing younger. Safe for threads.

    >>> squares = Bounded[int, int](4)
    >>> for n in range(6):
    ...     squares.keep(n, n * n)
    >>> squares
    {2: 4, 3: 9, 4: 16, 5: 25}
    """

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: Key, value: Value) -> None:
        """Adds or replaces an entry."""
        if len(self) >= self.most and key not in self:
            # As a list, which other threads do not change; one of them may be faster.
            for oldest in list(self)[: -(-self.most // 4)]:
                self.pop(oldest, None)
        self[key] = value

    def made(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of a key; a missing (or None) one is made by `make` and kept."""
        found = self.get(key)
        if found is None:
            self.keep(key, found := make())
        return found


def pairs_of(table: Mapping[Key, Value]) -> list[tuple[Key, Value]]:
    """A snapshot of a dict that other threads may change meanwhile, without values that are None.

    `list(table.items())` makes a tuple of each entry, and with any of these the garbage collector
    may begin, whose callbacks let other threads run.

    >>> pairs_of({"a": 1, "b": 2})
    [('a', 1), ('b', 2)]
    """
    found = [(key, table.get(key)) for key in list(table)]
    return [(key, value) for key, value in found if value is not None]
