"""Launches of compiled kernels on CuPy arrays, with as little as possible around the driver's call.

The arguments of a launch lie in memory of its thread; the driver copies them before it returns.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
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

    def _arguments(self, local: threading.local) -> Arguments:
        """New arguments for a thread, which may not have used the device before."""
        self.device.functions.begin_thread()
        arrays = [argument.role for argument in self.source.arguments].index("scratch")
        counters = self.counter_bytes > 0
        local.arguments = Arguments.of(arrays, self.sizes, counters=counters, maps=self._maps())
        local.repeats = _Repeats()
        return local.arguments

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
        functions, scratch_bytes = self.device.functions, self.scratch_bytes
        counter_bytes, counters_on = self.counter_bytes, self._counters_on
        current_stream = functions.current_stream

        def launch(*arrays: Array) -> None:
            try:
                arguments, repeats = local.arguments, local.repeats
            except AttributeError:
                arguments, repeats = self._arguments(local), local.repeats
            values, position, places = arguments.values, 0, 0
            for array in arrays:
                place = array.data.ptr
                values[position] = place
                position += 1
                places |= place
            if aligned and places & _MISALIGNED:
                self._for_unaligned(*arrays)
                return
            if arguments.maps is not None:
                arguments.maps.encode(values)
            stream = current_stream().ptr
            if scratch_bytes:
                values[position] = functions.scratch(scratch_bytes, stream)
            if counter_bytes:
                values[position + 1] = counters_on(stream)
            if stream == _LEGACY_STREAM:
                whole = repeats.whole
                if whole is not None and whole.updates:
                    for update in whole.updates:
                        if error := update():
                            raise _refused(error)
                    repeats.launch = again = whole.launch
                    again(stream)
                    return
                repeats.count(functions, launches, arguments.address)
            elif repeats.whole is not None and repeats.whole.updates:
                repeats.launch = None  # the graph has arguments of before
            for kernel in launches:
                kernel(stream, arguments.address, 0)

        return launch

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        """A launcher that sets the arguments only where arrays are others than the last time.

        `check` is called with the arrays whenever one of them is new. Arrays are remembered by
        weak references. The arguments belong to this launcher alone.
        """
        own = CudaProgram(self.device, self.kernels, self.source, self.sizes)
        local, anew, ref = own._local, own.launcher(), weakref.ref
        functions = self.device.functions
        current_stream = functions.current_stream
        without_memory = not self.scratch_bytes and not self.counter_bytes

        def launch(*arrays: Array) -> None:
            try:
                known, repeats = local.known
            except AttributeError:
                own._arguments(local)
                known, repeats = local.known = [_nothing] * len(arrays), local.repeats
            if len(known) == 3:  # most programs; spelt out, since this is most of a small call
                first, second, third = arrays
                same = known[0]() is first and known[1]() is second and known[2]() is third
            else:
                same = all(one() is array for one, array in zip(known, arrays, strict=True))
            if same:
                if without_memory and repeats.launch is not None:
                    stream = current_stream().ptr
                    if stream == _LEGACY_STREAM:
                        repeats.launch(stream)
                        return
                anew(*arrays)
                return
            check(*arrays)
            known[:] = [_nothing] * len(arrays)
            if self.source.unaligned and any(a.data.ptr & _MISALIGNED for a in arrays):
                self(*arrays)
                return
            repeats.change(functions)
            anew(*arrays)
            known[:] = map(ref, arrays)

        return launch


class _Repeats:
    """How often a thread launched a program; from some number on, as one launch.

    `whole` is that, `launch` enqueues it where it has the present values of the arguments.
    """

    __slots__ = ("launch", "times", "whole")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins to count anew, since the next launches are others."""
        self.times = 0
        self.whole: Recorded | None = None
        self.launch: Callable[[int], None] | None = None

    def change(self, functions: Functions) -> None:
        """The next launches have other arguments, which not every driver can hand a graph."""
        if functions.graphs() is None:
            self.forget()

    def count(
        self, functions: Functions, launches: Sequence[Callable[..., None]], arguments: int
    ) -> None:
        """Counts one more, and records them where that pays."""
        self.times += 1
        if self.times == WORTH_RECORDING:
            self.whole = functions.recorded(launches, arguments)
            self.launch = self.whole and self.whole.launch


def _refused(error: int) -> LaunchError:
    return LaunchError(f"CUDA's driver refuses a graph's arguments: error {error}")


def _nothing() -> None:
    """What stands for an array that is not known."""
