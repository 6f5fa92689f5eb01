"""Steps on windows: iterations in other places are one `md_hom`, and touch what they should."""

from __future__ import annotations

from typing import Any

import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.loop_arguments import program_of
from mdtensor.translate.loops.loop_program import LoopProgram, Window
from mdtensor.translate.loops.md_homs_from_loops import md_homs_from_loops


def fibonacci(x):
    for i in range(2, len(x)):
        x[i] = x[i - 1] + x[i - 2]


def heat(u, v):
    for _ in range(80):
        for i in range(1, len(u) - 1):
            v[i] = u[i - 1] + u[i + 1]
        for i in range(1, len(u) - 1):
            u[i] = v[i]


def shortest_paths(d):
    for k in range(len(d)):
        for i in range(len(d)):
            for j in range(len(d)):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])


def of(function: Any, **shapes: tuple[int, ...]) -> LoopProgram:
    specs = {name: TensorSpec.of(shape, "f8") for name, shape in shapes.items()}
    return md_homs_from_loops(program_of(function), specs)


@pytest.mark.parametrize(
    ("program", "steps", "kernels"),
    [
        # A copy of all, the first sum, which reads the operand, further sums, and their copies.
        (of(fibonacci, x=(200,)), 396, 4),
        # Both copies of all, the sum and the assignment, of operands first.
        (of(heat, u=(50,), v=(50,)), 162, 5),
    ],
)
def test_iterations_are_one_md_hom(program: LoopProgram, steps: int, kernels: int) -> None:
    assert len(program.windows) == len(program.steps) == steps
    assert len({id(step.md_hom) for step in program.windows}) <= kernels


def test_windows_hold_what_is_touched() -> None:
    step = of(fibonacci, x=(100,)).windows[20]
    assert step.inputs == (Window("x#1", ((10, 12),)),)
    assert step.outputs == (Window("part float64[]", ()),)
    assert step.md_hom.inputs[0].spec.shape == (2,)


def test_different_walks_through_an_array_are_different_windows() -> None:
    program = of(shortest_paths, d=(20, 20))
    block = next(
        step
        for step in program.windows
        if len(step.inputs) == 3 and [dim.extent for dim in step.md_hom.dims] == [7, 7]
    )
    assert [window.bounds for window in block.inputs] == [
        ((0, 7), (0, 7)),
        ((0, 7), (7, 8)),
        ((7, 8), (0, 7)),
    ]


def test_arrays_between_steps_are_dropped_after_their_last_use() -> None:
    program = of(fibonacci, x=(100,))
    last = [name for step in program.windows for name in step.last]
    first = [name for step in program.windows for name in step.first]
    assert sorted(first) == ["part float64[]", "x#1"]
    assert sorted(last) == ["part float64[]", "x"]
    assert program.results == {"x": "x#1"}
