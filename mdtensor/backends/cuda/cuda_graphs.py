"""Launches as CUDA graphs, which are launched again with other arguments.

A graph's launch takes the driver half as long as a kernel's, arguments that are handed to it before
included. What hands them and launches is a [built-in function](../llvm/graph_launches.py).
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from mdtensor.backends.llvm import presence
from mdtensor.backends.llvm.graph_launches import GraphDriver, address_of
from mdtensor.backends.llvm.native_launch import NativeLaunch, has_lock
from mdtensor.dataclass import dataclass

# Launches after which a graph of all kernels pays: building it takes the time of some dozens.
WORTH_RECORDING = 64


class KernelParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS of the driver's interface since CUDA 12."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("shape", ctypes.c_uint * 7),  # grid, block, bytes of dynamic shared memory
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


# A kernel's launch: the driver's function with a kernel, its grid, block, and shared memory.
Launch = partial[None]


@dataclass
class BuiltGraph:
    """A graph with its executable's handle, and the handles and parameters of its kernels."""

    graph: int
    executable: int
    nodes: list[tuple[int, KernelParameters]]


@dataclass(frozen=True, slots=True)
class DriverGraphs:
    """The driver API's functions on graphs.

    `create`, `add`, `instantiate`, `destroy` and `forget` (an executable) return an error code, 0
    for success; `launching` has the addresses of what launches ask, `current` gives the calling
    thread's context.
    """

    create: Callable[..., int]
    add: Callable[..., int]
    instantiate: Callable[..., int]
    destroy: Callable[..., int]
    forget: Callable[..., int]
    current: Callable[..., int]
    launching: GraphDriver

    def built(self, launches: Sequence[tuple[Launch, int]]) -> BuiltGraph | None:
        """A graph of launches in order, each with the address of its arguments' addresses.

        None where the driver refuses.
        """
        graph, executable = ctypes.c_void_p(0), ctypes.c_void_p(0)
        if self.create(ctypes.byref(graph), 0):
            return None
        found = BuiltGraph(graph.value or 0, 0, [])
        weakref.finalize(found, self._end, graph, executable).atexit = False
        before: Any = None
        for launch, arguments in launches:
            function, *shape = launch.args
            own = KernelParameters(function, (ctypes.c_uint * 7)(*shape), arguments)
            node, count = ctypes.c_void_p(0), 0 if before is None else 1
            if self.add(ctypes.byref(node), graph, before, count, ctypes.byref(own)):
                return None
            found.nodes.append((node.value or 0, own))
            before = (ctypes.c_void_p * 1)(node)
        if self.instantiate(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)):
            return None
        found.executable = executable.value or 0
        return found

    def _end(self, graph: ctypes.c_void_p, executable: ctypes.c_void_p) -> None:
        if executable:
            self.forget(executable)
        self.destroy(graph)

    def context(self) -> int:
        """The handle of the calling thread's context; 0 for none."""
        found = ctypes.c_void_p(0)
        return 0 if self.current(ctypes.byref(found)) else found.value or 0


@cache
def driver_graphs() -> DriverGraphs | None:
    """The driver API's graph functions; None if the driver is missing or older than CUDA 12."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
        addresses = GraphDriver(
            *map(
                address_of,
                (
                    driver.cuCtxGetCurrent,
                    driver.cuStreamIsCapturing,
                    driver.cuGraphExecKernelNodeSetParams_v2,
                    driver.cuGraphLaunch,
                    getattr(driver, "cuTensorMapEncodeTiled", None),
                ),
            )
        )
        return DriverGraphs(
            driver.cuGraphCreate,
            driver.cuGraphAddKernelNode_v2,
            driver.cuGraphInstantiateWithFlags,
            driver.cuGraphDestroy,
            driver.cuGraphExecDestroy,
            driver.cuCtxGetCurrent,
            addresses,
        )
    except (OSError, AttributeError):
        return None


@cache
def native_launches() -> NativeLaunch | None:
    """The processor's launch runtime, which launches graphs; None where there is none."""
    if not presence.devices() or not has_lock():
        return None
    from mdtensor.backends.llvm.llvm_device import open_device

    return open_device().launches
