"""Loops that are written out: how many steps they take, and what ends a step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mdtensor.directive import mdh
from mdtensor.specs import TensorSpec
from mdtensor.translate.graphs import count_of_nodes
from mdtensor.translate.loop_nests.loop_arguments import program_of
from mdtensor.translate.loops import written_out
from mdtensor.translate.loops.md_homs_from_loops import md_homs_from_loops

ROW, ROWS = TensorSpec.of((8,), "f8"), TensorSpec.of((3, 8), "f8")


def fibonacci(x):
    for i in range(2, len(x)):
        x[i] = x[i - 1] + x[i - 2]


def of_rows(x):
    for row in range(len(x)):
        for i in range(2, 8):
            x[row, i] = x[row, i - 1] + x[row, i - 2]


def of_two(x, y):
    for i in range(1, 8):
        x[i] = x[i - 1] + y[i - 1]
        y[i] = x[i]


def with_sums(x):
    for i in range(1, 8):
        total = 0.0
        for j in range(4):
            total += x[j] * x[i - 1]
        x[i] = total


def read_between(x, y):
    held = 0.0
    for i in range(1, 8):
        x[i] = x[i - 1] + 1
        if i == 4:
            held = x[3] * x[5]
    y[0] = held


def reversed_by_turns(x):
    for row in range(3):
        for i in range(1, 3):
            x[row, i] = x[row, i - 1] + x[2 - row, 7]


def sums(x):
    for row in range(3):
        for i in range(1, 8):
            for j in range(8):
                x[row, i] = 0.5 * x[row, i] + 0.01 * x[row, j] * x[row, i - 1]


@pytest.mark.parametrize(
    ("function", "arguments", "most"),
    [
        (fibonacci, {"x": ROW}, 6),
        (of_rows, {"x": ROWS}, 6),
        (reversed_by_turns, {"x": ROWS}, 2),
        (of_two, {"x": ROW, "y": ROW}, 1),
        (with_sums, {"x": ROW}, 1),
        (read_between, {"x": ROW, "y": ROW}, 1),
    ],
)
def test_how_many_elements_one_step_writes(
    function: Callable[..., None], arguments: dict[str, TensorSpec], most: int
) -> None:
    program = md_homs_from_loops(program_of(function), arguments, in_place=tuple(arguments))
    assert max(len(step.md_hom.out_view) for step in program.program.steps) == most
    arrays = [np.random.default_rng(0).random(spec.shape) for spec in arguments.values()]
    ours, expected = ([array.copy() for array in arrays] for _ in range(2))
    function(*expected)
    mdh(function)(*ours)
    for found, wanted in zip(ours, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_steps_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_out, "OPERATIONS", 100)
    x, expected = np.ones((3, 8)), np.ones((3, 8))
    sums(expected)
    mdh(sums)(x)
    np.testing.assert_allclose(x, expected, rtol=1e-12)
    program = md_homs_from_loops(program_of(sums), {"x": ROWS})
    counts = [count_of_nodes(step.md_hom.scalar.results) for step in program.program.steps]
    assert len(counts) > 2
    assert max(counts) <= 110  # casts and reads as well
