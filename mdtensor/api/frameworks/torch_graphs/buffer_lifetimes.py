"""Buffer assignment in a graph: results share memory if their lifetimes are disjoint."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The lifetime of a result: its spec, the step that writes it, and its last reader."""

    result: Hashable
    spec: TensorSpec
    begin: int
    end: int


def numbered_buffers(lifetimes: Sequence[Lifetime]) -> Mapping[Hashable, int]:
    """The buffer number of each result, in order of their begins.

    Results of one spec have the same buffer where one is read for the last time before the other
    is written.

    >>> spec = TensorSpec.of((2,))
    >>> found = numbered_buffers([Lifetime(n, spec, n, n + 1) for n in range(4)])
    >>> list(found.values())
    [0, 1, 0, 1]
    """
    free: dict[TensorSpec, list[tuple[int, int]]] = {}
    found: dict[Hashable, int] = {}
    count = 0
    for lifetime in sorted(lifetimes, key=lambda each: each.begin):
        known = free.setdefault(lifetime.spec, [])
        place = next((n for n, (end, _) in enumerate(known) if end < lifetime.begin), None)
        if place is None:
            number, count = count, count + 1
        else:
            _, number = known.pop(place)
        found[lifetime.result] = number
        known.append((lifetime.end, number))
    return found


def reach(start: Hashable, aliases: Mapping[Hashable, Collection[Hashable]]) -> list[Hashable]:
    """A value and its transitive aliases, given the possible aliases of each value."""
    found = [start]
    for each in found:
        found += [other for other in aliases.get(each, ()) if other not in found]
    return found
