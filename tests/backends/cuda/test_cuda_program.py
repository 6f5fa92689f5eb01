"""What launches hand to CUDA's driver, which a recorder stands for here."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mdtensor.backends.cuda.cuda_graphs import (
    WORTH_RECORDING,
    DriverGraphs,
    KernelParameters,
    native_launches,
)
from mdtensor.backends.cuda.cuda_program import CudaProgram, Functions
from mdtensor.backends.cuda.cuda_sequence import in_sequence
from mdtensor.backends.llvm.graph_launches import GraphDriver, address_of
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.program import program_of
from tests.lower.codegen.groups.test_last_block_reduction import dot
from tests.lower.codegen.register_blocking.test_register_blocking import CASES
from tests.lower.codegen.tma.test_wgmma_loop import CASES as BULK_CASES


class Array:
    """An array at an address."""

    def __init__(self, place: int) -> None:
        self.data = SimpleNamespace(ptr=place)
        self.shape = (4, 6)


CAPTURING = 77


class Stream:
    """A stream that is captured; `graphExec` is the number of launches in its graph."""

    ptr = CAPTURING

    def __init__(self, driver: Driver, *, non_blocking: bool) -> None:
        assert non_blocking
        self.driver = driver

    def __enter__(self) -> Stream:
        self.driver.on.append(CAPTURING)
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.on.pop()

    def synchronize(self) -> None:
        self.driver.waited.append(self.ptr)

    def begin_capture(self) -> None:
        self.before = len(self.driver.launches)

    def end_capture(self) -> Any:
        count = len(self.driver.launches) - self.before
        return SimpleNamespace(graph=count, graphExec=count)


class Memory:
    """Some bytes of the device, which notes the stream that fills them."""

    def __init__(self, ptr: int, driver: Driver) -> None:
        self.ptr, self.driver = ptr, driver

    def memset_async(self, value: int, nbytes: int) -> None:
        assert value == 0
        self.driver.filled.append((self.ptr, (self.driver.on or [self.driver.stream])[-1]))


@dataclass
class Driver:
    """Notes the launches with the arguments that they have at that moment."""

    launches: list[tuple[Any, ...]] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    stream: int = 7
    allocated: list[int] = field(default_factory=list)
    memory: list[weakref.ref[Memory]] = field(default_factory=list)
    count: int = 0
    graphs: list[tuple[int, int]] = field(default_factory=list)
    is_captured: list[int] = field(default_factory=list)
    on: list[int] = field(default_factory=list)  # streams that are current for a while
    filled: list[tuple[int, int]] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)

    def launch(self, function: int, *given: int) -> None:
        *shape, stream, places, extra = given
        addresses = (ctypes.c_void_p * self.count).from_address(places)
        values = tuple(ctypes.c_int64.from_address(a).value for a in addresses)
        assert extra == 0
        self.launches.append((function, tuple(shape), stream, values))

    def launch_graph(self, graph: int, stream: int) -> None:
        self.graphs.append((stream, graph))

    def allocate(self, nbytes: int) -> Any:
        self.allocated.append(nbytes)
        memory = Memory(0x10000 * len(self.allocated), self)
        self.memory.append(weakref.ref(memory))
        return memory

    def cupy(self) -> Any:
        cuda = SimpleNamespace(
            driver=SimpleNamespace(launchKernel=self.launch),
            get_current_stream=lambda: SimpleNamespace(ptr=self.stream),
            runtime=SimpleNamespace(
                getDevice=lambda: 0,
                free=lambda _: self.threads.append(threading.get_ident()),
                graphLaunch=self.launch_graph,
                streamIsCapturing=self.is_captured.__contains__,
            ),
            Stream=partial(Stream, self),
        )
        pool = SimpleNamespace(malloc=self.allocate)
        return SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool)


@dataclass
class Device:
    driver: Driver

    def __post_init__(self) -> None:
        self.functions = Functions(self.driver.cupy())
        self.functions.graphs = self.functions.native = lambda: None
        self.compiled: list[KernelSource] = []

    def compile(self, source: KernelSource, sizes: Any = ()) -> CudaProgram:
        self.compiled.append(source)
        return made(self, source, sizes)


CONTEXT = 0x44


class GraphsOf:
    """The driver's functions on graphs; notes the arguments that they are handed."""

    def __init__(self, device: Device) -> None:
        self.driver, self.context, self.error = device.driver, CONTEXT, 0
        self.handed: list[tuple[int, ...]] = []
        self.encoded: list[tuple[Any, ...]] = []
        place, number, kept = ctypes.c_void_p, ctypes.c_int, ctypes.CFUNCTYPE
        self.encode = kept(number, place, number, number, *[place] * 5, *[number] * 4)(self._encode)
        self._functions = (
            kept(number, place)(self._current),
            kept(number, place, place)(self._capturing),
            kept(number, place, place, place)(self._set),
            kept(number, place, place)(self._launch),
            self.encode,
        )
        driver = GraphDriver(*map(address_of, self._functions))
        self.built: list[tuple[int, ...]] = []  # the arguments that kernels of graphs begin with
        make, end = (self._create, self._add, self._instantiate), (lambda _: 0, lambda _: 0)
        graphs = DriverGraphs(*make, *end, self._functions[0], driver)
        device.functions.graphs = lambda: graphs
        device.functions.native = native_launches
        if native_launches() is None:
            pytest.skip("no launch runtime")

    def _create(self, graph: Any, flags: int) -> int:
        graph._obj.value, self.nodes = 0x70, 0
        return 0

    def _add(self, node: Any, graph: Any, before: Any, count: int, parameters: Any) -> int:
        node._obj.value = 0x10 + self.nodes
        self.nodes += 1
        self.driver.launch(0, 0, parameters._obj.arguments, 0)
        self.built.append(self.driver.launches.pop()[3])
        return 0

    def _instantiate(self, executable: Any, graph: Any, flags: Any) -> int:
        executable._obj.value = self.nodes
        return 0

    def _current(self, to: int) -> int:
        ctypes.c_void_p.from_address(to).value = self.context
        return 0

    def _capturing(self, stream: int, to: int) -> int:
        ctypes.c_int.from_address(to).value = int(stream in self.driver.is_captured)
        return 0

    def _set(self, executable: int, node: int, parameters: int) -> int:
        own = KernelParameters.from_address(parameters)
        if node == 0x10:
            self.driver.launch(0, 0, own.arguments, 0)
            self.handed.append(self.driver.launches.pop()[3][:3])
        return self.error

    def _launch(self, executable: int, stream: int) -> int:
        self.driver.graphs.append((stream or 0, executable))
        return 0

    def _encode(self, to: int, kind: int, rank: int, begin: int, *given: int) -> int:
        arrays = [
            (size * count).from_address(each)[:]
            for each, size, count in zip(
                given,
                (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32),
                (rank, rank - 1, rank, rank),
                strict=False,
            )
        ]
        self.encoded.append((begin, kind, *map(tuple, arrays), *given[4:]))
        return 0


def at(program: CudaProgram, *arrays: Any) -> None:
    """A launch at the addresses of arrays, on the current stream."""
    stream = program.device.functions.current_stream().ptr
    assert program.launcher().at(stream, tuple([array.data.ptr for array in arrays]))


def made(device: Device, source: KernelSource, sizes: Any = ()) -> CudaProgram:
    device.driver.count = len(source.arguments) + len(sizes)
    kernels = [SimpleNamespace(ptr=100 + n) for n in range(len(source.entries))]
    return CudaProgram(device, kernels, source, sizes)


def source_of(name: str) -> KernelSource:
    case = CASES[name]
    return program_of(case.problem(), case.schedule, CUDA)


@pytest.fixture
def device() -> Device:
    return Device(Driver())


def test_a_launch_has_the_arrays_addresses_and_the_current_stream(device: Device) -> None:
    program = made(device, source_of("whole blocks"))
    program(Array(0x100), Array(0x200), Array(0x300))
    device.driver.stream = 9
    program.launcher()(Array(0x400), Array(0x500), Array(0x600))
    groups, items = 4, 32
    shape = (groups, 1, 1, items, 1, 1, 0)
    assert device.driver.launches == [
        (100, shape, 7, (0x100, 0x200, 0x300, 0)),
        (100, shape, 9, (0x400, 0x500, 0x600, 0)),
    ]


def test_scratch_memory_is_one_block_per_thread_and_stream(device: Device) -> None:
    program = made(device, source_of("parts of a reduction"))
    arrays = Array(0x100), Array(0x200), Array(0x300)
    program(*arrays)
    program(*arrays)
    assert [launch[0] for launch in device.driver.launches] == [100, 101] * 2
    assert {launch[3][3] for launch in device.driver.launches} == {0x10000}
    assert device.driver.allocated == [1 << (program.scratch_bytes - 1).bit_length()]
    device.driver.stream = 8
    program(*arrays)
    other = threading.Thread(target=program, args=arrays)
    other.start()
    other.join()
    assert [launch[3][3] for launch in device.driver.launches[4::2]] == [0x20000, 0x30000]
    assert len(set(device.driver.threads)) == 2


def test_a_sequence_has_memory_beside_that_of_its_programs(device: Device) -> None:
    program = made(device, source_of("parts of a reduction"))
    launch = program.launcher()
    steps = [
        (launch, itemgetter(0, 1, 3)),
        (launch, itemgetter(3, 1, 4)),
        (launch, itemgetter(4, 0, 2)),
    ]
    run = in_sequence(steps, 3, [100, 200])
    run(Array(0x100), Array(0x200), Array(0x300))
    between, scratch = 0x10000, 0x20000
    assert [each[3] for each in device.driver.launches[::2]] == [
        (0x100, 0x200, between, scratch),
        (between, 0x200, between + 256, scratch),
        (between + 256, 0x100, 0x300, scratch),
    ]
    device.driver.stream = 9
    assert run.at(9, (0x100, 0x200, 0x300))
    assert {each[2] for each in device.driver.launches[6:]} == {9}
    assert len(device.driver.allocated) == 4
    other = threading.Thread(target=run, args=(Array(0x100), Array(0x200), Array(0x300)))
    other.start()
    other.join()
    assert len(device.driver.allocated) == 6


def test_a_sequence_becomes_a_graph(device: Device) -> None:
    launches, driver = GraphsOf(device), device.driver
    program = made(device, source_of("parts of a reduction"))
    launch = program.launcher()
    run = in_sequence([(launch, itemgetter(0, 1, 3)), (launch, itemgetter(3, 1, 2))], 3, [100])
    for _ in range(WORTH_RECORDING):
        run(Array(0x100), Array(0x200), Array(0x300))
    last = [each[3] for each in driver.launches[-4:]]
    driver.launches.clear()
    run(Array(0x100), Array(0x200), Array(0x300))
    assert (driver.launches, driver.graphs) == ([], [(7, 4)])
    assert launches.handed == [last[0][:3]]
    # Scratch memory and what lies between are those of the launches before.
    assert [arguments[2:] for arguments in launches.built[:2]] == [each[2:] for each in last[:2]]
    assert [arguments[3:] for arguments in launches.built[2:]] == [each[3:] for each in last[2:]]
    assert launches.built[2][0] == last[2][0]
    assert run.at(7, (0x100, 0x200, 0x400))
    assert len(driver.graphs) == 2


def test_captured_sequences_share_no_memory(device: Device) -> None:
    """Their graphs may run at the same time, on any streams."""
    launch = made(device, source_of("whole blocks")).launcher()
    run = in_sequence([(launch, itemgetter(0, 1, 3)), (launch, itemgetter(3, 1, 2))], 3, [100])
    device.driver.is_captured.append(7)
    for _ in range(2):
        run(Array(0x100), Array(0x200), Array(0x300))
    between = [each[3][2] for each in device.driver.launches[::2]]
    assert len(set(between)) == 2
    gc.collect()
    assert all(memory() is not None for memory in device.driver.memory)


def test_large_scratch_memory_goes_back(device: Device) -> None:
    source = source_of("parts of a reduction")
    large = tuple(replace(e, scratch=e.scratch * (1 << 20)) for e in source.entries)
    program = made(device, replace(source, entries=large))
    for _ in range(2):
        program(Array(0x100), Array(0x200), Array(0x300))
    assert device.driver.allocated == [program.scratch_bytes] * 2


def test_sizes_follow_the_scratch_memory(device: Device) -> None:
    source = source_of("general")
    sizes = range(1, 1 + len(source.sizes))
    program = made(device, source, tuple(sizes))
    program.bound(tuple(n + 50 for n in sizes))(Array(16), Array(32), Array(48))
    assert device.driver.launches[0][3] == (16, 32, 48, 0, *(n + 50 for n in sizes))


@pytest.mark.parametrize("moved", [None, 0, 1, 2])
def test_arrays_that_begin_anywhere_have_a_program_of_their_own(
    device: Device, moved: int | None
) -> None:
    source = source_of("whole blocks")
    program = made(device, source)
    places = [0x100, 0x200, 0x300]
    if moved is not None:
        places[moved] += 4
    for run in (program, program.launcher(), partial(at, program)):
        run(*map(Array, places))
    assert device.compiled == ([] if moved is None else [source.unaligned])
    assert [launch[3][:3] for launch in device.driver.launches] == [tuple(places)] * 3


def test_arrays_are_not_kept_alive(device: Device) -> None:
    launch = made(device, source_of("whole blocks")).launcher()
    launch(Array(0x100), Array(0x200), Array(0x300))
    launch(Array(0x500), Array(0x600), Array(0x700))
    assert device.driver.launches[-1][3][:3] == (0x500, 0x600, 0x700)
    assert np.array_equal(device.driver.launches[0][3][:3], (0x100, 0x200, 0x300))


def test_tensor_maps_follow_the_other_arguments(device: Device) -> None:
    encoded: list[int] = []

    def encode(to: Any, kind: int, rank: int, begin: Any, *_: Any) -> int:
        encoded.append(begin.value)
        ctypes.c_int64.from_address(to.value).value = begin.value + rank
        return 0

    device.functions.encode = lambda: encode
    case = BULK_CASES["a batch"]
    program = made(device, program_of(case.problem(), case.schedule, CUDA))
    device.driver.count += 3
    for places in ((0x100, 0x200, 0x300), (0x100, 0x400, 0x300)):
        program(*map(Array, places))
    assert encoded == [0x100, 0x200, 0x300, 0x100, 0x400, 0x300]
    first, last = (launch[3] for launch in device.driver.launches)
    assert first == (0x100, 0x200, 0x300, 0, 0x103, 0x203, 0x303)
    assert last == (0x100, 0x400, 0x300, 0, 0x103, 0x403, 0x303)


def test_arrays_that_are_not_aligned_need_no_tensor_maps(device: Device) -> None:
    device.functions.encode = lambda: lambda *_: pytest.fail("a map was encoded")
    case = BULK_CASES["a batch"]
    program = made(device, program_of(case.problem(), case.schedule, CUDA))
    program(Array(0x102), Array(0x200), Array(0x300))
    assert device.compiled == [program.source.unaligned]
    assert device.driver.launches[0][3] == (0x102, 0x200, 0x300, 0)


def test_launches_become_a_graphs(device: Device) -> None:
    launches, driver = GraphsOf(device), device.driver
    launch = made(device, source_of("whole blocks")).launcher()
    first, second, out, another = map(Array, (0x100, 0x200, 0x300, 0x400))
    for _ in range(WORTH_RECORDING + 2):
        launch(first, second, out)
    assert len([each for each in driver.launches if each[2] == 7]) == WORTH_RECORDING
    assert len(launches.built) == 1
    assert driver.graphs == [(7, 1)] * 2
    assert launches.handed == [(0x100, 0x200, 0x300)], "once, since nothing has changed"
    launch(first, second, another)
    launch(first, second, out)
    assert launches.handed[1:] == [(0x100, 0x200, 0x400), (0x100, 0x200, 0x300)]
    assert driver.graphs == [(7, 1)] * 4


@pytest.mark.parametrize("by_address", [False, True], ids=["arrays", "addresses"])
def test_what_is_unusual_is_no_graphs(device: Device, by_address: bool) -> None:
    launches, driver = GraphsOf(device), device.driver
    program = made(device, source_of("whole blocks"))
    launch = partial(at, program) if by_address else program.launcher()
    first, second, out = map(Array, (0x100, 0x200, 0x300))
    for _ in range(WORTH_RECORDING):
        launch(first, second, out)

    def runs_singly() -> bool:
        single, graphs = len(driver.launches), len(driver.graphs)
        launch(first, second, out)
        single, graphs = len(driver.launches) - single, len(driver.graphs) - graphs
        assert single + graphs == 1
        return single == 1

    assert not runs_singly()
    driver.is_captured.append(7)
    assert runs_singly()
    driver.is_captured.clear()
    assert not runs_singly()
    driver.stream = 5
    assert runs_singly()
    driver.stream = 7
    launches.context = 0x99  # another device is current
    assert runs_singly()
    launches.context = CONTEXT
    out.data.ptr = 0x400
    launches.error = 1  # of the driver, which does not take the arguments
    assert runs_singly()
    launches.error = 0
    assert not runs_singly()
    assert launches.handed[-1] == (0x100, 0x200, 0x400)


def test_a_graph_has_the_tensor_maps_of_its_arrays(device: Device) -> None:
    launches, driver = GraphsOf(device), device.driver
    case = BULK_CASES["a batch"]
    program = made(device, program_of(case.problem(), case.schedule, CUDA))
    driver.count += len(program.source.maps)
    device.functions.encode = lambda: launches.encode
    arrays = list(map(Array, (0x100, 0x200, 0x300)))
    for _ in range(WORTH_RECORDING):
        program(*arrays)
    single = launches.encoded[-len(program.source.maps) :]
    launches.encoded.clear()
    program(*arrays)
    assert driver.graphs == [(7, 1)]
    assert launches.encoded == single
    arrays[0] = Array(0x1100)
    program(*arrays)
    moved = [(begin - 0x1000, *rest) for begin, *rest in launches.encoded[len(single) :]]
    assert [a for a, b in zip(moved, single, strict=True) if a == b] == [
        each for each in single if each[0] < 0x200
    ]
    misaligned = Array(0x102)
    program(misaligned, *arrays[1:])
    assert device.compiled == [program.source.unaligned]


def test_threads_have_graphs_of_their_own(device: Device) -> None:
    launches, driver = GraphsOf(device), device.driver
    program = made(device, source_of("parts of a reduction"))
    arrays = tuple(map(Array, (0x100, 0x200, 0x300)))

    def many() -> None:
        for _ in range(WORTH_RECORDING + 1):
            program(*arrays)

    many()
    other = threading.Thread(target=many)
    other.start()
    other.join()
    captured = [arguments[3] for arguments in launches.built]
    assert driver.graphs == [(7, 2)] * 2
    assert len(set(captured)) == 2, "scratch memory of each"
    held = {memory.ptr for ref in driver.memory if (memory := ref())}
    assert set(captured) <= held, "which is there as long as the graph is"
    assert launches.handed


def test_scratch_memory_that_lies_elsewhere_each_time_keeps_launches_single(
    device: Device,
) -> None:
    device.driver.stream = 0
    source = source_of("parts of a reduction")
    large = tuple(replace(e, scratch=e.scratch * (1 << 20)) for e in source.entries)
    program = made(device, replace(source, entries=large))
    for _ in range(2 * WORTH_RECORDING):
        program(Array(0x100), Array(0x200), Array(0x300))
    assert device.driver.graphs == []
    assert len({launch[3][3] for launch in device.driver.launches}) == 2 * WORTH_RECORDING


def counting() -> KernelSource:
    """A program whose groups count themselves."""
    case = dot(last_group=True)
    return program_of(case.problem(), case.schedule, CUDA)


def test_counters_are_a_threads_own_on_each_stream(device: Device) -> None:
    """Streams of threads have one name, and are several."""
    program = made(device, counting())
    arrays = Array(0x100), Array(0x200), Array(0x300)
    program(*arrays)
    program(*arrays)
    other = threading.Thread(target=program, args=arrays)
    other.start()
    other.join()
    counters = [launch[3][4] for launch in device.driver.launches]
    assert counters[0] == counters[1] != counters[2]
    assert device.driver.filled == [(counters[0], 7), (counters[2], 7)]


@pytest.mark.parametrize("is_large", [False, True])
def test_a_graph_keeps_what_captured_launches_have(device: Device, is_large: bool) -> None:
    source = counting()
    if is_large:
        large = tuple(replace(e, scratch=e.scratch * (1 << 24)) for e in source.entries)
        source = replace(source, entries=large)
    arrays = Array(0x100), Array(0x200), Array(0x300)

    def work() -> None:
        program = made(device, source)
        program(*arrays)
        device.driver.is_captured.append(7)
        device.driver.stream = 7
        program(*arrays)
        device.driver.is_captured.clear()
        program(*arrays)

    device.driver.stream = 8
    other = threading.Thread(target=work)
    other.start()
    other.join()
    gc.collect()
    _, captured, _ = (launch[3][3:5] for launch in device.driver.launches)
    held = [memory.ptr for ref in device.driver.memory if (memory := ref())]
    assert sorted(held) == sorted(captured)


@pytest.mark.parametrize("is_captured", [False, True])
def test_a_program_that_was_captured_is_kept(device: Device, is_captured: bool) -> None:
    """A graph runs its machine code at any time, whatever program serves the call by then."""
    program = made(device, counting())
    if is_captured:
        device.driver.is_captured.append(7)
        device.driver.stream = 7
    program(Array(0x100), Array(0x200), Array(0x300))
    seen = weakref.ref(program)
    del program
    gc.collect()
    assert (seen() is not None) == is_captured


def test_counters_of_a_captured_launch_are_zero_before_its_graph_runs(device: Device) -> None:
    device.driver.is_captured.append(7)
    program = made(device, counting())
    program(Array(0x100), Array(0x200), Array(0x300))
    (launch,) = device.driver.launches
    assert device.driver.filled == [(launch[3][4], CAPTURING)]
    assert device.driver.waited == [CAPTURING]
