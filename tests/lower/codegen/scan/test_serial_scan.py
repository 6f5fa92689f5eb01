"""Groups that scan in turn: what each takes from the one before it, and what it tells the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.opencl import OPENCL
from mdtensor.lower.codegen.base.partial_results import partials_of
from mdtensor.lower.codegen.scan.serial_scan import taken_over
from mdtensor.lower.ir.statements import Comment, indented
from mdtensor.lower.lowering import lowered
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.reference import run
from tests.kernels.kernel_cases import CASES, source
from tests.lower.codegen.frames import frame_of
from tests.lower.running import device

CASE = CASES["scan_in_turn"]


def test_what_is_taken_over(golden):
    frame = frame_of("scan_in_turn")
    partials = partials_of(frame.problem, frame.schedule, frame.tilings)
    assert partials is not None
    statements = taken_over(frame, partials, (Comment("bounds"),))
    golden("passes/scan_in_turn/scan_in_turn.txt", "\n".join(indented(statements)) + "\n")


def test_one_kernel_in_place_of_three():
    problem, schedule = CASE.problem(), CASE.schedule
    assert len(lowered(problem, replace(schedule, in_turn=False))) == 3
    (nest,) = lowered(problem, schedule)
    assert nest.in_order


def test_every_launch_begins_anew():
    md_hom = CASE.stages[0].md_hom
    program = device().compile(source("scan_in_turn", OPENCL))
    rng = np.random.default_rng(0)
    for _ in range(50):
        inputs = [
            rng.integers(-9, 9, buffer.spec.shape).astype(buffer.spec.dtype)
            for buffer in md_hom.inputs
        ]
        expected = run(md_hom, inputs)
        results = [np.zeros(buffer.spec.shape, buffer.spec.dtype) for buffer in md_hom.outputs]
        program(*inputs, *results)
        for result, right in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, right)


def test_launchers_take_the_arrays_beside_scratch_memory_and_counters():
    md_hom = CASE.stages[0].md_hom
    program = device().compile(source("scan_in_turn", OPENCL))
    inputs = [np.ones(buffer.spec.shape, buffer.spec.dtype) for buffer in md_hom.inputs]
    expected = run(md_hom, inputs)
    for launch in (program, program.launcher()):
        results = [np.zeros(buffer.spec.shape, buffer.spec.dtype) for buffer in md_hom.outputs]
        for _ in range(3):
            launch(*inputs, *results)
        for result, right in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        (replace(CASE.schedule, parts=(2, 1)), "groups take turns where they share"),
        (replace(CASE.schedule, parts=(0, 0)), "groups take turns where they share"),
        (replace(CASE.schedule, parts=(2, 3), registers=(1, 64)), "groups take turns where"),
    ],
)
def test_only_groups_that_share_a_scanned_dim(schedule: Schedule, reason: str):
    with pytest.raises(LoweringError, match=reason):
        validate(CASE.problem(), schedule)
