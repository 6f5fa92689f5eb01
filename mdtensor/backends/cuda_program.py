"""Launches of compiled kernels on CuPy arrays, with as little as possible around the driver's call.

The arguments of a launch lie in memory of its thread; the driver copies them before it returns.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

from mdtensor.backends.cuda_graphs import DriverGraphs, driver_graphs
from mdtensor.backends.evaluate import evaluated
from mdtensor.backends.tensor_maps import Encode, TensorMaps, encode_function
from mdtensor.errors import LaunchError
from mdtensor.kernels.source import ALIGNMENT, KernelSource

Array = Any
_MISALIGNED = ALIGNMENT - 1
# Scratch memory of up to so many bytes is kept, in blocks of powers of two from 2^10.
_KEPT_BYTES = 1 << 24
_LEAST_BITS = 10
# The stream that nobody can capture, and launches from which one of all kernels as a graph pays:
# recording it takes the time of some dozens.
_LEGACY_STREAM = 0
WORTH_RECORDING = 64
_MOST_GRAPHS = 4  # of a program and a thread


class Functions:
    """What CuPy has of CUDA's interface, and scratch memory, for all programs of a device."""

    def __init__(self, cupy: Any) -> None:
        self.launch: Callable[..., None] = cupy.cuda.driver.launchKernel
        self.current_stream: Callable[[], Any] = cupy.cuda.get_current_stream
        self.encode: Callable[[], Encode] = encode_function
        self.graphs: Callable[[], DriverGraphs | None] = driver_graphs
        self._use_device: Callable[[int], None] = cupy.cuda.runtime.free
        self._allocate: Callable[[int], Any] = cupy.cuda.alloc
        self._local = threading.local()
        self._cupy = cupy

    def begin_thread(self) -> None:
        """Makes the current device's context that of this thread, as CUDA's runtime would."""
        self._use_device(0)

    def scratch(self, nbytes: int, stream: int) -> int:
        """The address of scratch memory for a thread and a stream, on which programs take turns.

        Large memory goes back to CuPy's pool, which gives it to later work of the stream only.
        """
        local = self._local
        if nbytes > _KEPT_BYTES:
            local.large = self._allocate(nbytes)
            return local.large.ptr
        blocks: dict[tuple[int, int], Any] | None = getattr(local, "blocks", None)
        if blocks is None:
            blocks = local.blocks = {}
        size = 1 << max(_LEAST_BITS, (nbytes - 1).bit_length())
        block = blocks.get((size, stream))
        if block is None:
            block = blocks[size, stream] = self._allocate(size)
        return block.ptr

    def recorded(self, launches: Sequence[Callable[..., None]], arguments: int) -> Recorded | None:
        """What these launches enqueue with the arguments' values, as one launch.

        It takes the host little more than half as long as that of a kernel. None where the driver
        records nothing.
        """
        graphs = self.graphs()
        try:
            stream = self._cupy.cuda.Stream(non_blocking=True)
            with stream:
                stream.begin_capture()
                for kernel in launches:
                    kernel(stream.ptr, arguments, 0)
                graph = stream.end_capture()
        except self._cupy.cuda.runtime.CUDARuntimeError:
            return None
        launch = partial(self._cupy.cuda.runtime.graphLaunch, graph.graphExec)
        if graphs is None:
            return Recorded(graph, launch)
        updates = graphs.updates(graph.graph, graph.graphExec, arguments)
        return Recorded(graph, launch, updates) if updates else None

    def zeros(self, nbytes: int) -> Any:
        """Memory that is zero for what follows on the current stream."""
        memory = self._allocate(nbytes)
        memory.memset_async(0, nbytes)
        return memory


@dataclass(frozen=True, slots=True)
class Recorded:
    """A graph, which must be kept, the function that enqueues it on a stream, and `updates`.

    These hand it the arguments' present values, kernel by kernel, and return the driver's error or
    0; there are none where the driver cannot.
    """

    graph: Any
    launch: Callable[[int], None]
    updates: Sequence[Callable[[], int]] = ()


class OnDevice(Protocol):
    """What a program needs of its device."""

    functions: Functions

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CudaProgram:
        """Compiles another program."""
        ...


@dataclass(slots=True)
class Arguments:
    """Values of a launch's arguments, 8 bytes each, and the array of their addresses.

    Behind them come the addresses of tensor maps, where a program has some.
    """

    values: Any
    places: Any
    address: int
    scratch: int  # position of the scratch memory; behind it that of counters
    maps: TensorMaps | None = None

    @classmethod
    def of(
        cls, arrays: int, sizes: Sequence[int], *, counters: bool, maps: TensorMaps | None = None
    ) -> Arguments:
        """Arguments for so many arrays, scratch memory, counters, sizes and maps."""
        before = arrays + 1 + counters
        count = before + len(sizes)
        values = (ctypes.c_int64 * count)(*(0 for _ in range(before)), *sizes)
        first = ctypes.addressof(values)
        addresses = [first + 8 * n for n in range(count)] + (maps.addresses if maps else [])
        places = (ctypes.c_void_p * len(addresses))(*addresses)
        return cls(values, places, ctypes.addressof(places), arrays, maps)


class CudaProgram:
    """A compiled program with its sizes, launched on the current stream without waiting."""

    def __init__(
        self, device: OnDevice, kernels: list[Any], source: KernelSource, sizes: Sequence[int]
    ) -> None:
        self.device = device
        self.kernels = kernels
        self.source = source
        values = dict(zip(source.sizes, sizes, strict=True))
        self.sizes = tuple(int(size) for size in sizes)
        # The driver's function with what comes before the stream.
        self.launches = [
            partial(
                device.functions.launch,
                kernel.ptr,
                *(max(1, evaluated(entry.groups, values)), 1, 1),
                *(entry.threads, 1, 1),
                entry.pool,
            )
            for kernel, entry in zip(kernels, source.entries, strict=True)
        ]
        self.scratch_bytes = max(evaluated(e.scratch, values) for e in source.entries)
        self.counter_bytes = 4 * max(evaluated(e.counters, values) for e in source.entries)
        self._arrays = [argument.role for argument in source.arguments].index("scratch")
        self._counters: dict[int, Any] = {}
        self._local = threading.local()

    @cached_property
    def _for_unaligned(self) -> CudaProgram:
        """The program for arrays that begin anywhere, compiled when the first one comes."""
        assert self.source.unaligned is not None
        return self.device.compile(self.source.unaligned, self.sizes)

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CudaProgram:
        """The same program for other sizes, without compiling again."""
        return CudaProgram(self.device, self.kernels, self.source, sizes)

    @cached_property
    def _launch(self) -> Callable[..., None]:
        return self.launcher()

    def __call__(self, *arrays: Array) -> None:
        """Enqueues the kernels on the current stream."""
        self._launch(*arrays)

    def _begun(self) -> tuple[Arguments, _Graphs, dict[tuple[int, ...], Callable[[int], None]]]:
        """New arguments for a thread, which may not have used the device before."""
        functions = self.device.functions
        functions.begin_thread()
        counters = self.counter_bytes > 0
        arguments = Arguments.of(self._arrays, self.sizes, counters=counters, maps=self._maps())
        graphs = _Graphs(functions, self.launches, arguments.address)
        self._local.ready = arguments, graphs, graphs.known
        return self._local.ready

    def _add_memory(self, arguments: Arguments, stream: int) -> None:
        """Sets the arguments that follow from those of the arrays and from the stream."""
        if arguments.maps is not None:
            arguments.maps.encode(arguments.values)
        if self.scratch_bytes:
            memory = self.device.functions.scratch(self.scratch_bytes, stream)
            arguments.values[arguments.scratch] = memory
        if self.counter_bytes:
            arguments.values[arguments.scratch + 1] = self._counters_on(stream)

    def _maps(self) -> TensorMaps | None:
        """Memory for the program's tensor maps."""
        maps, arguments = self.source.maps, self.source.arguments
        if not maps:
            return None
        names = [argument.name for argument in arguments]
        positions = [names.index(each.buffer) for each in maps]
        return TensorMaps(maps, positions, self.device.functions.encode())

    def _counters_on(self, stream: int) -> int:
        """The address of counters that no launch on another stream uses."""
        counters = self._counters.get(stream)
        if counters is None:
            counters = self._counters[stream] = self.device.functions.zeros(self.counter_bytes)
        return counters.ptr

    def beginner(self, *, behind: bool = False) -> tuple[Callable[..., None], None]:
        """The launcher: NumPy's way on a GPU is to return when the work is enqueued."""
        return self.launcher(), None

    def launcher(self) -> Callable[..., None]:
        """A function that does what a call does, with all that can be looked up looked up.

        A thread's launches on the legacy stream are a graph's after a while.
        """
        local, launches, aligned = self._local, self.launches, self.source.unaligned is not None
        has_more = bool(self.scratch_bytes or self.counter_bytes or self.source.maps)
        is_recorded = self.scratch_bytes <= _KEPT_BYTES  # else it lies elsewhere in each launch
        current_stream = self.device.functions.current_stream

        def launch(*arrays: Array) -> None:
            try:
                arguments, graphs, known = local.ready
            except AttributeError:
                arguments, graphs, known = self._begun()
            if len(arrays) == 3:  # most programs; spelt out, since this is most of a small call
                first, second, third = arrays
                places = first.data.ptr, second.data.ptr, third.data.ptr
            else:
                places = tuple([array.data.ptr for array in arrays])
            stream = current_stream().ptr
            if stream == _LEGACY_STREAM:
                again = known.get(places)
                if again is not None:
                    again(stream)
                    return
            if aligned and any(place & _MISALIGNED for place in places):
                self._for_unaligned(*arrays)
                return
            arguments.values[: len(places)] = places
            if has_more:
                self._add_memory(arguments, stream)
            if stream == _LEGACY_STREAM and is_recorded:
                again = graphs.handed(places)
                if again is not None:
                    again(stream)
                    return
            for kernel in launches:
                kernel(stream, arguments.address, 0)

        return launch

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        """A launcher that calls `check` with the arrays whenever one of them is new.

        So is one that has another shape than before; CuPy's arrays never change their types, nor
        their strides without their shapes. Arrays are remembered by weak references.
        """
        last, ready, run, ref = threading.local(), self._local, self.launcher(), weakref.ref
        current_stream = self.device.functions.current_stream

        def launch(*arrays: Array) -> None:
            known: list[tuple[Callable[[], Any], Any]] = getattr(last, "known", [])
            is_known = len(known) == len(arrays) and all(
                one() is array and array.shape == shape
                for array, (one, shape) in zip(arrays, known, strict=True)
            )
            if not is_known:
                last.known = []
                check(*arrays)
            run(*arrays)
            if not is_known:
                last.known = [(ref(array), array.shape) for array in arrays]

        def launch_of_three(first: Array, second: Array, third: Array) -> None:
            # Most programs; spelt out, since this is most of a small call.
            try:
                one, two, three, shape, and_shape, to_shape, places = last.known
            except AttributeError:
                one = two = three = _nothing
                shape = and_shape = to_shape = places = None
            if (one() is first and two() is second and three() is third) and (
                first.shape == shape and second.shape == and_shape and third.shape == to_shape
            ):
                stream = current_stream().ptr
                again = ready.ready[2].get(places) if stream == _LEGACY_STREAM else None
                if again is None:
                    run(first, second, third)
                else:
                    again(stream)
                return
            if places is not None:
                del last.known
            check(first, second, third)
            run(first, second, third)
            places = first.data.ptr, second.data.ptr, third.data.ptr
            last.known = (
                *(ref(first), ref(second), ref(third)),
                *(first.shape, second.shape, third.shape),
                places,
            )

        return launch_of_three if self._arrays == 3 else launch


class _Graphs:
    """A thread's launches of a program on the legacy stream as graphs.

    Most calls come with arrays where earlier ones were: memory that was freed is what CuPy's pool
    gives next. So there are some graphs, each with arguments of its own; `known` has what launches
    them, by the places of the arrays. Others are handed to the graph that was not for longest.
    """

    def __init__(
        self, functions: Functions, launches: Sequence[Callable[..., None]], arguments: int
    ) -> None:
        self.known: dict[tuple[int, ...], Callable[[int], None]] = {}
        self._record = partial(functions.recorded, launches, arguments)
        self._recorded: deque[tuple[tuple[int, ...], Recorded]] = deque()
        self._times, self._most = 0, _MOST_GRAPHS

    def handed(self, places: tuple[int, ...]) -> Callable[[int], None] | None:
        """What launches the arguments as they are now; None where only single launches do.

        Another graph is recorded whenever so many launches found none with their arguments.
        """
        self._times += 1
        recorded = self._recorded
        graph: Recorded | None = None
        if self._times % WORTH_RECORDING == 0 and len(recorded) < self._most:
            graph = self._record()
            if graph is None:  # nor will it be
                self._most = 0
        elif recorded and recorded[0][1].updates:
            before, graph = recorded.popleft()
            self.known.pop(before, None)
            for update in graph.updates:
                if error := update():
                    raise _refused(error)
        if graph is None:
            return None
        recorded.append((places, graph))
        self.known[places] = graph.launch
        return graph.launch


def _refused(error: int) -> LaunchError:
    return LaunchError(f"CUDA's driver refuses a graph's arguments: error {error}")


def _nothing() -> None:
    """What stands for an array that is not known."""
