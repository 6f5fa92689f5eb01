"""Built-in functions in LLVM IR through which Python launches kernels."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.backends.host import openmp_team, thread_count
from mdtensor.backends.host.result_pool import POOL
from mdtensor.backends.llvm.graph_launch_ir import GRAPH_LAUNCH
from mdtensor.backends.llvm.guard_ir import GUARDED
from mdtensor.backends.llvm.launch_ir import LAUNCH, LaunchWords, StepWords
from mdtensor.backends.llvm.thread_pool import thread_pool_ir
from mdtensor.dataclass import dataclass

_FASTCALL, _KEYWORDS = 0x80, 0x02  # METH_FASTCALL and METH_KEYWORDS of Python's C-API
_WORD = 8
# Where a Python object has its type, and an array the address of its elements.
_DATA = object.__basicsize__
_TYPE = _DATA - _WORD
_ALIGNMENT = 64  # of what lies in a launch's memory
_MESSAGE = "a kernel takes NumPy arrays, one for each of its operands and results\0"


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Kernels, as pairs of address and groups, that run in sequence on the same arrays.

    `slots` are the numbers of these arrays among a launch's, or -1 - n for what begins at byte n of
    its memory, where scratch memory and counters begin at bytes `scratch` and `counters`. The
    sizes lie at an address. The calling thread runs all groups where it is `inline`.
    """

    kernels: tuple[tuple[int, int], ...]
    slots: tuple[int, ...]
    sizes: int = 0
    scratch: int = 0
    counters: int = 0
    counter_bytes: int = 0
    inline: bool = False

    def words(self) -> list[int]:
        """The step as words of a launch record."""
        words = [0] * StepWords.SLOTS
        words[StepWords.ARGUMENTS], words[StepWords.KERNELS] = len(self.slots), len(self.kernels)
        words[StepWords.SIZES], words[StepWords.INLINE] = self.sizes, int(self.inline)
        words[StepWords.SCRATCH], words[StepWords.COUNTERS] = self.scratch, self.counters
        words[StepWords.COUNTER_BYTES] = self.counter_bytes
        words += [*self.slots, *(word for pair in self.kernels for word in pair)]
        words[StepWords.LENGTH] = len(words)
        return words

    def placed(self, places: Sequence[int], base: int) -> KernelStep:
        """Relocate the step: map its slots by `places`, and shift its memory to byte `base`."""
        slots = tuple([places[slot] if slot >= 0 else slot - base for slot in self.slots])
        scratch, counters = self.scratch + base, self.counters + base
        return replace(self, slots=slots, scratch=scratch, counters=counters)


class NativeRecord(np.ndarray):
    """Words read by a built-in function; objects behind addresses are alive in `keeps`."""

    keeps: tuple[Any, ...]


class LaunchRecord(NativeRecord):
    """The words of a launch of `steps`, which needs `nbytes_of_memory` per call."""

    steps: tuple[KernelStep, ...]
    nbytes_of_memory: int


class GraphRecord(NativeRecord):
    """The words of a program's CUDA graphs (see `GraphTable`)."""


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class NativeLaunch:
    """The compiled launch runtime, with its thread pool.

    It stays until the process ends, since its threads are at any place of its code.
    """

    def __init__(self, addresses: Sequence[int], library: Any) -> None:
        launch, guarded, graph, kept, free, limit, join, forget, end = addresses
        self._library = library
        self._method = _MethodDef(b"launch", launch, _FASTCALL, None)
        self._guarded = _MethodDef(b"guarded", guarded, _FASTCALL | _KEYWORDS, None)
        self._graph = _MethodDef(b"launch_graph", graph, _FASTCALL, None)
        self._new: Any = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )(("PyCFunction_NewEx", ctypes.pythonapi))
        self._limit = ctypes.CFUNCTYPE(None, ctypes.c_int64)(limit)
        self._join = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(join)
        self._forget = ctypes.CFUNCTYPE(None)(forget)
        self._end = ctypes.CFUNCTYPE(None)(end)
        memory = ctypes.PYFUNCTYPE(ctypes.c_int64)(kept), ctypes.PYFUNCTYPE(None)(free)
        POOL.launches.append(memory)
        self._forget()
        self._is_forked = False
        os.register_at_fork(after_in_child=self._forget_threads)
        atexit.register(self._end_threads)
        openmp_team.when_shared(self.join_team)
        thread_count.when_limited(self._limit)

    def join_team(self, function: int) -> None:
        """Run kernels on an OpenMP runtime's threads, by the address of its GOMP_parallel.

        For 0, on own ones. Not in the child of a fork, where a runtime that its parent used waits
        for ever.
        """
        if not self._is_forked:
            self._join(function)

    def _forget_threads(self) -> None:
        """Reset the pool in a forked child, which has none of its parent's threads."""
        self._is_forked = True
        self._join(None)
        self._forget()

    def _end_threads(self) -> None:
        self._end()

    def launcher(
        self,
        kernels: Sequence[tuple[int, int]],
        arrays: int,
        keeps: tuple[Any, ...],
        *,
        sizes: int = 0,
        scratch: int = 0,
        counters: int = 0,
        inline: bool,
    ) -> Callable[..., None]:
        """A function of arrays that runs kernels, given as pairs of address and groups.

        `sizes` is the address of theirs. They have so many bytes of `scratch` memory and of
        `counters`, which are 0 at first. `keeps` is what must stay as long as the function. It
        raises TypeError for what is not a NumPy array, MemoryError where there is no memory.
        """
        behind = _aligned(scratch)
        slots = tuple(range(arrays))
        step = KernelStep(tuple(kernels), slots, sizes, 0, behind, counters, inline)
        return self._function((step,), arrays, behind + counters, keeps)

    def sequence(
        self,
        launchers: Sequence[tuple[Callable[..., None], Sequence[int]]],
        arrays: int,
        temporaries: Sequence[int],
    ) -> Callable[..., None]:
        """A function of `arrays` arrays that runs launchers, each on the arrays at its slots.

        Slots behind the arrays are temporaries of so many bytes, which are there for a call.
        """
        places, base = list(range(arrays)), 0
        for nbytes in temporaries:
            places.append(-1 - base)
            base += _aligned(nbytes)
        steps: list[KernelStep] = []
        for launcher, slots in launchers:
            of_slots = [places[slot] for slot in slots]
            steps += [step.placed(of_slots, base) for step in _record_of(launcher).steps]
        memory = base + max(_record_of(launcher).nbytes_of_memory for launcher, _ in launchers)
        return self._function(steps, arrays, memory, tuple([each for each, _ in launchers]))

    def _function(
        self, steps: Sequence[KernelStep], arrays: int, memory: int, keeps: tuple[Any, ...]
    ) -> Callable[..., None]:
        words = [0] * LaunchWords.FIRST
        words[LaunchWords.ARRAYS], words[LaunchWords.STEPS] = arrays, len(steps)
        words[LaunchWords.INLINE] = int(all(step.inline for step in steps))
        words[LaunchWords.ARRAY_TYPE], words[LaunchWords.MEMORY] = id(np.ndarray), memory
        words[LaunchWords.ROOM] = max(len(step.slots) for step in steps) + 2
        for step in steps:
            words += step.words()
        record = np.array(words, np.int64).view(LaunchRecord)
        record.keeps, record.steps, record.nbytes_of_memory = (*keeps, self), tuple(steps), memory
        return self._new(ctypes.addressof(self._method), record, None)

    def guarded(self, table: NativeRecord) -> Callable[..., Any]:
        """The guard trampoline of a table (see `GuardedCalls`)."""
        return self._new(ctypes.addressof(self._guarded), table, None)

    def by_graphs(self, table: GraphRecord) -> Callable[[int, tuple[int, ...]], bool]:
        """The launch of a stream and addresses by a table's graphs, or by its fallback."""
        return self._new(ctypes.addressof(self._graph), table, None)


def runs_at_once(launcher: object) -> bool:
    """Whether a launcher is a built-in function, as `sequence` needs."""
    return type(getattr(launcher, "__self__", None)) is LaunchRecord


def graph_table(launcher: object) -> int:
    """The address of the table of graphs that a launcher looks through; 0 for other launchers."""
    table = getattr(launcher, "__self__", None)
    return int(table.ctypes.data) if isinstance(table, GraphRecord) else 0


def in_sequence(
    launchers: Sequence[tuple[Callable[..., None], Sequence[int]]],
    arrays: int,
    temporaries: Sequence[int],
) -> Callable[..., None]:
    """`NativeLaunch.sequence`, on the runtime of the given launchers."""
    runtime: NativeLaunch = _record_of(launchers[0][0]).keeps[-1]
    return runtime.sequence(launchers, arrays, temporaries)


def _record_of(launcher: Any) -> LaunchRecord:
    return launcher.__self__


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def has_lock() -> bool:
    """Whether the GIL is enabled."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


NAMES = (
    *("launch", "guarded", "launch_graph", "kept_memory", "free_memory"),
    *("limit_threads", "join_team", "forget_threads", "end_threads"),
)


def runtime_ir(threads: int) -> str:
    """The launch runtime's module for `threads` threads, including the caller."""
    text = _MESSAGE.encode()
    spelled = "".join(f"\\{byte:02X}" for byte in text)
    return f"""{thread_pool_ir(threads)}
@message = internal constant [{len(text)} x i8] c"{spelled}"
{_with_offsets(LAUNCH + GRAPH_LAUNCH + GUARDED)}"""


def _with_offsets(text: str) -> str:
    """Substitute field offsets of CPython's and NumPy's objects in IR."""
    places = {"TYPE": _TYPE, "DATA": _DATA, "ITEMS": tuple.__basicsize__}
    fields = ("AXES", "SHAPE", "STRIDES", "", "DTYPE", "FLAGS")
    places |= {name: _DATA + _WORD * (n + 1) for n, name in enumerate(fields)}
    return re.sub(r"\b([A-Z]+)_OFFSET\b", lambda found: str(places[found[1]]), text)
