"""What the passes of the lowering work on, made from the kernels whose text is kept."""

from __future__ import annotations

from mdtensor.lower.codegen.base import staged_layouts
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.kernel_cases import CASES


def frame_of(name: str) -> Frame:
    """The frame of a kernel of `kernel_cases`."""
    case = CASES[name]
    problem, schedule = case.problem(), case.schedule
    validate(problem, schedule)
    tilings = tilings_of(problem, schedule)
    layouts = staged_layouts.layouts_of(problem, schedule, tilings)
    return Frame(problem, schedule, tilings, layouts)
