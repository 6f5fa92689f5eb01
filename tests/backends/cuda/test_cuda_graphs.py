"""What the driver is asked to build a graph of; functions stand for the driver here."""

from __future__ import annotations

import ctypes
import gc
from functools import partial
from typing import Any

import pytest

from mdtensor.backends.cuda.cuda_graphs import DriverGraphs, KernelParameters
from mdtensor.backends.llvm.graph_launches import GraphDriver


class Driver:
    """Notes what is built and destroyed; what is `refused` is an error."""

    def __init__(self, refused: str = "") -> None:
        self.refused, self.added, self.ended = refused, list[Any](), list[int]()

    def functions(self) -> DriverGraphs:
        driver = GraphDriver(1, 2, 3, 4)
        make, end = (self.create, self.add, self.instantiate), (self.destroy, self.destroy)
        return DriverGraphs(*make, *end, self.current, driver)

    def answer(self, name: str, place: Any, value: int) -> int:
        place._obj.value = value
        return int(name == self.refused)

    def current(self, context: Any) -> int:
        return self.answer("current", context, 0x44)

    def create(self, graph: Any, flags: int) -> int:
        return self.answer("create", graph, 0x70)

    def add(self, node: Any, graph: Any, before: Any, count: int, parameters: Any) -> int:
        assert graph.value == 0x70
        own = parameters._obj
        behind = before[0] if count else None
        self.added.append((own.function, [*own.shape], own.arguments, behind))
        return self.answer("add", node, 0x10 + len(self.added))

    def instantiate(self, executable: Any, graph: Any, flags: Any) -> int:
        return self.answer("instantiate", executable, 0x80)

    def destroy(self, graph: Any) -> int:
        self.ended.append(graph.value)
        return 0


def launch(function: int) -> partial[None]:
    return partial(print, function, 4, 1, 1, 32, 1, 1, 0)


def test_kernels_follow_each_other_with_their_own_arguments() -> None:
    driver = Driver()
    graphs = driver.functions()
    built = graphs.built([(launch(0x1011), 0x90), (launch(0x1022), 0xA0)])
    assert built is not None
    assert built.executable == 0x80
    assert [(node, own.arguments) for node, own in built.nodes] == [(0x11, 0x90), (0x12, 0xA0)]
    shape = [4, 1, 1, 32, 1, 1, 0]
    assert driver.added == [(0x1011, shape, 0x90, None), (0x1022, shape, 0xA0, 0x11)]
    assert graphs.context() == 0x44
    del built
    gc.collect()
    assert driver.ended == [0x80, 0x70]


@pytest.mark.parametrize("refused", ["create", "add", "instantiate"])
def test_a_driver_that_refuses_has_no_graphs(refused: str) -> None:
    assert Driver(refused).functions().built([(launch(0x1011), 0x90)]) is None
    assert Driver("current").functions().context() == 0


def test_parameters_lie_as_the_driver_says() -> None:
    own = KernelParameters
    places = (own.function.offset, own.shape.offset, own.arguments.offset, own.context.offset)
    assert places == (0, 8, 40, 64)
    assert ctypes.sizeof(own) == 72
