"""Chains on blocks of rows as one kernel: rests, what is private, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.chain_program import chain_program_of
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.opencl import OPENCL
from mdtensor.lower.schedule.chain_schedule import ChainSchedule
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.search.chain_candidates import RowChain, row_chain
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom_program import Step
from tests.lower import fuzz

RNG = np.random.default_rng(4)
X, Y, Z = (RNG.random(shape) for shape in ((3, 10, 7), (3, 7, 5), (5, 4)))


def products() -> RowChain:
    """Two products: arrays 0, 1 and 2 are read, 3 is the result, 4 lies between."""

    first = md_hom_from_einsum("bij,bjk->bik", [TensorSpec.of(a.shape, a.dtype) for a in (X, Y)])
    second = md_hom_from_einsum(
        "bik,kl->bil", [TensorSpec.of((3, 10, 5), X.dtype), TensorSpec.of(Z.shape, Z.dtype)]
    )
    return row_chain((Step(first, (0, 1), (4,)), Step(second, (4, 2), (3,))), (4,))


def by_rows(
    lengths: tuple[int, ...], groups: int = 2, parts: int = 1, *, inside: bool = False
) -> KernelSource:
    made = products().on_blocks(lengths, fuzz.device().target, rows_inside=inside)

    steps = [plain(problem) for problem, _ in made.steps]
    steps[0] = replace(steps[0], parts=(parts, *steps[0].parts[1:]))
    rest = tuple(plain(problem) for problem, _ in made.rest)
    schedule = ChainSchedule(lengths, groups, tuple(steps), rest, inside)
    return chain_program_of(
        made.steps, made.rest, schedule, made.blocks.extents, (0, 1, 2, 3), made.between, OPENCL
    )


@pytest.mark.sampled(24)
@pytest.mark.parametrize("lengths", [(1, 1), (1, 4), (1, 5), (1, 10), (2, 10), (3, 10)], ids=str)
@pytest.mark.parametrize("groups", [1, 4, 30])
@pytest.mark.parametrize("inside", [False, True], ids=["rows", "inside"])
def test_blocks_of_any_length_compute_the_same(
    lengths: tuple[int, ...], groups: int, inside: bool
) -> None:
    result = np.full((3, 10, 4), np.nan)
    fuzz.device().compile(by_rows(lengths, groups, inside=inside))(X, Y, Z, result)
    np.testing.assert_allclose(result, X @ Y @ Z, rtol=1e-12)


def test_each_group_has_what_lies_between_for_one_block() -> None:
    (entry,) = by_rows((1, 4)).entries
    assert entry.groups.constant == 2
    assert entry.scratch.constant == 2 * 192  # 4 rows of 5 doubles, in whole lines


def test_a_result_lies_in_the_place_of_what_its_kernel_reads_for_the_last_time() -> None:
    """Cubes lie where squares did, unless tiles overlap."""
    target = fuzz.device().target
    spec = TensorSpec.of(X.shape, X.dtype)
    product = md_hom_from_einsum("bij,bij->bij", [spec, spec])
    last = md_hom_from_einsum("bij->bi", [spec])
    steps = Step(product, (0, 0), (2,)), Step(product, (0, 2), (3,)), Step(last, (3,), (1,))
    chain = row_chain(steps, (2, 3))
    for lengths in (1, 5), (1, 4):
        made = chain.on_blocks(lengths, target)
        for tail, places in ("split", 1), ("overlap", 2):
            parts, rest = (
                tuple(replace(plain(problem), tail=tail) for problem, _ in each)
                for each in (made.steps, made.rest)
            )
            source = chain_program_of(
                made.steps,
                made.rest,
                ChainSchedule(lengths, 2, parts, rest),
                made.blocks.extents,
                (0, 1),
                made.between,
                OPENCL,
            )
            (entry,) = source.entries
            assert entry.scratch.constant == 2 * places * -(-lengths[1] * 7 * 8 // 64) * 64
            result = np.full((3, 10), np.nan)
            fuzz.device().compile(source)(X, result)
            np.testing.assert_allclose(result, (X**3).sum(-1), rtol=1e-12)


def test_neighbouring_rows_are_neighbours_in_what_lies_between() -> None:
    """Lanes may run along them then."""
    for inside, expected in (False, {"i": 5, "k": 1}), (True, {"i": 1, "k": 5}):
        made = products().on_blocks((1, 5), fuzz.device().target, rows_inside=inside)
        problem, _ = made.steps[0]
        steps = dict(zip(problem.labels, problem.writes[0].strides, strict=True))
        assert {label: steps[label].constant for label in "ik"} == expected


def test_several_rests_and_several_groups_of_a_step_are_refused() -> None:
    with pytest.raises(LoweringError, match="several rests"):
        by_rows((2, 3))
    with pytest.raises(LoweringError, match="joined"):
        by_rows((1, 4), parts=2)


def test_rows_are_those_that_all_share() -> None:
    first, second = products().chain
    assert [row.dims for row in products().rows] == [("b", "b"), ("i", "i")]
    turned = md_hom_from_einsum("bik->bki", [TensorSpec.of((3, 10, 5), X.dtype)])
    summed = md_hom_from_einsum("bik->", [TensorSpec.of((3, 10, 5), X.dtype)])
    only = row_chain((first, Step(turned, (4,), (3,))), (4,))
    assert [row.dims for row in only.rows] == [("b", "b"), ("k", "k"), ("i", "i")]
    assert not row_chain((first, Step(summed, (4,), (3,))), (4,)).rows
    assert not row_chain((first, second), ()).rows
