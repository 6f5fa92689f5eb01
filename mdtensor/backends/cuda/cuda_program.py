"""Launches of compiled kernels on CuPy arrays, with little overhead over the driver's call.

The arguments of a launch lie in memory of its thread; the driver copies them before it returns.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from mdtensor.backends.cuda.cuda_graphs import (
    WORTH_RECORDING,
    DriverGraphs,
    RecordedGraph,
    driver_graphs,
    native_launches,
)
from mdtensor.backends.cuda.cuda_stream import beside_captures, stream_at
from mdtensor.backends.cuda.tensor_maps import Encode, TensorMaps, encode_function
from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.llvm.graph_launch_ir import GraphWords
from mdtensor.backends.llvm.graph_launches import At, GraphLaunches, LaunchedGraph
from mdtensor.backends.llvm.native_launch import NativeLaunch, NativeRecord
from mdtensor.dataclass import dataclass
from mdtensor.forks import cached_property
from mdtensor.kernels.kernel_source import ALIGNMENT, KernelSource

Array = Any
_MISALIGNED = ALIGNMENT - 1
# Scratch memory of up to so many bytes is kept, in blocks of powers of two from 2^10.
_KEPT_BYTES = 1 << 24
_LEAST_BITS = 10
_LEGACY_STREAM = 0  # which nobody can capture


class Functions:
    """CuPy's bindings of the CUDA API and scratch memory, shared by all programs of a device."""

    def __init__(self, cupy: Any) -> None:
        self.launch: Callable[..., None] = cupy.cuda.driver.launchKernel
        self.current_stream: Callable[[], Any] = cupy.cuda.get_current_stream
        self.on_stream: Callable[[int], Any] = partial(stream_at, cupy)
        self.encode: Callable[[], Encode] = encode_function
        self.current_device: Callable[[], int] = cupy.cuda.runtime.getDevice
        self.is_captured: Callable[[int], bool] = cupy.cuda.runtime.streamIsCapturing
        self.graphs: Callable[[], DriverGraphs | None] = driver_graphs
        self.native: Callable[[], NativeLaunch | None] = native_launches
        self._use_device: Callable[[int], None] = cupy.cuda.runtime.free
        # From CuPy's own pool, whatever allocates arrays now: graphs of torch's refuse memory of
        # theirs that is kept.
        self._allocate: Callable[[int], Any] = cupy.get_default_memory_pool().malloc
        self._local = threading.local()
        # Memory of launches that were captured, by its place, and programs that were: a graph of
        # the caller's runs at any time, whatever runs the call by then.
        self._of_graphs: dict[int, Any] = {}
        self._cupy = cupy

    def begin_thread(self) -> None:
        """Bind the current device's primary context to this thread, as CUDA's runtime would."""
        self._use_device(0)

    def scratch(self, nbytes: int, stream: int, use: str = "program") -> int:
        """The address of scratch memory of a thread and a stream, shared by programs in turn.

        What is in it at the same time has another `use`. Large memory goes back to CuPy's pool,
        which gives it to later work of the stream only.
        """
        blocks: dict[tuple[str, int, int], Any] | None = getattr(self._local, "blocks", None)
        if blocks is None:
            blocks = self._local.blocks = {}
        if nbytes > _KEPT_BYTES:
            blocks[use, 0, 0] = block = self._allocate(nbytes)
            return self._place(block, stream)
        size = 1 << max(_LEAST_BITS, (nbytes - 1).bit_length())
        block = blocks.get((use, size, stream))
        if block is None:
            block = blocks[use, size, stream] = self._allocate(size)
        return self._place(block, stream)

    def kept_blocks(self) -> object:
        """An object that keeps the calling thread's scratch memory."""
        return getattr(self._local, "blocks", None)

    def memory_of_graph(self, nbytes: int) -> int:
        """The address of memory for one captured launch, whose graph may run beside others."""
        memory = self._allocate(nbytes)
        self._of_graphs[memory.ptr] = memory
        return memory.ptr

    def keep(self, program: object) -> None:
        """Keep a captured program alive."""
        self._of_graphs[-id(program)] = program

    def _place(self, memory: Any, stream: int) -> int:
        """The address of memory, which is kept alive if the stream is being captured."""
        if self.is_in_capture(stream):
            self._of_graphs[memory.ptr] = memory
        return memory.ptr

    def is_in_capture(self, stream: int) -> bool:
        """Whether a stream is being captured into a graph of the caller's."""
        return stream != _LEGACY_STREAM and self.is_captured(stream)

    def recorded(
        self, launches: Sequence[Callable[..., None]], arguments: int
    ) -> RecordedGraph | None:
        """Record launches as a graph; None where capture fails."""
        graphs = self.graphs()
        if graphs is None:
            return None
        try:
            stream = self._cupy.cuda.Stream(non_blocking=True)
            with stream:
                stream.begin_capture()
                for kernel in launches:
                    kernel(stream.ptr, arguments, 0)
                graph = stream.end_capture()
        except self._cupy.cuda.runtime.CUDARuntimeError:
            return None
        nodes = graphs.nodes(graph.graph, arguments)
        return RecordedGraph(graph, graph.graphExec, tuple(nodes)) if nodes else None

    def zeros(self, nbytes: int, stream: int) -> Any:
        """Memory zeroed before later work on the current stream, `stream`.

        A captured stream would zero it whenever its graph runs, so another stream does it before.
        """
        if not self.is_in_capture(stream):
            return self._filled(nbytes)
        with self._cupy.cuda.Stream(non_blocking=True) as other:
            memory = self._filled(nbytes)
            other.synchronize()
        self._place(memory, stream)
        return memory

    def _filled(self, nbytes: int) -> Any:
        memory = self._allocate(nbytes)
        memory.memset_async(0, nbytes)
        return memory


class OnDevice(Protocol):
    """The device as its programs see it."""

    functions: Functions

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CudaProgram:
        """Compiles another program."""
        ...


@dataclass(slots=True)
class PackedArguments:
    """Values of a launch's arguments, 8 bytes each, and the array of their addresses.

    Behind them come the addresses of tensor maps, where a program has some. They belong to a thread
    and a stream, and so does the `graph` that some of the `launches` become.
    """

    values: Any
    places: Any
    address: int
    scratch: int  # position of the scratch memory; behind it that of counters
    maps: TensorMaps | None = None
    counters: Any = None  # memory that is zero between launches, of a thread's on one stream
    launches: int = 0
    graph: NativeRecord | None = None

    @classmethod
    def of(
        cls, arrays: int, sizes: Sequence[int], *, counters: bool, maps: TensorMaps | None = None
    ) -> PackedArguments:
        """Arguments for `arrays` arrays, scratch memory, counters, sizes and maps."""
        before = arrays + 1 + counters
        count = before + len(sizes)
        values = (ctypes.c_int64 * count)(*(0 for _ in range(before)), *sizes)
        first = ctypes.addressof(values)
        addresses = [first + 8 * n for n in range(count)] + (maps.addresses if maps else [])
        places = (ctypes.c_void_p * len(addresses))(*addresses)
        return cls(values, places, ctypes.addressof(places), arrays, maps)


class CudaProgram:
    """A compiled program bound to sizes, launched asynchronously on the current stream."""

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
        self._has_more = bool(self.scratch_bytes or source.maps)
        self._local = threading.local()

    @cached_property
    def _for_unaligned(self) -> CudaProgram:
        """The variant for unaligned arrays, compiled on first use."""
        assert self.source.unaligned is not None
        return self.device.compile(self.source.unaligned, self.sizes)

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CudaProgram:
        """Rebind the program to other sizes, without compiling again."""
        return CudaProgram(self.device, self.kernels, self.source, sizes)

    @cached_property
    def _launch(self) -> Callable[..., None]:
        return self.launcher()

    def __call__(self, *arrays: Array) -> None:
        """Enqueues the kernels on the current stream."""
        self._launch(*arrays)

    def _begun(self, stream: int) -> PackedArguments:
        """Create the arguments of a thread and a stream; sets up a new thread."""
        functions = self.device.functions
        streams: dict[int, PackedArguments] | None = getattr(self._local, "streams", None)
        if streams is None:
            functions.begin_thread()
            self._local.streams = streams = {}
        counters = self.counter_bytes > 0
        arguments = PackedArguments.of(
            self._arrays, self.sizes, counters=counters, maps=self._maps()
        )
        if counters:
            arguments.counters = functions.zeros(self.counter_bytes, stream)
            arguments.values[arguments.scratch + 1] = arguments.counters.ptr
        streams[stream] = arguments
        return arguments

    @cached_property
    def _graphs(self) -> GraphLaunches | None:
        """The table of graphs; None where launches stay single.

        Large scratch memory lies elsewhere in each launch.
        """
        functions = self.device.functions
        driver, native = functions.graphs(), functions.native()
        if driver is None or native is None or self.scratch_bytes > _KEPT_BYTES:
            return None
        functions.begin_thread()
        return GraphLaunches(
            native,
            driver.launching,
            self._at,
            arrays=self._arrays,
            context=driver.context(),
            misaligned=_MISALIGNED if self.source.unaligned is not None else 0,
        )

    def _record(self, arguments: PackedArguments, stream: int) -> None:
        """Has further launches of a thread on a stream be a graph's."""
        functions = self.device.functions
        if self._graphs is None:
            return
        recorded = functions.recorded(self.launches, arguments.address)
        if recorded is None:
            return
        graph = LaunchedGraph(
            stream,
            recorded.executable,
            ctypes.addressof(arguments.values),
            [(node, ctypes.addressof(parameters)) for node, parameters in recorded.nodes],
            arguments.maps.words() if arguments.maps else (),
            (recorded, arguments, functions.kept_blocks()),
        )
        arguments.graph = self._graphs.add(graph)

    def _add_memory(self, arguments: PackedArguments, stream: int) -> None:
        """Fill in tensor maps, and the address of scratch memory."""
        if arguments.maps is not None:
            arguments.maps.encode(arguments.values)
        if self.scratch_bytes:
            memory = self.device.functions.scratch(self.scratch_bytes, stream)
            arguments.values[arguments.scratch] = memory

    def _maps(self) -> TensorMaps | None:
        """Storage for the program's tensor maps; None without any."""
        maps, arguments = self.source.maps, self.source.arguments
        if not maps:
            return None
        names = [argument.name for argument in arguments]
        positions = [names.index(each.buffer) for each in maps]
        return TensorMaps(maps, positions, self.device.functions.encode())

    def beginner(self, *, behind: bool = False) -> tuple[Callable[..., None], None]:
        """The launcher, and no wait: on a GPU, NumPy-like calls return after enqueueing."""
        return self.launcher(), None

    def launcher(self) -> Callable[..., None]:
        """A function equivalent to a call, with all attribute look-ups hoisted.

        A thread's launches on a stream are a graph's after a while, as long as nobody captures it.
        """
        functions, at, anew = self.device.functions, self._at_once, self._anew
        current_stream = functions.current_stream

        def launch(*arrays: Array) -> None:
            stream, places = current_stream().ptr, tuple([array.data.ptr for array in arrays])
            if not at(stream, places):
                anew(places, stream)

        def launch_of_three(first: Array, second: Array, third: Array) -> None:
            # Most programs; spelt out, since this is most of a small call.
            stream = current_stream().ptr
            places = first.data.ptr, second.data.ptr, third.data.ptr
            if not at(stream, places):
                anew(places, stream)

        found = launch_of_three if self._arrays == 3 else launch
        found.at, found.functions = at, functions  # pyright: ignore[reportFunctionMemberAccess]
        return found

    @cached_property
    def _at_once(self) -> At:
        """The launch at addresses: by graphs, where there are any."""
        return self._at if self._graphs is None else self._graphs.launch

    @cached_property
    def _at(self) -> At:
        """The launch at addresses, without a graph; False if the device is not current."""
        functions, anew = self.device.functions, self._anew
        current_stream, current_device = functions.current_stream, functions.current_device
        own_device = current_device()

        def at(stream: int, places: tuple[int, ...]) -> bool:
            if current_device() != own_device:
                return False
            if stream == current_stream().ptr:
                anew(places, stream)
            else:
                with functions.on_stream(stream):  # whose memory it gets
                    anew(places, stream)
            return True

        return at

    def _anew(self, places: tuple[int, ...], stream: int) -> None:
        """Launch at addresses without a graph, on the current stream."""
        if self.source.unaligned is not None and any(place & _MISALIGNED for place in places):
            self._for_unaligned._anew(places, stream)
            return
        is_free = not self.device.functions.is_in_capture(stream)
        if is_free:
            self._launched(places, stream, is_free=True)
        else:
            self.device.functions.keep(self)
            with beside_captures():
                self._launched(places, stream, is_free=False)

    def _launched(self, places: tuple[int, ...], stream: int, *, is_free: bool) -> None:
        try:
            arguments = self._local.streams[stream]
        except (AttributeError, KeyError):
            arguments = self._begun(stream)
        if arguments.graph is not None:
            arguments.graph[GraphWords.IS_HANDED] = 0
        arguments.values[: len(places)] = places
        if self._has_more:
            self._add_memory(arguments, stream)
        for kernel in self.launches:
            kernel(stream, arguments.address, 0)
        if is_free and arguments.launches < WORTH_RECORDING:
            arguments.launches += 1
            if arguments.launches == WORTH_RECORDING:
                self._record(arguments, stream)
