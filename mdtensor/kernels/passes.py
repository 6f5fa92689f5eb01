"""The passes of the lowering, in order: from an MDHom to the text of a program.

Every stage runs the passes that this list names: `problem_from_md_hom` and `problem_of_device` the
first ones, `lowered` those between, `program_of` the last. To see them at work:

    mdtensor explain --passes "ij,jk->ik" 64,128 128,32
"""

from __future__ import annotations

from typing import Any

from mdtensor.kernels.chain_program import FUSE_ROWS
from mdtensor.kernels.program import FUSE, NARROW_INDICES, RENDER
from mdtensor.lower.lowering import EMIT, NEST_PASSES
from mdtensor.lower.pass_runner import Pass
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import FLATTEN, MD_HOM_PASSES
from mdtensor.lower.problem.problem_of_device import DEVICE_PASSES
from mdtensor.lower.schedule.schedule import SCHEDULED_PASSES

PASSES: tuple[Pass[Any, ..., Any], ...] = (
    *MD_HOM_PASSES,  # MDHom: what every device computes
    FLATTEN,  # MDHom -> Problem
    *DEVICE_PASSES,  # Problem: for the device
    GENERALISE,  # Problem -> the Problem of its structure, for kernels that all shapes share
    *SCHEDULED_PASSES,  # Problem: for the schedule
    EMIT,  # Problem -> LoopNests
    *NEST_PASSES,  # LoopNests
    FUSE,  # LoopNests of several Problems -> one LoopNest
    FUSE_ROWS,  # LoopNests of several Problems on a block of rows -> one LoopNest
    NARROW_INDICES,  # Language
    RENDER,  # LoopNests -> KernelSource
)
