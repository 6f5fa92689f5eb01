"""Tiles that begin early: what is combined with them, and which do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.codegen.base.staged_layouts import layouts_of
from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.kernel_cases import Case, einsum, gpu, matmul
from tests.lower import fuzz
from tests.lower import test_guarded_streams as guarded
from tests.lower.codegen.groups import test_last_block_reduction as last
from tests.lower.codegen.register_blocking.test_register_blocking import product
from tests.lower.md_hom_cases import MDHomCase

BY_THREE = {"threads": (2, 3, 4), "registers": (4, 2, 4), "chunks": (4, 2, 4), "tiles": (0, 12, 0)}


def of_two_dims(**values: object) -> Case:
    """A reduction of 5 by 26 in tiles of 2 by 8."""
    plain = {
        "tiles": (0, 2, 8, 0),
        "threads": (4, 1, 1, 8),
        "registers": (4, 1, 4, 4),
        "staged": ("local", "local"),
        "resident": True,
    }
    extents = {"i": 21, "k": 5, "l": 26, "j": 24}
    return Case(einsum("ikl,lkj->ij", extents), gpu(4, (1, 2), **(plain | values)))


def padded(**values: object) -> MDHomCase:
    """A padded convolution of 10 channels in tiles of 4."""
    md_hom = guarded.convolution(10)
    chosen = guarded.schedule(md_hom, "local", "local", **({"prefetch": False} | values))
    registers = (1, 2, 1, 4, 2, 1, 1)
    return guarded.case(
        md_hom, replace(chosen, tiles=(0, 0, 0, 0, 4, 1, 1), registers=registers, chunks=registers)
    )


AS_SOURCE = {"as_source": (True, True), "padding": (4, 4)}
CASES = {
    "one element in the last": Case(matmul(21, 25, 45), product()),
    "one element is missing": Case(matmul(21, 31, 45), product(prefetch=True)),
    "parts that end inside": Case(matmul(21, 61, 45), product(parts=(1, 3, 2), prefetch=True)),
    "parts in stages": Case(matmul(21, 61, 45), product(parts=(1, 3, 2), stages=3)),
    "stages through registers": Case(matmul(21, 61, 45), product(stages=2, prefetch=True)),
    "whole vectors as their source": Case(
        matmul(24, 60, 48), product(tiles=(0, 16, 0), **AS_SOURCE)
    ),
    "the same in stages": Case(
        matmul(24, 60, 48), product(tiles=(0, 16, 0), stages=3, **AS_SOURCE)
    ),
    "one of two streams": Case(matmul(24, 61, 48), product(prefetch=True, **AS_SOURCE)),
    "one of two in stages": Case(matmul(24, 61, 48), product(stages=3, **AS_SOURCE)),
    "work-items share a tile": Case(matmul(21, 61, 45), product(**BY_THREE, prefetch=True)),
    "work-items share tiles in stages": Case(matmul(21, 61, 45), product(**BY_THREE, stages=2)),
    "two dims": of_two_dims(),
    "two dims in stages": of_two_dims(stages=3),
    "doubles": Case(matmul(24, 29, 36, "f8"), product(prefetch=True)),
    "half floats": Case(matmul(24, 29, 36, "f2"), product(prefetch=True)),
    "pairs": last.best(tiles=(0, 64), staged=("local",), padding=(1,), prefetch=True, parts=(2, 2)),
    "zeros outside": padded(),
    "zeros outside in stages": padded(stages=3),
}


@pytest.mark.parametrize("name", CASES)
def test_named_cases(name: str):
    case = CASES[name]
    assert any(early_of(case))
    assert fuzz.check(case)


def early_of(case: Case | MDHomCase) -> list[set[int]]:
    """The dims along which the tiles of each staged stream begin early."""
    (schedule,) = case.schedules
    problem = schedule.computed(case.problem())
    layouts = layouts_of(problem, schedule, tilings_of(problem, schedule))
    return [set(layout.early) for layout in layouts.values()]


@pytest.mark.parametrize(
    ("case", "early"),
    [
        (CASES["parts in stages"], [{1}, {1}]),
        (CASES["whole vectors as their source"], [{1}, {1}]),
        # Elements of the first input would be read by vectors that begin between two multiples.
        (CASES["one of two streams"], [set(), {1}]),
        (CASES["two dims"], [{1, 2}, {1, 2}]),
        (Case(matmul(21, 24, 45), product()), [set(), set()]),
        (Case(matmul(21, 27, 45), product(tiles=(0, 0, 0))), [set(), set()]),
        (Case(matmul(21, 27, 45), product(parts=(0, 1, 0)), general=True), [set(), set()]),
    ],
    ids=["both", "whole vectors", "one", "two dims", "even", "no tiles", "general"],
)
def test_which_begin_early(case: Case, early: list[set[int]]):
    assert early_of(case) == early


def test_the_end_of_a_reduced_dim_is_asked_for_once_a_tile():
    case = Case(matmul(32, 27, 64), product(prefetch=True))
    text = program_of(case.problem(), case.schedule, CUDA).text
    # Once for each of two streams before the first turn and in every turn, and for the last tile.
    assert text.count(" < 19 ? ") == 2 + 2 + 1
    assert text.count(" < 26 ? ") == 0
