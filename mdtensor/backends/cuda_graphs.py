"""Launches that were recorded as graphs, and enqueued again with other arguments.

A graph's launch takes the driver half as long as a kernel's. CuPy launches graphs; what changes
the arguments of one is the driver's own, by ctypes without releasing the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial


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
    """The driver's functions on graphs; each returns 0 where it did what it was asked for."""

    nodes: Callable[..., int]
    parameters: Callable[..., int]
    set_parameters: Callable[..., int]

    def updates(
        self, graph: int, executable: int, arguments: int
    ) -> list[Callable[[], int]] | None:
        """Functions that hand the arguments' present values to the kernels of a graph, in order.

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
    """The driver's functions on graphs; None where the driver is missing or older than CUDA 12."""
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
