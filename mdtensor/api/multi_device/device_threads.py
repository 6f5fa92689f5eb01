"""Tasks on devices that share host memory: a thread per device."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence

import numpy as np

from mdtensor.api.arrays.operands import Array, allocate
from mdtensor.api.multi_device.task_programs import TaskPrograms, view_of
from mdtensor.specs import TensorSpec
from mdtensor.stage_timer import StageRecorder, asked_for, beside, stage


class DeviceThreads:
    """A reusable runner of tasks, with a thread per device."""

    def __init__(self, programs: TaskPrograms) -> None:
        self.programs = programs
        tasks = programs.tasks.tasks
        self._own = [
            [n for n, task in enumerate(tasks) if task.device == device]
            for device in range(len(programs.names))
        ]
        self._numbers = [[np.asarray(n, np.int64) for n in task.begins] for task in tasks]

    def __call__(self, arrays: Sequence[Array]) -> None:
        """Runs all tasks on operands and results.

        Raises what a task raised, with the name of its device: errors of mdtensor with a note,
        others as LaunchError. No task runs any more then.
        """
        specs = self.programs.tasks.specs[len(arrays) :]
        slots = [*arrays, *(allocate(spec, np) for spec in specs)]
        _Once(self, slots).run([n for n, own in enumerate(self._own) if own])

    def new(self, place: int, spec: TensorSpec) -> Array:
        """A new array for a result."""
        return allocate(spec, np)

    def fill(self, place: int, array: Array, value: float) -> None:
        """Fills a result."""
        array.fill(value)

    def own(self, device: int) -> Sequence[int]:
        """The numbers of the tasks of a device, in order."""
        return self._own[device]

    def launch(self, number: int, slots: Sequence[Array]) -> None:
        """Runs one task."""
        task = self.programs.tasks.tasks[number]
        views = [view_of(slots, view) for view in task.reads]
        views += self._numbers[number]
        views += [view_of(slots, view) for view in task.writes]
        run = self.programs.run_of(number)
        with stage("run"):
            run(*views)


class _Once:
    """A single run of all tasks."""

    def __init__(self, threads: DeviceThreads, slots: Sequence[Array]) -> None:
        self._threads, self._slots = threads, slots
        self._programs = threads.programs
        self._done = [threading.Event() for _ in self._programs.tasks.tasks]
        self._failed: dict[int, BaseException] = {}

    def run(self, devices: Sequence[int]) -> None:
        """Run the first device's tasks in the calling thread, each other device's in its own."""
        others = [
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(self._beside, device, asked_for()),
                name=f"mdtensor-device-{device}",
                daemon=True,
            )
            for device in devices[1:]
        ]
        started: list[threading.Thread] = []
        try:
            for thread in others:
                thread.start()
                started.append(thread)
            self._work(devices[0])
        except BaseException as error:  # what signals raise, too
            self._fail(devices[0], error)
        finally:
            for thread in started:
                thread.join()
        for device in sorted(self._failed):
            raise self._programs.told(device, self._failed[device])

    def _beside(self, device: int, told: StageRecorder | None) -> None:
        try:
            beside(told, self._work, device)
        except BaseException as error:  # which the calling thread raises
            self._fail(device, error)

    def _work(self, device: int) -> None:
        """Run a device's tasks in order, each after its dependencies."""
        for number in self._threads.own(device):
            for earlier in self._programs.tasks.tasks[number].after:
                self._done[earlier].wait()
            if self._failed:
                return
            self._threads.launch(number, self._slots)
            self._done[number].set()

    def _fail(self, device: int, error: BaseException) -> None:
        """Record an error and wake all waiting threads, which then stop."""
        self._failed[device] = error
        for event in self._done:
            event.set()
