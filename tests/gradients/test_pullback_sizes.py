"""Pullbacks of windows and of padded convolutions: their work and memory stay near the call's."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frameworks.call_text import computation_of, held_call
from mdtensor.translate.combine import Concat
from mdtensor.translate.gradients.pullback import pullback
from mdtensor.translate.md_hom_program import Program

IMAGES = "NCHW,KCRS->NKPQ"


def _points(program: Program) -> int:
    """How many points the steps compute."""
    return sum(math.prod(step.md_hom.extents.values()) for step in program.steps)


def _back(function: Any, *given: Any, **options: Any) -> tuple[Program, Program]:
    """A call on arrays of float32, told by their shapes, and its pullback to all of them."""
    specs = [mdt.spec(each) for each in given if isinstance(each, tuple)]
    placed = [mdt.spec(each) if isinstance(each, tuple) else each for each in given]
    found = computation_of(held_call(function, *placed, **options).text, tuple(specs))
    every = (*specs, *found.results, *found.results)
    return found, pullback(found, every, range(len(specs)), [0])


@pytest.mark.parametrize(
    ("call", "times"),
    [
        (partial(_back, mdt.reduce, "n 2h+r -> n h", (3, 96), combine="max", extents={"r": 2}), 2),
        (partial(_back, mdt.reduce, "2h+r -> h", (97,), combine="max", extents={"r": 3}), 12),
        (partial(_back, mdt.einsum, "2h+r, r -> h", (101,), (5,)), 8),
        (partial(_back, mdt.conv, (2, 3, 41, 41), (4, 3, 5, 5), stride=2, layout=IMAGES), 16),
        (partial(_back, mdt.conv, (2, 3, 30, 30), (4, 3, 3, 3), padding=1, layout=IMAGES), 4),
        (partial(_back, mdt.conv, (2, 3, 30, 30), (4, 3, 5, 5), padding=2, layout=IMAGES), 4),
    ],
)
def test_work_is_a_few_times_that_of_the_call(call: Any, times: int) -> None:
    found, back = call()
    assert _points(back) <= times * _points(found)


@pytest.mark.parametrize("padding", [1, 2, [(2, 0), (1, 3)]])
def test_borders_have_no_gradients_of_their_own(padding: int | list[tuple[int, int]]) -> None:
    images, filters = (2, 3, 30, 30), (4, 3, 5, 5)
    call, back = _back(mdt.conv, images, filters, padding=padding, layout=IMAGES)
    assert len(call.steps) > 1
    assert len(back.steps) <= 6
    assert sum(spec.nbytes for spec in back.temporaries) <= 16 * call.results[0].nbytes


def _operators(program: Program) -> list[list[str]]:
    """The dims that each step adds up."""
    return [
        [dim.name for dim in step.md_hom.dims if not isinstance(dim.combine, Concat)]
        for step in program.steps
    ]


def test_windows_that_do_not_overlap_are_written_where_they_were_read() -> None:
    """A step counts equal elements, the other one writes."""
    text, extents = "n 2h+r 2w+s -> n h w", {"r": 2, "s": 2}
    _, back = _back(mdt.reduce, text, (3, 8, 10), combine="max", extents=extents)
    assert _operators(back) == [["r", "s"], []]


@pytest.mark.parametrize(
    "epilogue", ["relu", "tanh", np.exp, lambda y: np.sqrt(y + 1), lambda y: np.minimum(-y, 2.0)]
)
def test_an_epilogue_is_differentiated_by_its_result(epilogue: Any) -> None:
    """So no products are added up again for it."""
    rows = (5, 7), (7, 6)
    _, back = _back(mdt.einsum, "ij,jk->ik", *rows, epilogue=epilogue)
    assert sorted(_operators(back)) == [[], ["i"], ["k"]]


def test_the_sums_of_an_epilogue_that_is_no_function_of_its_result_are_made_again() -> None:
    _, back = _back(mdt.einsum, "ij,jk->ik", (5, 7), (7, 6), epilogue=np.sin)
    assert sorted(_operators(back)) == [[], ["i"], ["j"], ["k"]]


def test_the_gradient_of_a_padded_image_has_no_margins() -> None:
    images, filters = (2, 3, 30, 30), (4, 3, 5, 5)
    _, back = _back(mdt.conv, images, filters, padding=2, layout=IMAGES)
    [of_images] = [step.md_hom.extents for step in back.steps if back.operands in step.results]
    assert sorted(of_images.values()) == [2, 3, 4, 5, 5, 30, 30]
