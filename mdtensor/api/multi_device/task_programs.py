"""Programs of tasks, chosen by their devices' engines, and errors that name a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.operands import Array
from mdtensor.api.calls import program_calls
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.multi_device.tasks import SlotBox, Tasks
from mdtensor.dataclass import dataclass
from mdtensor.errors import LaunchError, MdtensorError
from mdtensor.translate.md_hom import MDHom

Run = Callable[..., None]


@dataclass(frozen=True, slots=True)
class TaskPrograms:
    """Tasks with the names and engines of their devices; the engines choose their programs."""

    tasks: Tasks
    names: tuple[str, ...]
    engines: tuple[Engine, ...]
    # By the numbers of tasks: the generation of kernels, and what runs the one chosen in it.
    _chosen: dict[int, tuple[int, Run]] = field(default_factory=dict[int, tuple[int, Run]])

    def run_of(self, number: int) -> Run:
        """A function that runs a task on its inputs and outputs, by the best kernel available now.

        Where the mode is "tune", kernels for the current CUDA device are searched for first.
        """
        task = self.tasks.tasks[number]
        if 0 in task.md_hom.extents.values():
            return _interpreted(task.md_hom, program_calls.on_host)
        if program_calls.executor is not None:
            return _interpreted(task.md_hom, program_calls.executor)
        registry.tune_on(self.engines[task.device], task.md_hom)
        generation = invalidation.generation()
        known = self._chosen.get(number)
        if known is not None and known[0] == generation:
            return known[1]
        choice = registry.choice_on(self.engines[task.device], task.md_hom)
        run = choice.program.launcher()
        self._chosen[number] = generation, run
        return run

    def told(self, device: int, error: BaseException) -> BaseException:
        """The error to raise for one on a device, with the device's name in it."""
        name = self.names[device]
        if isinstance(error, MdtensorError):
            error.notes = (*error.notes, f"on device {name}")
            return error
        if not isinstance(error, Exception) or isinstance(error, MemoryError):
            return error
        failure = LaunchError(
            f"{name} failed on its part: {type(error).__name__}: {error}",
            hint="leave the device out of devices=, and the others compute its part",
        )
        failure.__cause__ = error
        return failure


def view_of(slots: Sequence[Array], view: SlotBox) -> Array:
    """The array of a slot box."""
    return slots[view.slot][(*view.box, ...)]  # an array, also where there are no axes


def _interpreted(md_hom: MDHom, compute: Callable[..., None]) -> Run:
    count = len(md_hom.inputs)
    return lambda *arrays: compute(md_hom, arrays[:count], arrays[count:])
