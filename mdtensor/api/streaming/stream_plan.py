"""`stream`: a call within a memory limit, planned before anything is read."""

from __future__ import annotations

import itertools
import logging
import mmap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array, allocate
from mdtensor.api.arrays.results import as_returned, begin_with, check_out
from mdtensor.api.arrays.sparse_arrays import check_dense
from mdtensor.api.calls import call_cache
from mdtensor.api.calls.program_calls import planner
from mdtensor.api.parts.linked_calls import only, planned
from mdtensor.api.parts.parted_step import run_in_parts
from mdtensor.api.parts.placeholders import Placeholders
from mdtensor.api.parts.side_by_side import are_independent, run_side_by_side
from mdtensor.api.streaming.memory_plan import MemoryPlan, memory_plan
from mdtensor.api.streaming.stream_executor import StreamExecutor
from mdtensor.backends.host.mapped_files import MappedFile, mapped_file
from mdtensor.byte_counts import bytes_of, in_words
from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, MemoryLimitError, ShapeError, TranslationError, shown
from mdtensor.specs import is_computed
from mdtensor.translate.md_hom_program import Program

_log = logging.getLogger("mdtensor.streaming")


@dataclass(frozen=True)
class StreamPlan:
    """A call cut into parts that fit within a memory limit; `plan()` computes it.

    `peak` is what the parts, what waits to be combined and the results that the call allocates
    take of memory at most; `moved` is what is read of operands and written of results. Both are
    bytes. The caller's own arrays in memory do not count.
    """

    label: str
    memory: MemoryPlan
    _run: Callable[[], Any] = field(repr=False)

    @property
    def peak(self) -> int:
        """Peak bytes of memory."""
        return self.memory.peak

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.memory.moved

    @property
    def parts(self) -> int:
        """Number of parts."""
        return self.memory.parts

    def __call__(self) -> Any:
        """Computes the results."""
        return self._run()

    def __repr__(self) -> str:
        peak = f"peak {in_words(self.peak)} of {in_words(self.memory.limit)}"
        lines = [f"{self.label}: {self.parts} parts, {peak}, {in_words(self.moved)} moved"]
        for step in self.memory.steps:
            sizes = step.sizes.items()
            cut = ", ".join(
                f"{name} by {n}" for name, n in sizes if n < step.step.md_hom.extents[name]
            )
            lines.append(f"  {step.step.md_hom!r}: {cut or 'whole'}")
        return "\n".join(lines)


def stream(
    function: Callable[..., Any], *args: Any, memory_limit: int | str, **options: Any
) -> StreamPlan:
    """Plans a call whose operands may be larger than memory; nothing is read before it is run.

    `function` is one of mdtensor's: `einsum`, `tensordot`, `reduce`, `scan`, `conv`, a stencil.
    Operands are NumPy's arrays, maps of files (`numpy.memmap`), or what has a shape and a dtype and
    gives NumPy's arrays for slices, such as arrays of Zarr and HDF5. What lies in memory already
    is read where it is. Results are new arrays, which count, or go to `out`, which may be a map.

    Raises MemoryLimitError with the least limit that will do, where this one will not, and
    TranslationError for a call that runs more than one computation, and DTypeError where `function`
    is no function.

    >>> import numpy as np
    >>> from mdtensor.api.frontends.reduce import reduce
    >>> plan = stream(reduce, "ij->i", np.ones((4, 3)), memory_limit="1MB")
    >>> plan
    reduce: 1 parts, peak 96 B of 1 MB, 32 B moved
      md_hom[i:4, j:3](id, (cc, pw(add))): whole
    >>> plan()
    array([3., 3., 3., 3.])
    """
    limit = bytes_of(memory_limit)
    if not callable(function):
        raise DTypeError(
            f"stream takes a function of mdtensor, not {shown(function)}",
            hint="stream(mdtensor.einsum, 'ij,jk->ik', a, b, memory_limit='1GB')",
        )
    if planner.get() is not None:
        raise TranslationError(
            "memory_limit= is neither for plans nor for Dask arrays",
            hint="mdtensor.stream plans calls within a limit; Dask's own limits are its workers'",
        )
    out: Any = options.pop("out", None)
    call_cache.in_full()
    placeholders = Placeholders()
    place = partial(_placed, placeholders)
    named = {name: place(option) for name, option in options.items()}
    seen, returned = planned(function, *map(place, args), **named)
    request = only(seen, returned)
    if request is None:
        raise TranslationError(
            "this call is more than one computation on its operands",
            hint="memory_limit= is for calls that run kernels on their operands and nothing else",
        )
    program = request.program
    found = [placeholders.array_of(each) for each in request.operands]
    pairs = zip(found, request.operands, strict=True)
    operands = [np.asarray(each) if array is None else array for array, each in pairs]
    streamed = [_is_elsewhere(array) for array in operands]
    given: tuple[Any, ...] = () if out is None else out if type(out) is tuple else (out,)  # pyright: ignore[reportUnknownVariableType]
    _check_out(program, given, operands)
    spare = sum(spec.nbytes for spec in program.results)
    apart = itertools.compress(operands, streamed)
    are_maps = all(map(_is_numpys, apart))
    held = 0 if given else spare
    memory = memory_plan(program, streamed, limit, held, shortened=are_maps)
    if memory.peak > limit:
        results = "" if given else f"; the results take {in_words(spare)}"
        raise MemoryLimitError(
            f"memory_limit is {in_words(limit)}, and the least that will do is"
            f" {in_words(memory.peak)} ({memory.peak} bytes){results}",
            hint="raise the limit" + ("" if given else ", or write to a map of a file: out=memmap"),
        )
    label = getattr(function, "__name__", "call")

    def run() -> Any:
        results = _computed(program, operands, streamed, memory, given)
        if given:
            return given[0] if len(given) == 1 else given
        return as_returned(results)

    plan = StreamPlan(label, memory, run)
    _log.info("%s", plan)
    return plan


def _placed(placeholders: Placeholders, argument: Any) -> Any:
    """An argument, or a placeholder for an array that is not NumPy's."""
    if _is_numpys(argument) or not hasattr(argument, "shape"):
        return np.asarray(argument) if type(argument) is np.memmap else argument
    check_dense("an operand", argument)
    dtype: Any = getattr(argument, "dtype", None)
    is_sliced = hasattr(argument, "__getitem__") and isinstance(dtype, np.dtype)
    if not is_sliced or hasattr(argument, "__dask_graph__") or not is_computed(argument.dtype):
        raise DTypeError(
            f"an operand is a {type(argument).__name__}, which memory_limit= cannot stream",
            hint="NumPy's arrays, maps of files, or arrays whose slices are NumPy's",
        )
    return placeholders.of(argument)


def _is_elsewhere(array: Any) -> bool:
    """Whether an array's elements are in a file instead of memory."""
    base: Any = array
    while _is_numpys(base):
        base = getattr(base, "base", None)
    base = base.obj if isinstance(base, memoryview) else base
    return base is array or isinstance(base, mmap.mmap)


def _is_numpys(array: Any) -> bool:
    return isinstance(array, np.ndarray | np.generic)


def _check_out(program: Program, given: Sequence[Array], operands: Sequence[Any]) -> None:
    if given:
        check_out(given, program.results)
    held = [array for array in operands if _is_numpys(array)]
    for target in given:
        if _is_numpys(target) and any(np.may_share_memory(target, array) for array in held):
            raise ShapeError(
                "out shares memory with an operand, whose parts are read later",
                hint="write to another array or file",
            )


def _computed(
    program: Program,
    operands: Sequence[Any],
    streamed: Sequence[bool],
    memory: MemoryPlan,
    given: Sequence[Array],
) -> list[Array]:
    """Compute the results of a program in the parts of its plan."""
    results = [*given] or [allocate(spec, np) for spec in program.results]
    begin_with(program.fills, results)
    arrays: list[Any] = [*operands, *results, *(None for _ in program.temporaries)]
    lives = program.lifetimes
    first = len(operands) + len(results)
    with ExitStack() as opened:
        files: dict[int, MappedFile] = {}
        for slot, array in enumerate(arrays):
            if _is_numpys(array) and _is_elsewhere(array) and (file := mapped_file(array)):
                files[slot] = file
                opened.callback(file.close)
        pool = opened.enter_context(ThreadPoolExecutor(1, "mdtensor-stream"))
        executor = StreamExecutor(arrays, streamed, dict(program.converted), pool, files)
        steps, cuts = [s.step for s in memory.steps], [s.cuts for s in memory.steps]
        if len(steps) > 1 and not program.temporaries and are_independent(steps, cuts):
            run_side_by_side(steps, cuts, executor)
            executor.wait()
            return results
        for number, step in enumerate(memory.steps):
            for slot in step.step.results:
                if arrays[slot] is None:
                    arrays[slot] = allocate(program.temporaries[slot - first], np)
            run_in_parts(step.step, step.cuts, executor)
            executor.wait()
            for slot in range(first, len(arrays)):
                if slot in lives and lives[slot][1] == number:
                    arrays[slot] = None
    return results
