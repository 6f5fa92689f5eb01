"""The Pareto front, beside its definition."""

from __future__ import annotations

import random

import pytest

from mdtensor.autotune.search.pareto import pareto_front


@pytest.mark.parametrize("seed", range(20))
def test_a_front_is_what_the_definition_says(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 4)
    points = [tuple(rng.randrange(6) for _ in range(count)) for _ in range(rng.randrange(30))]

    def is_dominated(point: tuple[int, ...]) -> bool:
        return any(
            all(one <= two for one, two in zip(other, point, strict=True)) and other != point
            for other in points
        )

    front = pareto_front(points, lambda point: point)
    assert front == sorted({point for point in points if not is_dominated(point)})
