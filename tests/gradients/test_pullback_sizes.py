"""Pullbacks of windows and of padded convolutions: their work and memory stay near the call's."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

import mdtensor as mdt
from mdtensor.api.frameworks.call_text import held_call
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
    found = held_call(function, *placed, **options).program
    every = (*specs, *found.results, *found.results)
    return found, pullback(found, every, range(len(specs)), [0])


@pytest.mark.parametrize(
    ("call", "times"),
    [
        (partial(_back, mdt.reduce, "n 2h+r -> n h", (3, 96), combine="max", extents={"r": 2}), 12),
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
    assert len(back.steps) <= 8
    assert sum(spec.nbytes for spec in back.temporaries) <= 16 * call.results[0].nbytes
