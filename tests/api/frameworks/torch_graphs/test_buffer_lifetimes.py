"""Results that share a buffer are never needed at the same time."""

from __future__ import annotations

import itertools
import random

from mdtensor.api.frameworks.torch_graphs.buffer_lifetimes import Lifetime, numbered_buffers, reach
from mdtensor.specs import TensorSpec


def test_results_that_share_a_buffer_do_not_meet() -> None:
    chance = random.Random(7)
    specs = [TensorSpec.of((2,)), TensorSpec.of((3,)), TensorSpec.of((2,), "f8")]
    for _ in range(50):
        lifetimes = [
            Lifetime(n, chance.choice(specs), n, n + chance.randint(1, 6)) for n in range(20)
        ]
        found = numbered_buffers(lifetimes)
        assert set(found) == set(range(20))
        for one, other in itertools.combinations(lifetimes, 2):
            if found[one.result] == found[other.result]:
                assert one.spec == other.spec
                assert one.end < other.begin or other.end < one.begin


def test_what_may_lie_in_a_results_memory() -> None:
    assert reach(1, {1: [2, 3], 2: [4], 4: [1], 5: [6]}) == [1, 2, 3, 4]
