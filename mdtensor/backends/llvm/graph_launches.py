"""A program's CUDA graphs, launched by a built-in function of a stream and addresses."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.backends.llvm.graph_launch_ir import GraphTable, GraphWords, MapWords
from mdtensor.backends.llvm.native_launch import GraphRecord, NativeLaunch, NativeRecord
from mdtensor.dataclass import dataclass

MOST = 32  # graphs of a program, of its threads and streams

At = Callable[[int, tuple[int, ...]], bool]


@dataclass(frozen=True, slots=True)
class GraphDriver:
    """The addresses of the driver's functions, see `GraphTable`."""

    current: int
    capturing: int
    set: int
    launch: int
    encode: int = 0


@dataclass(frozen=True, slots=True)
class LaunchedGraph:
    """An executable graph of a thread on a stream.

    `nodes` are its kernels' handles with the addresses of their parameters, which refer to the
    arguments at `values`; `maps` what the driver encodes tensor maps from, see `MapWords`. `keeps`
    is what lies behind addresses.
    """

    stream: int
    executable: int
    values: int
    nodes: Sequence[tuple[int, int]]
    maps: Sequence[Sequence[int]]
    keeps: tuple[Any, ...]


class GraphLaunches:
    """The table of a program's graphs, and the built-in function `launch` that looks through it.

    It takes a stream and a tuple of so many `arrays`' addresses, and calls the `fallback` with them
    where it has no graph of the calling thread and the stream, where the stream is captured, the
    context of the driver is not the one at address `context`, or an address has a bit of
    `misaligned`, and where the driver refuses. It returns whether a program was launched.
    """

    def __init__(
        self,
        native: NativeLaunch,
        driver: GraphDriver,
        fallback: At,
        *,
        arrays: int,
        context: int,
        misaligned: int,
    ) -> None:
        words = [0] * (GraphTable.GRAPHS + MOST)
        words[GraphTable.FALLBACK], words[GraphTable.ARRAYS] = id(fallback), arrays
        words[GraphTable.CONTEXT], words[GraphTable.MISALIGNED] = context, misaligned
        words[GraphTable.CURRENT], words[GraphTable.CAPTURING] = driver.current, driver.capturing
        words[GraphTable.SET], words[GraphTable.LAUNCH] = driver.set, driver.launch
        words[GraphTable.ENCODE] = driver.encode
        table = np.array(words, np.int64).view(GraphRecord)
        table.keeps = (fallback, native)
        self._table, self._held = table, ()
        self._hold(())
        self.launch = native.by_graphs(table)
        self._lock = threading.Lock()

    def add(self, graph: LaunchedGraph) -> NativeRecord:
        """Adds a graph of the calling thread, in place of the oldest one where there are many.

        Whoever changes the arguments sets the word `IS_HANDED` of the record to 0.
        """
        words = [0] * GraphWords.REST
        words[GraphWords.THREAD], words[GraphWords.STREAM] = threading.get_ident(), graph.stream
        words[GraphWords.VALUES], words[GraphWords.EXECUTABLE] = graph.values, graph.executable
        words[GraphWords.NODES], words[GraphWords.MAPS] = len(graph.nodes), len(graph.maps)
        words += [word for node in graph.nodes for word in node]
        for each in graph.maps:
            assert len(each) == MapWords.LENGTH
            words += each
        record = np.array(words, np.int64).view(NativeRecord)
        record.keeps = (graph,)
        with self._lock:
            self._hold((*self._held, record)[-MOST:])
        return record

    def _hold(self, graphs: tuple[NativeRecord, ...]) -> None:
        """Have these graphs looked through, and keep others until their launches are over."""
        table, before = self._table, self._held
        table[GraphTable.COUNT] = 0
        table[GraphTable.GRAPHS : GraphTable.GRAPHS + len(graphs)] = [g.ctypes.data for g in graphs]
        table[GraphTable.HOLDER] = id(graphs)
        self._held = graphs
        table[GraphTable.COUNT] = len(graphs)
        del before


def address_of(function: Any) -> int:
    """The address of a function of a C library."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
