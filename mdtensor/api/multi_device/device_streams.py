"""Tasks on CUDA devices: enqueued by the calling thread, ordered by events."""

from __future__ import annotations

import sys
import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.operands import Array
from mdtensor.api.multi_device.task_programs import TaskPrograms, view_of
from mdtensor.api.multi_device.tasks import SlotBox, Task, spec_of_view
from mdtensor.backends.cuda.cuda_graphs import WORTH_RECORDING
from mdtensor.errors import DeviceError
from mdtensor.specs import TensorSpec
from mdtensor.stage_timer import stage

if TYPE_CHECKING:
    from mdtensor.backends.cuda.peer_streams import PeerGraph, PeerStreams

Event = Any
_MOST_GRAPHS = 4  # that are kept of a computation


class DeviceStreams:
    """A runner that enqueues tasks on CUDA devices; `numbers` are the devices' CUDA numbers.

    The last of `numbers` may be that of a device without tasks, on which operands and results are.
    """

    def __init__(
        self, programs: TaskPrograms, numbers: Sequence[int], home: int, streams: PeerStreams
    ) -> None:
        self.programs, self.numbers, self.home, self.streams = programs, numbers, home, streams
        tasks = programs.tasks.tasks
        self._begins = [
            [streams.number(numbers[task.device], n) for n in task.begins] for task in tasks
        ]
        places = [place for place in programs.tasks.places if place is not None]
        self.used = sorted({home, *places, *(task.device for task in tasks)})
        self.begun = {device: streams.record(numbers[device]) for device in self.used}
        self._order = sorted(range(len(tasks)), key=self._rank)
        self._lock = threading.Lock()
        self._graphs: dict[tuple[int, ...], PeerGraph] = {}  # by the places of the arrays
        self._generation, self._times = -1, 0  # of the kernels, and calls without a graph

    def _rank(self, number: int) -> tuple[int, bool]:
        """The sort key of a task in the issue order: its depth, then the home device last.

        So its stream is free to hand out what others wait for.
        """
        tasks = self.programs.tasks.tasks
        depths: list[int] = []
        for n, task in enumerate(tasks[: number + 1]):
            before = [m for m in range(n) if m in task.after or tasks[m].device == task.device]
            depths.append(1 + max((depths[m] for m in before), default=0))
        return depths[number], tasks[number].device == self.home

    def __call__(self, arrays: Sequence[Array]) -> None:
        """Enqueues all tasks on operands and results, ordered before later work on their stream.

        Raises DeviceError where a stream is being captured, and what a task raised, with the name
        of its device.
        """
        for device, engine in enumerate(self.programs.engines):
            with self.streams.at(self.numbers[device]):
                if engine.device.is_captured():
                    raise DeviceError(
                        f"the stream of {self.programs.names[device]} is being captured, and a call"
                        " with devices= is no part of a graph",
                        hint="make the call outside of the capture, or without devices=",
                    )
        graph = self._graph_of(arrays)
        if graph is None:
            self._enqueue(arrays, self.streams)
            return
        meet(self.streams, self.numbers, self.used, to=(self.home,))
        graph.launch(self.numbers[self.home])
        meet(self.streams, self.numbers, (self.home,), to=self.used)

    def _enqueue(
        self, arrays: Sequence[Array], streams: PeerStreams, *, is_recorded: bool = False
    ) -> None:
        """Enqueues all tasks; for a capture, starting from the home device's stream."""
        issue = _Issue(self, arrays, streams, is_recorded=is_recorded)
        try:
            for number in self._order:
                issue.task(number)
        finally:
            issue.settle()

    def _graph_of(self, arrays: Sequence[Array]) -> PeerGraph | None:
        """The captured graph of all tasks for arrays at known addresses; None where there is none.

        Whenever so many calls found none one more is recorded, up to a few.
        """
        places = self.streams.places(arrays)
        if places is None:
            return None
        with self._lock:
            if self._generation != invalidation.generation():
                self._generation, self._times = invalidation.generation(), 0
                self._graphs = {}
            graph = self._graphs.get(places)
            if graph is not None or len(self._graphs) == _MOST_GRAPHS:
                return graph
            self._times += 1
            if self._times % WORTH_RECORDING:
                return None
            graph = self.streams.recorded(
                self.numbers[self.home],
                lambda streams: self._enqueue(arrays, streams, is_recorded=True),
            )
            if graph is None:
                self._times = -sys.maxsize  # nor will there be one
            elif self._generation == invalidation.generation():  # recording may compile
                self._graphs[places] = graph
            return graph

    def new(self, place: int, spec: TensorSpec) -> Array:
        """A new array for a result, in the memory of a device."""
        return self.streams.empty(self.numbers[place], spec.shape, spec.dtype)

    def fill(self, place: int, array: Array, value: float) -> None:
        """Fills a result."""
        self.streams.fill(self.numbers[place], array, value)

    def begins(self, number: int) -> Sequence[Array]:
        """The begins of a task's part, as arrays on its device."""
        return self._begins[number]

    def launch(self, number: int, views: Sequence[Array], streams: PeerStreams) -> None:
        """Enqueues the kernels of a task."""
        device = self.programs.tasks.tasks[number].device
        try:
            with streams.at(self.numbers[device]):
                run = self.programs.run_of(number)
                with stage("run"):
                    run(*views)
        except Exception as error:
            raise self.programs.told(device, error) from error.__cause__


class _Issue:
    """One issue of all tasks: its arrays, and the events that mark their completion."""

    def __init__(
        self, of: DeviceStreams, arrays: Sequence[Array], streams: PeerStreams, *, is_recorded: bool
    ) -> None:
        self._of, self._streams, self._tasks = of, streams, of.programs.tasks
        self._is_recorded = is_recorded
        given = len(arrays)
        self._slots: list[Array] = list(arrays)
        for spec, place in zip(self._tasks.specs[given:], self._tasks.places[given:], strict=True):
            assert place is not None
            self._slots.append(self._empty(place, spec))
        # Where results land that are no runs of memory, by tasks and outputs.
        self._landing = {
            (number, n): self._empty(self._place(view), self._spec(view))
            for number, task in enumerate(self._tasks.tasks)
            for n, view in enumerate(task.writes)
            if not self._is_there(view, task) and not self._is_run(view)
        }
        self._finished: dict[int, Event] = {}  # by tasks: their results are where they belong
        self._packed: dict[Hashable, tuple[Array, Event]] = {}
        self._copies: dict[Hashable, Array] = {}
        # What streams of other devices read or write: it is dropped after these were waited for.
        self._held: list[Array] = []
        if is_recorded:
            meet(streams, of.numbers, (of.home,), to=of.used)
        else:
            for device in of.used:
                self._wait(device, of.begun[device])
            meet(streams, of.numbers, of.used, to=of.used)
        self._pack_operands()

    def _pack_operands(self) -> None:
        """Pack the non-contiguous parts of operands, before kernels occupy the streams."""
        for task in self._tasks.tasks:
            for view in task.reads:
                is_operand = view.slot < self._tasks.operands
                if is_operand and not (self._is_there(view, task) or self._is_run(view)):
                    self._packed_of(view)

    def task(self, number: int) -> None:
        """Enqueues a task: copies of its operands, its kernels, copies of its results."""
        task = self._tasks.tasks[number]
        for earlier in task.after:
            self._wait(task.device, self._finished[earlier])
        reads = [self._read(view, task, lead) for view, lead in task.read_with_leads]
        writes = [self._written(view, task, lead) for view, lead in task.written_with_leads]
        self._of.launch(number, [*reads, *self._of.begins(number), *writes], self._streams)
        landed: list[tuple[SlotBox, Array]] = []
        for n, (view, made) in enumerate(zip(task.writes, writes, strict=True)):
            if self._is_there(view, task):
                continue
            target = self._landing.get((number, n))
            if target is not None:
                landed.append((view, target))
            whole = view_of(self._slots, view) if target is None else target
            self._streams.copy(self._number(task.device), whole, made)
        event = self._record(task.device)
        for view, array in landed:
            place = self._place(view)
            self._wait(place, event)
            self._streams.place(self._number(place), view_of(self._slots, view), array)
            event = self._record(place)
        self._finished[number] = event

    def settle(self) -> None:
        """Make every stream wait for the other devices' use of its memory, and for its results.

        Where tasks are recorded, the stream on which the recording began waits for the others.
        """
        to = (self._of.home,) if self._is_recorded else self._of.used
        meet(self._streams, self._of.numbers, self._of.used, to=to)

    def _read(self, view: SlotBox, task: Task, lead: int) -> Array:
        """The array of a kernel's operand: in place, or a copy on the task's device."""
        if self._is_there(view, task):
            return view_of(self._slots, view.led(lead))
        known = self._copies.get((task.device, view.key))
        if known is not None:
            return known
        if self._is_run(view):
            source = view_of(self._slots, view)
        else:
            if view.slot >= self._tasks.operands:
                for earlier in task.after:
                    self._wait(self._place(view), self._finished[earlier])
            source, packed = self._packed_of(view)
            self._wait(task.device, packed)
        copy = self._empty(task.device, self._spec(view))
        self._streams.copy(self._number(task.device), copy, source)
        if view.slot < self._tasks.operands:  # which nobody writes
            self._copies[task.device, view.key] = copy
        return copy

    def _packed_of(self, view: SlotBox) -> tuple[Array, Event]:
        """A part, packed on the device that has it, and the event that completes the copy."""
        known = self._packed.get(view.key)
        if known is None:
            place = self._place(view)
            packed = self._empty(place, self._spec(view))
            self._streams.place(self._number(place), packed, view_of(self._slots, view))
            self._held.append(packed)
            known = packed, self._record(place)
            if view.slot < self._tasks.operands:
                self._packed[view.key] = known
        return known

    def _written(self, view: SlotBox, task: Task, lead: int) -> Array:
        if self._is_there(view, task) or task.updates:
            return self._read(view, task, lead)
        return self._empty(task.device, self._spec(view))

    def _is_there(self, view: SlotBox, task: Task) -> bool:
        return self._tasks.is_there(view, task.device)

    def _spec(self, view: SlotBox) -> TensorSpec:
        return spec_of_view(self._tasks.specs, view)

    def _is_run(self, view: SlotBox) -> bool:
        """Whether a part is contiguous, so that it is copied between devices as it is."""
        return self._spec(view).is_contiguous

    def _place(self, view: SlotBox) -> int:
        place = self._tasks.places[view.slot]
        assert place is not None
        return place

    def _number(self, device: int) -> int:
        return self._of.numbers[device]

    def _empty(self, device: int, spec: TensorSpec) -> Array:
        return self._streams.empty(self._number(device), spec.shape, spec.dtype)

    def _record(self, device: int) -> Event:
        return self._streams.record(self._number(device))

    def _wait(self, device: int, event: Event) -> None:
        self._streams.wait(self._number(device), event)


def meet(
    streams: PeerStreams, numbers: Sequence[int], of: Sequence[int], to: Sequence[int]
) -> None:
    """Make the streams of some devices wait for all work enqueued on others so far."""
    events = {device: streams.record(numbers[device]) for device in of}
    for device in to:
        for other, event in events.items():
            if other != device:
                streams.wait(numbers[device], event)
