"""Launches recorded as CUDA graphs, which are launched again with other arguments.

A graph's launch takes the driver half as long as a kernel's, arguments that are handed to it before
included. What hands them and launches is a [built-in function](../llvm/graph_launches.py).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from mdtensor.backends.llvm import presence
from mdtensor.backends.llvm.graph_launches import GraphDriver, address_of
from mdtensor.backends.llvm.native_launch import NativeLaunch, has_lock
from mdtensor.dataclass import dataclass

# Launches after which a graph of all kernels pays: recording it takes the time of some dozens.
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


# A kernel of a graph: its handle, and its parameters.
Node = tuple[int, KernelParameters]


@dataclass(frozen=True, slots=True)
class DriverGraphs:
    """The driver API's functions on graphs.

    `count_nodes` and `parameters_of` return an error code, 0 for success; `launching` has the
    addresses of what launches ask, `current` gives the calling thread's context.
    """

    count_nodes: Callable[..., int]
    parameters_of: Callable[..., int]
    current: Callable[..., int]
    launching: GraphDriver

    def nodes(self, graph: int, arguments: int) -> list[Node] | None:
        """A graph's kernels in order, with parameters that refer to arguments at an address.

        None where the driver does not tell them.
        """
        count = ctypes.c_size_t(0)
        if self.count_nodes(ctypes.c_void_p(graph), None, ctypes.byref(count)):
            return None
        nodes = (ctypes.c_void_p * count.value)()
        if self.count_nodes(ctypes.c_void_p(graph), nodes, ctypes.byref(count)):
            return None
        found: list[Node] = []
        for node in nodes:
            own = KernelParameters()
            if node is None or self.parameters_of(ctypes.c_void_p(node), ctypes.byref(own)):
                return None
            own.arguments, own.extra = arguments, None
            found.append((node, own))
        return found

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
            driver.cuGraphGetNodes,
            driver.cuGraphKernelNodeGetParams_v2,
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


@dataclass(frozen=True, slots=True)
class RecordedGraph:
    """A graph, its executable's handle, and its kernels."""

    graph: Any
    executable: int
    nodes: tuple[Node, ...]
