"""Streams of several CUDA devices: copies between peers, events, and graphs across devices."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from mdtensor.backends.cuda.cupy_device import load_cupy

Array = Any
Event = Any

# Bytes that are copied to learn how fast a link is, how often between two looks at the clock, and
# for how many seconds: devices that were idle are slow at first.
_MEASURED, _COPIES, _MEASURING_S = 1 << 25, 8, 0.1
# One recording at a time, on streams that are there for it; and one launch.
_recording, _launching = threading.Lock(), threading.Lock()
_recorded_streams: dict[int, Any] = {}
_link_rates: dict[tuple[int, int], float] = {}


class PeerStreams:
    """Work enqueued on the current stream of each device; no call blocks.

    Devices are numbers of CUDA's.
    """

    def __init__(self) -> None:
        self._cupy = load_cupy()
        self._cuda = self._cupy.cuda
        # Streams for copies, by devices.
        self._beside: dict[int, Any] = {}

    def at(self, device: int) -> Any:
        """Context manager that makes a device current."""
        return self._cuda.Device(device)

    def empty(self, device: int, shape: Sequence[int], dtype: Any) -> Array:
        """A new array in C order, usable on the device's current stream."""
        with self.at(device):
            return self._cupy.empty(tuple(shape), dtype)

    def fill(self, device: int, target: Array, value: float) -> None:
        """Enqueue a fill of an array with a number."""
        with self.at(device):
            target.fill(value)

    def number(self, device: int, value: int) -> Array:
        """An integer as an int64 array without axes."""
        with self.at(device):
            return self._cupy.asarray(value, dtype="int64")

    def record(self, device: int) -> Event:
        """Record an event after all work enqueued so far."""
        with self.at(device):
            event = self._cuda.Event(disable_timing=True)
            event.record(self._cuda.get_current_stream())
            return event

    def wait(self, device: int, event: Event) -> None:
        """Make later work on a device wait for an event of any device."""
        with self.at(device):
            self._cuda.get_current_stream().wait_event(event)

    def copy(self, device: int, target: Array, source: Array) -> None:
        """Enqueue a copy of a whole array between devices; both are C-contiguous.

        It has a stream of its own, between events of the current one: on the default stream, copies
        between devices begin when both are idle, and nothing else begins before they are done.
        """
        with self.at(device):
            beside = self._beside.get(device)
            if beside is None:
                beside = self._beside[device] = self._cuda.Stream(non_blocking=True)
            beside.wait_event(self.record(device))
            target.data.copy_from_device_async(source.data, source.nbytes, beside)
            done = self._cuda.Event(disable_timing=True)
            done.record(beside)
            self.wait(device, done)

    def link_rate(self, device: int, other: int) -> float | None:
        """The measured bandwidth between two devices in bytes per second; memoised.

        None while a graph is captured, when nothing may be measured.
        """
        known = _link_rates.get((device, other))
        if known is not None or self._is_captured(device):
            return known
        with self.at(device):
            source = self._cupy.zeros(_MEASURED, dtype="uint8")
            self._cuda.get_current_stream().synchronize()
        with self.at(other):
            target = self._cupy.empty(_MEASURED, dtype="uint8")
            stream = self._cuda.Stream(non_blocking=True)
            self._cuda.get_current_stream().synchronize()
            begin, end = self._cuda.Event(), self._cuda.Event()
            best, until = math.inf, time.perf_counter() + _MEASURING_S
            while time.perf_counter() < until or best == math.inf:
                begin.record(stream)
                for _ in range(_COPIES):
                    target.data.copy_from_device_async(source.data, _MEASURED, stream)
                end.record(stream)
                stream.synchronize()
                best = min(best, 1e-3 * self._cuda.get_elapsed_time(begin, end) / _COPIES)
        rate = _link_rates[device, other] = _MEASURED / max(best, 1e-6)
        return rate

    def places(self, arrays: Sequence[Array]) -> tuple[int, ...] | None:
        """The arrays' addresses."""
        return tuple([array.data.ptr for array in arrays])

    def recorded(self, home: int, enqueue: Callable[[PeerStreams], None]) -> PeerGraph | None:
        """Capture what `enqueue` does into a graph that begins on `home`'s stream; None on failure.

        Before it ends, that stream must wait for the others. The graph keeps what memory was handed
        out meanwhile, as it runs at any time. None where that fails: enqueued as usual, the work
        says why.
        """
        with _recording:
            streams = _RecordedStreams()
            graph = None
            try:
                with streams.at(home):
                    stream = self._cuda.get_current_stream()
                    stream.begin_capture()
                    try:
                        enqueue(streams)
                    finally:
                        graph = stream.end_capture()
            except Exception:
                return None
        return PeerGraph(graph, streams.held, self._cuda)

    def _is_captured(self, device: int) -> bool:
        with self.at(device):
            stream = self._cuda.get_current_stream()
            return stream.ptr != 0 and stream.is_capturing()

    def place(self, device: int, target: Array, source: Array) -> None:
        """Enqueue a copy on one device between arrays of any strides."""
        with self.at(device):
            target[...] = source


class PeerGraph:
    """A graph across devices, with the memory that it uses.

    Graphs run one after the other, on whatever streams: kernels that were recorded on one stream
    share what memory they need besides arrays, and what a dropped graph had is handed to others.
    """

    _last: Any = None  # the event after the graph that was launched last

    def __init__(self, graph: Any, held: list[Array], cuda: Any) -> None:
        self._graph, self._held, self._cuda = graph, held, cuda
        self._done: list[Any] = []  # the event after its last launch
        weakref.finalize(self, _finish, self._done).atexit = False

    def launch(self, home: int) -> None:
        """Launch the graph on a device's current stream, after the last launch of any."""
        with self._cuda.Device(home), _launching:
            stream = self._cuda.get_current_stream()
            if PeerGraph._last is not None:
                stream.wait_event(PeerGraph._last)
            self._graph.launch()
            done = self._cuda.Event(disable_timing=True)
            done.record(stream)
            self._done[:] = [done]
            PeerGraph._last = done


def _finish(events: list[Any]) -> None:
    """The finalizer of a graph: wait for its last launch; not run at process exit."""
    for event in events:
        event.synchronize()


class _RecordedStreams(PeerStreams):
    """One capturing stream per device."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Array] = []

    @contextmanager
    def at(self, device: int) -> Generator[None]:
        """Context manager that makes a device and its capturing stream current."""
        with self._cuda.Device(device):
            if device not in _recorded_streams:
                _recorded_streams[device] = self._cuda.Stream(non_blocking=True)
            with _recorded_streams[device]:
                yield

    def empty(self, device: int, shape: Sequence[int], dtype: Any) -> Array:
        """A new array, kept alive for the graph."""
        self.held.append(super().empty(device, shape, dtype))
        return self.held[-1]
