"""Launches of compiled kernels on CuPy arrays, with little overhead over the driver's call.

The arguments of a launch lie in memory of its thread; the driver copies them before it returns.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from mdtensor.backends.cuda.cuda_graphs import DriverGraphs, driver_graphs, native_launches
from mdtensor.backends.cuda.cuda_stream import beside_captures, stream_at
from mdtensor.backends.cuda.sequence_graphs import KEPT_BYTES, MISALIGNED, SequenceGraphs
from mdtensor.backends.cuda.tensor_maps import Encode, TensorMaps, encode_function
from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.llvm.graph_launches import At
from mdtensor.backends.llvm.native_launch import NativeLaunch
from mdtensor.dataclass import dataclass
from mdtensor.forks import cached_property
from mdtensor.kernels.kernel_source import KernelSource

Array = Any
_LEAST_BITS = 10  # of the bytes of a block of scratch memory that is kept
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
        if nbytes > KEPT_BYTES:
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
    and a stream.
    """

    values: Any
    places: Any
    address: int
    scratch: int  # position of the scratch memory; behind it that of counters
    maps: TensorMaps | None = None
    counters: Any = None  # memory that is zero between launches, of a thread's on one stream

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
            self._arrays, self.sizes, counters=counters, maps=self.maps(range(self._arrays))
        )
        if counters:
            arguments.counters = functions.zeros(self.counter_bytes, stream)
            arguments.values[arguments.scratch + 1] = arguments.counters.ptr
        streams[stream] = arguments
        return arguments

    @property
    def others(self) -> int:
        """The number of arguments between the arrays and the tensor maps."""
        return 1 + (self.counter_bytes > 0) + len(self.sizes)

    def others_on(self, stream: int) -> tuple[list[int], Any]:
        """The arguments between arrays and maps, for a thread and a stream; and memory of theirs.

        That is scratch memory and counters that are zero, where there are some, and sizes.
        """
        functions, counters = self.device.functions, None
        found = [functions.scratch(self.scratch_bytes, stream) if self.scratch_bytes else 0]
        if self.counter_bytes:
            counters = functions.zeros(self.counter_bytes, stream)
            found.append(counters.ptr)
        return [*found, *self.sizes], counters

    def _add_memory(self, arguments: PackedArguments, stream: int) -> None:
        """Fill in tensor maps, and the address of scratch memory."""
        if arguments.maps is not None:
            arguments.maps.encode(arguments.values)
        if self.scratch_bytes:
            memory = self.device.functions.scratch(self.scratch_bytes, stream)
            arguments.values[arguments.scratch] = memory

    def maps(self, places: Sequence[int]) -> TensorMaps | None:
        """Storage for the program's tensor maps, of arrays at these places; None without any."""
        maps, arguments = self.source.maps, self.source.arguments
        if not maps:
            return None
        names = [argument.name for argument in arguments]
        positions = [places[names.index(each.buffer)] for each in maps]
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
        found.at, found.program = at, self  # pyright: ignore[reportFunctionMemberAccess]
        return found

    @cached_property
    def _at_once(self) -> At:
        """The launch at addresses: by graphs, where there are any."""
        return SequenceGraphs([(self, range(self._arrays))], self._arrays, (), 0, self.at).launch

    @cached_property
    def at(self) -> At:
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
        if self.source.unaligned is not None and any(place & MISALIGNED for place in places):
            self._for_unaligned._anew(places, stream)
            return
        if not self.device.functions.is_in_capture(stream):
            self._launched(places, stream)
        else:
            self.device.functions.keep(self)
            with beside_captures():
                self._launched(places, stream)

    def _launched(self, places: tuple[int, ...], stream: int) -> None:
        try:
            arguments = self._local.streams[stream]
        except (AttributeError, KeyError):
            arguments = self._begun(stream)
        arguments.values[: len(places)] = places
        if self._has_more:
            self._add_memory(arguments, stream)
        for kernel in self.launches:
            kernel(stream, arguments.address, 0)
