"""The test harness of calls that run several programs: an array for each slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.async_steps import Begun, launched, run_all
from mdtensor.api.engine.engine import Engine
from mdtensor.api.tuning import verification
from mdtensor.api.tuning.flat_buffer import Flat
from mdtensor.backends.cuda.cupy_device import CupyDevice
from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.backends.protocol import CompiledProgram
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Step


class CallArena:
    """Random arrays for the steps of a call, and the steps' programs by various schedules.

    Each program was compared with the reference before, on arrays of its own.
    """

    def __init__(self, engine: Engine, steps: Sequence[Step], seed: int = 0) -> None:
        self.engine = engine
        self.steps = tuple(steps)
        rng = np.random.default_rng(seed)
        specs: dict[int, TensorSpec] = {}
        for step in self.steps:
            slots = (*step.operands, *step.results)
            buffers = (*step.md_hom.inputs, *step.md_hom.outputs)
            specs |= {slot: buffer.spec for slot, buffer in zip(slots, buffers, strict=True)}
        arrays = {slot: self._array(spec, rng) for slot, spec in specs.items()}
        self.slots = [arrays.get(slot) for slot in range(max(specs) + 1)]
        self._programs: dict[tuple[MDHom, str], CompiledProgram] = {}

    def _array(self, spec: TensorSpec, rng: np.random.Generator) -> Any:
        """A random array with the layout of a spec, on the device."""
        ends = [stride * (n - 1) for stride, n in zip(spec.strides, spec.shape, strict=True)]
        before = sum(-end for end in ends if end < 0)
        memory = aligned_empty((before + sum(end for end in ends if end > 0) + 1,), spec.dtype)
        memory[:] = verification.random_values(rng, memory.dtype, len(memory))
        device = self.engine.device
        if isinstance(device, CupyDevice):
            memory = device.cupy.asarray(memory)
        return Flat(memory, before).array

    def run_of(self, schedules: Sequence[str]) -> Callable[[], None] | None:
        """A run of the call by a schedule per step; None where one does not compile."""
        texts = dict(zip(self.steps, schedules, strict=True))

        def begun(step: Step, *, behind: bool = False) -> Begun:
            return self._program(step, texts[step]).beginner(behind=behind)

        try:
            return partial(run_all, launched(self.steps, begun), self.slots)
        except (LoweringError, CompileError):
            return None

    def _program(self, step: Step, text: str) -> CompiledProgram:
        if (step.md_hom, text) not in self._programs:
            problem, schedule = self.engine.problem_of(step.md_hom), Schedule.from_json(text)
            choice = self.engine.specialised(problem, schedule, "trial", 0.0)
            self._programs[step.md_hom, text] = choice.program
        return self._programs[step.md_hom, text]
