"""Plans over several devices, with a kernel for each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mdtensor.api.arrays.device_scope import at
from mdtensor.api.arrays.operands import array_module
from mdtensor.api.arrays.results import as_returned
from mdtensor.api.engine import registry
from mdtensor.api.engine.kernel_choice import KernelChoice
from mdtensor.api.engine.tuning_mode import RecordedCall
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.api.multi_device.device_report import report_of
from mdtensor.api.multi_device.spread_call import computed, runner_for
from mdtensor.api.multi_device.task_programs import TaskPrograms
from mdtensor.api.plans.call_plan import CallPlan
from mdtensor.api.plans.explain import explained
from mdtensor.api.reports.report_subject import Subject, subject_of
from mdtensor.errors import TranslationError, TuningError
from mdtensor.specs import TensorSpec
from mdtensor.stage_timer import stage

Array = Any


class SpreadPlan(CallPlan):
    """A plan of a call in parts over several devices; made by `mdtensor.compile`.

    `choices` are the kernels of the parts, device by device, and `explain` begins with what each
    device reads and writes.
    """

    def __init__(self, of: CallPlan, devices: DeviceList) -> None:
        super().__init__(of.label, of._call, of._arguments)
        found = self.program
        if found is None:
            raise TranslationError(
                f"{self.label} is more than one computation on its operands, and not spread over"
                " devices",
                hint="leave devices= out, or plan its computations one by one",
            )
        self.devices, self._spread = devices, found
        self._call = f"{self._call}, devices={list(devices.names)}"

    def programs(self) -> TaskPrograms:
        """The devices' tasks and programs, for arrays of the plan's layouts."""
        specs = [*self.specs, *self._spread.results]
        for number, dtype in self._spread.converted:
            specs[number] = TensorSpec.of(specs[number].shape, dtype)
        with at(self.device):
            return runner_for(self._spread, tuple(specs), self.devices).programs

    def choices(self) -> list[KernelChoice]:
        """The kernel of every part, on its device."""
        programs = self.programs()
        found: list[KernelChoice] = []
        for task in programs.tasks.tasks:
            engine = programs.engines[task.device]
            with at(getattr(engine.device, "number", None)):
                found.append(registry.choice_on(engine, task.md_hom))
        return found

    def recorded(self) -> list[RecordedCall]:
        """Raises TuningError: a search tunes one device at a time."""
        raise TuningError(
            "a plan over several devices is not tuned",
            hint="tune the call on one device after the other: mdtensor.device(name)",
        )

    def explain(self, *, passes: bool = False) -> str:
        """Describe the boxes of every device, then each part's schedule, cost and source."""
        if not self.md_homs:
            return super().explain(passes=passes)
        programs = self.programs()
        parts = [report_of(programs.tasks, programs.names)]
        for task, choice in zip(programs.tasks.tasks, self.choices(), strict=True):
            engine = programs.engines[task.device]
            said = explained(task.md_hom, choice, engine if passes else None)
            parts.append(f"on {programs.names[task.device]}\n{said}")
        return "\n\n".join(parts)

    def _subjects(self, peers: Mapping[str, float]) -> list[Subject]:
        """The subjects of a report: every part, and the kernel chosen for it on its device."""
        programs = self.programs()
        return [
            subject_of(
                f"on {programs.names[task.device]}: {task.md_hom!r}",
                task.md_hom,
                choice,
                programs.engines[task.device],
            )
            for task, choice in zip(programs.tasks.tasks, self.choices(), strict=True)
        ]

    def _first(self, operands: Sequence[Array]) -> Any:
        xp = array_module(operands)
        with stage("run"):
            results = computed(self._spread, operands, (), self.devices, xp)
        return as_returned(results)

    def _first_into(self, operands: Sequence[Array], out: tuple[Array, ...]) -> None:
        self._takes.check_out(*operands, *out)
        with stage("run"):
            computed(self._spread, operands, out, self.devices, array_module(operands))
