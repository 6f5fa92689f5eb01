"""CUDA graphs of programs in sequence: one for each thread and stream that launches them often."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from mdtensor.backends.cuda.cuda_graphs import WORTH_RECORDING, Launch
from mdtensor.backends.llvm.graph_launches import At, GraphLaunches, LaunchedGraph
from mdtensor.kernels.kernel_source import ALIGNMENT

Program = Any  # a CudaProgram, whose module imports this one
# Scratch memory of up to so many bytes is kept; larger memory lies elsewhere in each launch.
KEPT_BYTES = 1 << 24
MISALIGNED = ALIGNMENT - 1


class SequenceGraphs:
    """The graphs of programs in sequence, and `launch`, which takes a stream and addresses.

    Each of the `programs` comes with the positions of its arrays: among so many `arrays` of the
    sequence, then among temporaries at the `offsets` of memory of `nbytes`. What has no graph is
    launched by the `fallback`.
    """

    def __init__(
        self,
        programs: Sequence[tuple[Program, Sequence[int]]],
        arrays: int,
        offsets: Sequence[int],
        nbytes: int,
        fallback: At,
    ) -> None:
        self._programs, self._arrays = programs, arrays
        self._offsets, self._nbytes = offsets, nbytes
        self._functions = programs[0][0].device.functions
        self._fallback, self._local = fallback, threading.local()
        self._launches = self._table()
        self.launch: At = fallback if self._launches is None else self._launches.launch

    def _table(self) -> GraphLaunches | None:
        """The table of graphs; None where launches stay single."""
        driver, native = self._functions.graphs(), self._functions.native()
        sizes = [self._nbytes, *[program.scratch_bytes for program, _ in self._programs]]
        if driver is None or native is None or max(sizes) > KEPT_BYTES:
            return None
        self._functions.begin_thread()
        is_aligned = any(program.source.unaligned is not None for program, _ in self._programs)
        return GraphLaunches(
            native,
            driver.launching,
            self._counted,
            arrays=self._arrays,
            context=driver.context(),
            misaligned=MISALIGNED if is_aligned else 0,
        )

    def _counted(self, stream: int, places: tuple[int, ...]) -> bool:
        """The fallback; after many launches of a thread on a stream, a graph is built for them."""
        launched = self._fallback(stream, places)
        counts: dict[int, int] | None = getattr(self._local, "counts", None)
        if counts is None:
            counts = self._local.counts = {}
        count = counts.get(stream, 0)
        if launched and count < WORTH_RECORDING and not self._functions.is_in_capture(stream):
            counts[stream] = count + 1
            if count + 1 == WORTH_RECORDING:
                self._add(stream)
        return launched

    def _add(self, stream: int) -> None:
        """Has further launches of this thread on a stream be a graph's."""
        driver, functions = self._functions.graphs(), self._functions
        assert driver is not None and self._launches is not None
        at = self._arrays + len(self._offsets)
        count = at + sum(program.others for program, _ in self._programs)
        values = (ctypes.c_int64 * count)()
        first = ctypes.addressof(values)
        if self._nbytes:
            begin = functions.scratch(self._nbytes, stream, "between")
            for number, offset in enumerate(self._offsets, self._arrays):
                values[number] = begin + offset
        launches: list[tuple[Launch, int]] = []
        maps: list[tuple[int, ...]] = []
        keeps: list[Any] = [values, functions.kept_blocks()]
        for program, positions in self._programs:
            own, memory = program.others_on(stream)
            values[at : at + len(own)] = own
            addresses = [first + 8 * n for n in (*positions, *range(at, at + len(own)))]
            at += len(own)
            if (found := program.maps(positions)) is not None:
                addresses += found.addresses
                maps += found.words()
            places = (ctypes.c_void_p * len(addresses))(*addresses)
            launches += [(launch, ctypes.addressof(places)) for launch in program.launches]
            keeps += program, memory, found, places
        built = driver.built(launches)
        if built is None:
            return
        nodes = [(node, ctypes.addressof(own)) for node, own in built.nodes]
        graph = LaunchedGraph(stream, built.executable, first, nodes, maps, (built, *keeps))
        self._launches.add(graph)
