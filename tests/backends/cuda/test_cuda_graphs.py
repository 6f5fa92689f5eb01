"""What the driver is asked about a graph's kernels; functions stand for the driver here."""

from __future__ import annotations

import ctypes
from typing import Any

from mdtensor.backends.cuda import cuda_graphs
from mdtensor.backends.cuda.cuda_graphs import DriverGraphs

GRAPH, EXECUTABLE, ARGUMENTS = 0x70, 0x80, 0x90


class Driver:
    """Two kernels in a graph, and what their arguments were set to."""

    def __init__(self, error: int = 0) -> None:
        self.nodes, self.error = [0x11, 0x22], error
        self.set: list[tuple[int | None, int | None, tuple[int, ...], int]] = []

    def functions(self) -> DriverGraphs:
        return DriverGraphs(self.nodes_of, self.parameters_of, self.set_parameters)

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

    def set_parameters(self, graph: Any, node: Any, place: Any) -> int:
        own = place._obj
        assert own.function == node.value + 0x1000
        self.set.append((graph.value, node.value, tuple(own.shape)[:4], own.arguments))
        return 7


def test_every_kernel_is_handed_the_arguments() -> None:
    driver = Driver()
    updates = driver.functions().updates(GRAPH, EXECUTABLE, ARGUMENTS)
    assert updates is not None
    assert [update() for update in updates] == [7, 7]
    assert driver.set == [
        (EXECUTABLE, 0x11, (0x11, 1, 1, 32), ARGUMENTS),
        (EXECUTABLE, 0x22, (0x22, 1, 1, 32), ARGUMENTS),
    ]


def test_a_driver_that_tells_no_nodes_hands_nothing() -> None:
    assert Driver(error=1).functions().updates(GRAPH, EXECUTABLE, ARGUMENTS) is None


def test_parameters_lie_as_the_driver_says() -> None:
    own = cuda_graphs._KernelParameters
    places = (own.function.offset, own.shape.offset, own.arguments.offset, own.context.offset)
    assert places == (0, 8, 40, 64)
    assert ctypes.sizeof(own) == 72
