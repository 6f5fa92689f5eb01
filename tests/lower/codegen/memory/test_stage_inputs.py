"""Staged inputs: how their elements get where they lie."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.staged_layouts import layouts_of
from mdtensor.lower.codegen.memory.stage_inputs import copy, declare
from mdtensor.lower.ir.group_statements import Barrier
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.statements import indented
from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.kernel_cases import CASES
from tests.lower.codegen.frames import frame_of


@pytest.mark.parametrize("name", ["matmul_staged", "gpu_matmul_local", "gpu_matmul_general"])
def test_declaration_and_copy(name, golden):
    frame = frame_of(name)
    lines: list[str] = []
    for layout in frame.layouts.values():
        axes = [
            f"{axis.part} of {axis.dim}: {axis.extent} by {axis.stride}" for axis in layout.axes
        ]
        lines += [f"{layout.pointer} in {layout.region}, {layout.size} elements", *axes]
        lines += indented(declare(layout, as_index(0)), 1)
        lines += indented(copy(layout, frame.problem, frame.schedule, frame.tilings), 1)
    golden(f"passes/stage_inputs/{name}.txt", "\n".join(lines) + "\n")


def declared(name: str, **changes: object):
    case = CASES[name]
    problem, schedule = case.problem(), replace(case.schedule, **changes)
    layouts = layouts_of(problem, schedule, tilings_of(problem, schedule))
    return [declare(layout, as_index(0)) for layout in layouts.values()]


def test_an_array_of_unknown_size_is_refused():
    with pytest.raises(LoweringError, match="a tile in private memory needs extents that are num"):
        declared("matmul_general", staged=("private", ""))


def test_an_array_of_too_many_bytes_is_refused():
    with pytest.raises(LoweringError, match=r"a tile of \d+ bytes in local memory, which takes 49"):
        declared("gpu_matmul_local", tiles=(0, 0, 0), registers=(999, 8, 2))


@pytest.mark.parametrize(("threads", "barriers"), [((4, 1, 4), 2), ((1, 1, 1), 0)])
def test_work_items_wait_for_each_other_but_one_alone_does_not(threads, barriers):
    case = CASES["gpu_matmul_local"]
    problem, schedule = case.problem(), replace(case.schedule, threads=threads)
    tilings = tilings_of(problem, schedule)
    layout = layouts_of(problem, schedule, tilings)[0]
    statements = copy(layout, problem, schedule, tilings)
    assert sum(isinstance(statement, Barrier) for statement in statements) == barriers
