"""What the driver is asked about a graph's kernels; functions stand for the driver here."""

from __future__ import annotations

import ctypes
from typing import Any

from mdtensor.backends.cuda.cuda_graphs import DriverGraphs, KernelParameters
from mdtensor.backends.llvm.graph_launches import GraphDriver

GRAPH, ARGUMENTS = 0x70, 0x90


class Driver:
    """Two kernels in a graph."""

    def __init__(self, error: int = 0) -> None:
        self.nodes, self.error = [0x11, 0x22], error

    def functions(self) -> DriverGraphs:
        return DriverGraphs(
            self.nodes_of, self.parameters_of, self.current, GraphDriver(1, 2, 3, 4)
        )

    def current(self, context: Any) -> int:
        context._obj.value = 0x44
        return self.error

    def nodes_of(self, graph: Any, nodes: Any, count: Any) -> int:
        assert graph.value == GRAPH
        if nodes is None:
            count._obj.value = len(self.nodes)
        else:
            nodes[:] = self.nodes
        return self.error

    def parameters_of(self, node: Any, parameters: Any) -> int:
        parameters._obj.function = node.value + 0x1000
        parameters._obj.shape[:] = [node.value, 1, 1, 32, 1, 1, 0]
        return 0


def test_every_kernel_refers_to_the_arguments() -> None:
    graphs = Driver().functions()
    nodes = graphs.nodes(GRAPH, ARGUMENTS)
    assert nodes is not None
    assert [(node, own.function, own.shape[0], own.arguments) for node, own in nodes] == [
        (0x11, 0x1011, 0x11, ARGUMENTS),
        (0x22, 0x1022, 0x22, ARGUMENTS),
    ]
    assert graphs.context() == 0x44


def test_a_driver_that_tells_nothing_has_no_graphs() -> None:
    graphs = Driver(error=1).functions()
    assert graphs.nodes(GRAPH, ARGUMENTS) is None
    assert graphs.context() == 0


def test_parameters_lie_as_the_driver_says() -> None:
    own = KernelParameters
    places = (own.function.offset, own.shape.offset, own.arguments.offset, own.context.offset)
    assert places == (0, 8, 40, 64)
    assert ctypes.sizeof(own) == 72
