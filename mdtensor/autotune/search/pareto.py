"""The Pareto front of measured points: those that no other point dominates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def pareto_front(points: Iterable[T], costs_of: Callable[[T], Sequence[float]]) -> list[T]:
    """The points that none dominates, that is, no dearer by any cost and cheaper by one.

    In the order of their costs; of points with equal costs, the first.

    >>> pareto_front([(3, 1), (1, 3), (2, 2), (3, 3), (2, 2.5)], lambda point: point)
    [(1, 3), (2, 2), (3, 1)]
    """
    front: list[T] = []
    # In this order whatever dominates a point comes before it.
    for point in sorted(points, key=lambda point: tuple(costs_of(point))):
        costs = costs_of(point)
        if not any(_is_no_dearer(costs_of(other), costs) for other in front):
            front.append(point)
    return front


def _is_no_dearer(costs: Sequence[float], others: Sequence[float]) -> bool:
    return all(one <= other for one, other in zip(costs, others, strict=True))
