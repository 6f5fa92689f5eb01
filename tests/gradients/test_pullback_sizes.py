"""Pullbacks of windows and of padded convolutions: their work and memory stay near the call's."""

from __future__ import annotations

import math

import pytest

from mdtensor.api.calls.computation import Computation
from mdtensor.api.frameworks.call_text import call_text, computation_of
from mdtensor.api.gradients.pullback import pullback
from mdtensor.specs import TensorSpec

IMAGES = "NCHW,KCRS->NKPQ"


def _points(computation: Computation) -> int:
    """How many points the steps compute."""
    return sum(math.prod(step.md_hom.extents.values()) for step in computation.steps)


def _back(text: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[Computation, Computation]:
    specs = tuple(map(TensorSpec.of, shapes))
    found = computation_of(text, specs)
    every = (*specs, *found.results, *found.results)
    return found, pullback(found, every, range(len(specs)), [0])


@pytest.mark.parametrize(
    ("text", "shapes", "times"),
    [
        (call_text("reduce", "n 2h+r -> n h", combine="max", extents={"r": 2}), ((3, 96),), 12),
        (call_text("reduce", "2h+r -> h", combine="max", extents={"r": 3}), ((97,),), 12),
        (call_text("einsum", "2h+r, r -> h"), ((101,), (5,)), 8),
        (call_text("conv", stride=2, layout=IMAGES), ((2, 3, 41, 41), (4, 3, 5, 5)), 16),
        (call_text("conv", padding=1, layout=IMAGES), ((2, 3, 30, 30), (4, 3, 3, 3)), 4),
        (call_text("conv", padding=2, layout=IMAGES), ((2, 3, 30, 30), (4, 3, 5, 5)), 4),
    ],
)
def test_work_is_a_few_times_that_of_the_call(
    text: str, shapes: tuple[tuple[int, ...], ...], times: int
) -> None:
    call, back = _back(text, shapes)
    assert _points(back) <= times * _points(call)


@pytest.mark.parametrize("padding", [1, 2, [(2, 0), (1, 3)]])
def test_borders_have_no_gradients_of_their_own(padding: int | list[tuple[int, int]]) -> None:
    images, filters = (2, 3, 30, 30), (4, 3, 5, 5)
    call, back = _back(call_text("conv", padding=padding, layout=IMAGES), (images, filters))
    assert len(call.steps) > 1
    assert len(back.steps) <= 8
    assert sum(spec.nbytes for spec in back.temporaries) <= 16 * call.results[0].nbytes
