"""Which dim is cut, and where."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.multi_device.shares import Link, edges_by_rates, shares_of
from tests.api.multi_device.pools import computation_of


def cut(text: str, *shapes: tuple[int, ...], rates: tuple[float, ...] = (1.0, 1.0)) -> str:
    arrays = [np.zeros(shape) for shape in shapes]
    planned, _ = computation_of(lambda *given: mdt.einsum(text, *given), arrays)
    return "; ".join(repr(shares_of(step.md_hom, rates)) for step in planned.steps)


@pytest.mark.parametrize(
    ("text", "shapes", "expected"),
    [
        # the dim of the larger operand, of which each device reads its part
        ("ij,jk->ik", [(512, 64), (64, 48)], "i: 0:256 on 0, 256:512 on 1"),
        ("ij,jk->ik", [(3, 640), (640, 512)], "k: 0:256 on 0, 256:512 on 1"),
        # the sum, where operands are much larger than the result
        ("ij,jk->ik", [(4, 4096), (4096, 4)], "j: 0:2048 on 0, 2048:4096 on 1"),
        ("i,i->", [(1024,), (1024,)], "i: 0:512 on 0, 512:1024 on 1"),
        # a batch, which both operands have
        ("bij,bjk->bik", [(8, 32, 32), (8, 32, 32)], "b: 0:4 on 0, 4:8 on 1"),
        # but not one that cannot be halved
        ("bij,bjk->bik", [(3, 512, 32), (3, 32, 8)], "i: 0:256 on 0, 256:512 on 1"),
        # long runs of memory, where bytes are the same
        ("ij->ij", [(512, 512)], "i: 0:256 on 0, 256:512 on 1"),
        # nothing to cut
        ("ij->ij", [(1, 1)], "whole on 0"),
    ],
)
def test_the_dim_that_is_cut(text: str, shapes: list[tuple[int, ...]], expected: str) -> None:
    assert cut(text, *shapes) == expected


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (1e15, "i: 0:512 on 0, 512:1024 on 1"),
        # 10 MB are read and written there for half of the indices
        (24e6, "i: 0:640 on 0, 640:1024 on 1"),
        (1e6, "whole on 0"),
    ],
)
def test_a_slow_link_leaves_more_at_home(rate: float, expected: str) -> None:
    arrays = [np.zeros((1024, 1024)), np.zeros((1024, 512))]
    planned, _ = computation_of(lambda a, b: mdt.einsum("ij,jk->ik", a, b), arrays)
    (step,) = planned.steps
    found = shares_of(step.md_hom, (1.0, 1.0), None, 0, Link(1.0, rate))
    assert repr(found) == expected
    # where operands lie on a device that computes nothing, all of them go over links
    assert repr(shares_of(step.md_hom, (1.0, 1.0), None, 2, Link(1.0, rate))).endswith("on 1")


def test_chains_are_cut_step_by_step() -> None:
    said = cut("ij,jk,kl->il", (16, 512), (512, 512), (512, 16))
    assert said.count("on 1") == 2


@pytest.mark.parametrize("seed", range(20))
def test_edges_leave_no_index_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    extent = int(rng.integers(2, 3000))
    rates = tuple(rng.uniform(0.1, 5, int(rng.integers(1, 9))).tolist())
    edges, devices = edges_by_rates(extent, rates)
    assert edges[0] == 0
    assert edges[-1] == extent
    assert all(low < high for low, high in pairwise(edges))
    assert sorted(set(devices)) == list(devices)
    assert len(devices) == len(edges) - 1
    if extent > 1000:
        shares = np.diff(edges) / extent
        ideal = np.array(rates)[list(devices)] / sum(rates)
        np.testing.assert_allclose(shares, ideal, atol=0.07)
