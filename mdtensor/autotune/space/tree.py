"""Constrained parameters as a forest with shared sub-trees: equal ones are one node.

The chain of trees of 002, section 5.4, taken two steps further. What lies below a node depends
only on the earlier values to which later parameters still refer, so a node is built once per
combination of *those*. And parameters that no longer refer to each other, once the values above
them are chosen, are independent there just as whole groups are at the root: their sub-trees stand
side by side and their counts multiply. Counting and indexing stay exact; a joint constraint over
the tiles of several dims costs the combinations of those tiles, not of all that hangs on them.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from random import Random
from typing import TypeAlias

from mdtensor.autotune.space.levels import Level
from mdtensor.dataclass import dataclass
from mdtensor.errors import SpaceError
from mdtensor.lower.schedule.parameter import Value

# Bounds one repair to some milliseconds; past it a near configuration stands in for the nearest.
REPAIR_WORK = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class SpaceNode:
    """A parameter's feasible values at one node, each with configurations below it."""

    level: Level
    values: tuple[Value, ...]
    below: tuple[tuple[SpaceNode, ...], ...]  # per value: the independent sub-trees
    ends: tuple[int, ...]  # configurations under the first value, the first two, …
    leaves: int


def _leaf(level: Level, values: tuple[Value, ...]) -> SpaceNode:
    count = len(values)
    return SpaceNode(level, values, ((),) * count, tuple(range(1, count + 1)), count)


_Path: TypeAlias = "tuple[str, Value, _Path] | None"
_Step: TypeAlias = "tuple[float, int, float, int, tuple[SpaceNode, ...], _Path]"


@dataclass(slots=True)
class _Census:
    """The nodes of one level, by the values of its `kept` parameters."""

    nodes: dict[tuple[Value, ...], SpaceNode] = field(
        default_factory=dict[tuple[Value, ...], SpaceNode]
    )

    def live(self) -> list[SpaceNode]:
        return [node for node in self.nodes.values() if node.leaves]


class Forest:
    """All valid configurations, as trees with shared nodes, one per independent group.

    `domains` has, per parameter, the values that some valid configuration has; `free` the names
    of those that are ever a choice (a derived quantity is not, and changes with its sources).
    """

    def __init__(
        self,
        levels: Sequence[Level],
        *,
        node_limit: int,
        on_node: Callable[[], None] = lambda: None,
    ) -> None:
        self._built: dict[str, _Census] = {}
        self._node_limit, self._on_node = node_limit, on_node
        self.node_count = 0
        self.roots = tuple(self._build(level, {}) for level in levels)
        self.size = math.prod(root.leaves for root in self.roots)
        self.domains: dict[str, tuple[Value, ...]] = {}
        self.free: set[str] = set()
        for name, census in self._built.items():
            nodes = census.live()
            if nodes:
                self.domains[name] = _domain(nodes)
            if any(len(node.values) > 1 for node in nodes):
                self.free.add(name)
        self._built = {}

    def _build(self, level: Level, chosen: dict[str, Value]) -> SpaceNode:
        census = self._built.get(level.name)
        if census is None:
            census = self._built[level.name] = _Census()
        key = tuple([chosen[name] for name in level.kept])
        found = census.nodes.get(key)
        if found is not None:
            return found
        self._count_node(level)
        if not level.below:
            node = census.nodes[key] = _leaf(level, level.values_allowed(chosen))
            return node
        values: list[Value] = []
        below: list[tuple[SpaceNode, ...]] = []
        counts: list[int] = []
        for value in level.values_allowed(chosen):
            chosen[level.name] = value
            children: list[SpaceNode] = []
            count = 1
            for each in level.below:
                child = self._build(each, chosen)
                count *= child.leaves
                if not count:
                    break
                children.append(child)
            if count:
                values.append(value)
                below.append(tuple(children))
                counts.append(count)
        chosen.pop(level.name, None)
        ends = tuple(accumulate(counts))
        node = SpaceNode(level, tuple(values), tuple(below), ends, ends[-1] if ends else 0)
        census.nodes[key] = node
        return node

    def _count_node(self, level: Level) -> None:
        self.node_count += 1
        self._on_node()
        if self.node_count > self._node_limit:
            raise SpaceError(
                f"more than {self._node_limit} different sub-trees, at parameter {level.name!r}, "
                f"which with what hangs on it depends on {', '.join(level.kept)}",
                hint="declare what the constraints need of them as one derived parameter",
            )

    def at(self, index: int) -> dict[str, Value]:
        """The configuration at an index below `size`."""
        chosen: dict[str, Value] = {}
        self._fill(chosen, self.roots, index)
        return chosen

    def _fill(self, chosen: dict[str, Value], nodes: Sequence[SpaceNode], index: int) -> None:
        for node in nodes:
            index, within = divmod(index, node.leaves)
            rank = bisect_right(node.ends, within)
            chosen[node.level.name] = node.values[rank]
            if node.below[rank]:
                self._fill(chosen, node.below[rank], within - (node.ends[rank - 1] if rank else 0))

    def index(self, chosen: Mapping[str, Value]) -> int:
        """The index of a valid configuration; `ValueError` or `KeyError` for an invalid one."""
        return self._position(chosen, self.roots)

    def _position(self, chosen: Mapping[str, Value], nodes: Sequence[SpaceNode]) -> int:
        index = 0
        for node in reversed(nodes):
            rank = node.values.index(chosen[node.level.name])
            within = node.ends[rank - 1] if rank else 0
            if node.below[rank]:
                within += self._position(chosen, node.below[rank])
            index = index * node.leaves + within
        return index

    def from_coordinates(self, coordinates: Mapping[str, float]) -> dict[str, Value]:
        """Map a point of the unit cube to the configuration in whose block it lies (002, 5.5)."""
        chosen: dict[str, Value] = {}
        pending = list(self.roots)
        while pending:
            node = pending.pop()
            position = max(coordinates[node.level.name], 0.0)
            rank = min(int(position * len(node.values)), len(node.values) - 1)
            chosen[node.level.name] = node.values[rank]
            pending += node.below[rank]
        return chosen

    def to_coordinates(self, chosen: Mapping[str, Value]) -> dict[str, float]:
        """The middle of a valid configuration's block in the unit cube."""
        coordinates: dict[str, float] = {}
        pending = list(self.roots)
        while pending:
            node = pending.pop()
            rank = node.values.index(chosen[node.level.name])
            coordinates[node.level.name] = (rank + 0.5) / len(node.values)
            pending += node.below[rank]
        return coordinates

    def nearest(
        self, wanted: Mapping[str, Value], pinned: Mapping[str, Value], rng: Random
    ) -> dict[str, Value] | None:
        """Find the valid configuration with the pinned values that changes `wanted` least.

        Cheapest first over what is still to be chosen, ties broken by chance. `None` if no
        configuration has all pinned values; where that takes too long to tell, one that may lack
        some.
        """
        queue: list[_Step] = [(0.0, 0, 0.0, -1, self.roots, None)]
        done: set[tuple[SpaceNode, ...]] = set()
        deepest = queue[0]
        work = 0
        while queue and work < REPAIR_WORK:
            step = heapq.heappop(queue)
            cost, depth, _, _, pending, path = step
            if not pending:
                return _unrolled(path)
            if pending in done:
                continue
            done.add(pending)
            deepest = min(deepest, step, key=lambda each: each[1])
            node, rest = pending[-1], pending[:-1]
            for change, rank in self._changes(node, wanted, pinned):
                after = (node.level.name, node.values[rank], path)
                left = rest + node.below[rank]
                order = (cost + change, depth - 1, rng.random(), work)
                heapq.heappush(queue, (*order, left, after))
                work += 1
        return self._greedy(deepest, wanted) if queue else None

    def _changes(
        self, node: SpaceNode, wanted: Mapping[str, Value], pinned: Mapping[str, Value]
    ) -> list[tuple[float, int]]:
        """The ranks of a node's values, each with the cost of changing to it."""
        name = node.level.name
        if name in pinned:
            return [(0.0, at) for at, value in enumerate(node.values) if value == pinned[name]]
        if name not in wanted or name not in self.free:
            return [(0.0, at) for at in range(len(node.values))]
        old = wanted[name]
        return [(change_cost(old, value), at) for at, value in enumerate(node.values)]

    def _greedy(self, step: _Step, wanted: Mapping[str, Value]) -> dict[str, Value]:
        *_, pending, path = step
        while pending:
            node, rest = pending[-1], pending[:-1]
            rank = min(self._changes(node, wanted, {}))[1]
            path = (node.level.name, node.values[rank], path)
            pending = rest + node.below[rank]
        return _unrolled(path)


def _unrolled(path: _Path) -> dict[str, Value]:
    chosen: dict[str, Value] = {}
    while path is not None:
        name, value, path = path
        chosen[name] = value
    return chosen


def change_cost(old: Value, new: Value) -> float:
    """The distance of two values: 0 if equal, 1 + doublings for integers, else 2.

    Every change costs at least one, so that few changes are nearer than many small ones.

    >>> change_cost(8, 8), change_cost(7, 31), change_cost("row", "column")
    (0.0, 3.0, 2.0)
    """
    if old == new:
        return 0.0
    if isinstance(old, int) and isinstance(new, int):
        return 1.0 + abs(math.log2((abs(old) + 1) / (abs(new) + 1)))
    return 2.0


def _domain(nodes: Iterable[SpaceNode]) -> tuple[Value, ...]:
    seen: dict[Value, None] = {}
    for node in nodes:
        seen |= dict.fromkeys(node.values)
    values = next(iter(nodes)).level.parameter.values
    if not callable(values):
        return tuple(value for value in values if value in seen)
    numbers = [value for value in seen if isinstance(value, int)]
    return tuple(sorted(numbers)) if len(numbers) == len(seen) else tuple(seen)
