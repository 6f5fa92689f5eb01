"""Steps on windows: iterations in other places are one `md_hom`, and touch what they should."""

from __future__ import annotations

from typing import Any

import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.loop_arguments import program_of
from mdtensor.translate.loops.loop_program import LoopProgram
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
    ("loops", "steps", "kernels"),
    [
        # A copy of all, the first sum, which reads the operand, further sums, and their copies.
        (of(fibonacci, x=(200,)), 396, 4),
        # Both copies of all, the sum and the assignment, of operands first.
        (of(heat, u=(50,), v=(50,)), 162, 5),
    ],
)
def test_iterations_are_one_md_hom(loops: LoopProgram, steps: int, kernels: int) -> None:
    assert len(loops.windows) == len(loops.program.steps) == steps
    assert len({id(step.md_hom) for step in loops.program.steps}) <= kernels


def test_windows_hold_what_is_touched() -> None:
    loops = of(fibonacci, x=(100,))
    step, windows = loops.program.steps[20], loops.windows[20]
    (part,) = step.results
    assert (step.operands, windows) == ((1,), ((slice(10, 12),), ()))  # of the result, behind x
    assert loops.program.between[part].shape == ()
    assert step.md_hom.inputs[0].spec.shape == (2,)


def test_different_walks_through_an_array_are_different_windows() -> None:
    loops = of(shortest_paths, d=(20, 20))
    block = next(
        windows
        for step, windows in zip(loops.program.steps, loops.windows, strict=True)
        if len(step.operands) == 3 and [dim.extent for dim in step.md_hom.dims] == [7, 7]
    )
    assert block[:3] == (
        (slice(0, 7), slice(0, 7)),
        (slice(0, 7), slice(7, 8)),
        (slice(7, 8), slice(0, 7)),
    )


def test_arrays_between_steps_live_until_their_last_use() -> None:
    loops = of(fibonacci, x=(100,))
    assert (loops.operands, loops.results) == (("x",), ("x",))
    lives, last = loops.program.lifetimes, len(loops.program.steps) - 1
    assert lives[0] == (0, 1)  # copied, and read once
    assert lives[1] == (0, last)
    assert lives[2] == (2, last)
