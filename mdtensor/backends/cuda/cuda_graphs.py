"""Launches recorded as CUDA graphs, relaunched with updated kernel arguments.

A graph's launch takes the driver half as long as a kernel's. CuPy launches graphs; what changes
the arguments of one is the driver's own, by ctypes without releasing the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from mdtensor.dataclass import dataclass
from mdtensor.errors import LaunchError

# Launches from which one of all kernels as a graph pays: recording it takes the time of some
# dozens. And graphs that a thread keeps of a program on a stream.
WORTH_RECORDING = 64
_MOST_GRAPHS = 4
# What launches graphs on a stream, by where the arrays are that they were handed.
Known = dict[tuple[int, ...], Callable[[int], None]]


class _KernelParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS of the driver's interface since CUDA 12."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("shape", ctypes.c_uint * 7),  # grid, block, bytes of dynamic shared memory
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class DriverGraphs:
    """The driver API's functions on graphs; each returns an error code, 0 for success."""

    nodes: Callable[..., int]
    parameters: Callable[..., int]
    set_parameters: Callable[..., int]

    def updates(
        self, graph: int, executable: int, arguments: int
    ) -> list[Callable[[], int]] | None:
        """Functions that copy the arguments' current values to a graph's kernel nodes, in order.

        They return the driver's error, 0 for none. None where the driver does not tell the nodes.
        """
        count = ctypes.c_size_t(0)
        if self.nodes(ctypes.c_void_p(graph), None, ctypes.byref(count)):
            return None
        nodes = (ctypes.c_void_p * count.value)()
        of = ctypes.c_void_p(executable)
        if self.nodes(ctypes.c_void_p(graph), nodes, ctypes.byref(count)):
            return None
        found: list[Callable[[], int]] = []
        for node in nodes:
            own = _KernelParameters()
            if self.parameters(ctypes.c_void_p(node), ctypes.byref(own)):
                return None
            own.arguments, own.extra = arguments, None
            own_place = ctypes.byref(own)  # keeps them, too
            found.append(partial(self.set_parameters, of, ctypes.c_void_p(node), own_place))
        return found


@cache
def driver_graphs() -> DriverGraphs | None:
    """The driver API's graph functions; None if the driver is missing or older than CUDA 12."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.PyDLL(library)
        return DriverGraphs(
            driver.cuGraphGetNodes,
            driver.cuGraphKernelNodeGetParams_v2,
            driver.cuGraphExecKernelNodeSetParams_v2,
        )
    except (OSError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class RecordedGraph:
    """An executable graph, its launch on a stream, and the updates of its kernels' arguments.

    These hand it the arguments' present values, kernel by kernel, and return the driver's error or
    0; there are none where the driver cannot.
    """

    graph: Any
    launch: Callable[[int], None]
    updates: Sequence[Callable[[], int]] = ()


class Graphs:
    """A thread's cache of graphs for a program on a stream, by the arrays' addresses.

    Most calls come with arrays where earlier ones were: memory that was freed is what CuPy's pool
    gives next. So there are some graphs, each with arguments of its own; `known` has what launches
    them, by the places of the arrays. Others are handed to the graph that was not for longest.
    """

    def __init__(self, record: Callable[[], RecordedGraph | None] | None) -> None:
        self.known: Known = {}
        self._record = record
        self._recorded: deque[tuple[tuple[int, ...], RecordedGraph]] = deque()
        self._times = 0

    def handed(self, places: tuple[int, ...]) -> Callable[[int], None] | None:
        """A launch of a graph with the current arguments; None to launch the kernels one by one.

        Another graph is recorded whenever so many launches found none with their arguments.
        """
        if self._record is None:
            return None
        self._times += 1
        recorded = self._recorded
        graph: RecordedGraph | None = None
        if self._times % WORTH_RECORDING == 0 and len(recorded) < _MOST_GRAPHS:
            graph = self._record()
            if graph is None:  # nor will it be
                self._record = None
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
