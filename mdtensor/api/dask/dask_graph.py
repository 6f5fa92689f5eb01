"""Dask graphs of computations: a task per part, and the resulting arrays."""

from __future__ import annotations

import hashlib
import importlib
import pickle
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.dask.chunked_array import ChunkedArray, Key
from mdtensor.api.parts.cuts import Grid, cuts_from_grids, grid_of_result
from mdtensor.api.parts.parted_step import run_in_parts
from mdtensor.api.parts.run_part import run_part
from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.rewrites.parts import Box

DaskArray = Any


def dask_module(name: str) -> Any:
    """A module of Dask, imported only for callers with Dask arrays."""
    return importlib.import_module(name)


@dataclass(slots=True)
class _Tasks:
    """The tasks of a graph by key."""

    name: str
    tasks: dict[Key, Any] = field(default_factory=dict[Any, Any])

    def make(self, function: Callable[..., Any], keys: Sequence[Key], *constants: Any) -> Key:
        """Add a task that calls a function on other tasks' results and constants; its key."""
        key = (self.name, len(self.tasks))
        self.tasks[key] = (partial(_called, function, constants), *keys)
        return key


def _called(function: Callable[..., Any], constants: Sequence[Any], *results: Any) -> Any:
    return function(results, *constants)


@dataclass(frozen=True, slots=True)
class _Executor:
    """An executor that turns parts into Dask tasks."""

    slots: dict[int, ChunkedArray]
    tasks: _Tasks
    in_turn: bool = False

    def read(self, slot: int, box: Box) -> Key:
        """The key of a task that makes a box of an array."""
        return self.slots[slot].read(box)

    def write(self, slot: int, box: Box, value: Key) -> None:
        """Record the task that makes a box of an array."""
        self.slots[slot].write(box, value)

    def compute(
        self, md_hom: MDHom, operands: Sequence[Key], begins: Sequence[int]
    ) -> tuple[Key, ...]:
        """Add a task for a part, and one for each of its results if there are several."""
        count = len(md_hom.outputs)
        task = self.tasks.make(_computed, operands, md_hom, tuple(begins))
        if count == 1:
            return (task,)
        return tuple(self.tasks.make(_element, [task], number) for number in range(count))

    def last(self, value: Key, axis: int, shape: Sequence[int]) -> Key:
        """A task for the last elements along an axis."""
        return self.tasks.make(_last, [value], axis)


def _computed(arrays: Sequence[np.ndarray], md_hom: MDHom, begins: tuple[int, ...]) -> Any:
    results = run_part(md_hom, arrays, begins)
    return results[0] if len(results) == 1 else results


def _element(results: Sequence[Any], number: int) -> np.ndarray:
    return results[0][number]


def _last(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    return arrays[0][(slice(None),) * axis + (slice(-1, None),)].copy()


def dask_arrays(program: Program, operands: Sequence[DaskArray]) -> tuple[DaskArray, ...]:
    """The results of a computation on Dask arrays, as lazy Dask arrays.

    Chunks of the results follow from those of the operands (see `cuts_from_grids`).
    """
    graph_of = dask_module("dask.highlevelgraph").HighLevelGraph
    array_of = dask_module("dask.array").Array
    given = [*operands]
    for number, dtype in program.converted:
        given[number] = given[number].astype(dtype)
    tasks = _Tasks(f"mdtensor-{_token(program, given)}")
    slots = {n: _chunked(array, tasks) for n, array in enumerate(given)}
    for slot, spec, grid in _grids(program, slots):
        number = slot - program.operands
        fill = program.fills[number] if number < len(program.fills) else None
        slots[slot] = ChunkedArray(spec.shape, spec.dtype, grid, tasks.make, fill)
    executor = _Executor(slots, tasks)
    for step in program.steps:
        grids = [slots[n].grid for n in step.operands]
        run_in_parts(step, cuts_from_grids(step.md_hom, grids), executor)
    settled = [slots[program.operands + n].settled() for n in range(len(program.results))]
    shared = graph_of.from_collections(tasks.name, tasks.tasks, dependencies=given)
    results: list[DaskArray] = []
    for number, keys in enumerate(settled):
        array, name = slots[program.operands + number], f"{tasks.name}-{number}"
        layers: dict[str, Any] = {**shared.layers}
        layers[name] = {(name, *position): key for position, key in keys.items()}
        graph = graph_of(layers, {**shared.dependencies, name: {tasks.name}})
        chunks = tuple(tuple(np.diff(edges).tolist()) for edges in array.grid)
        results.append(array_of(graph, name, chunks, dtype=array.dtype, shape=array.shape))
    return tuple(results)


def _grids(program: Program, given: dict[int, ChunkedArray]) -> list[tuple[int, TensorSpec, Grid]]:
    """The chunks of results and temporaries: those that the largest step writing each has."""
    grids = {slot: array.grid for slot, array in given.items()}
    first = program.operands
    specs = dict(enumerate(program.specs, first))
    writers: dict[int, int] = {}
    for step in program.steps:
        md_hom = step.md_hom
        # A temporary that is not written yet is one chunk.
        whole = [tuple((0, extent) for extent in b.spec.shape) for b in md_hom.inputs]
        read = [grids.get(slot, whole[n]) for n, slot in enumerate(step.operands)]
        cuts = cuts_from_grids(md_hom, read)
        for number, slot in enumerate(step.results):
            if md_hom.points > writers.get(slot, -1):
                grids[slot] = grid_of_result(md_hom, number, cuts)
                writers[slot] = md_hom.points
    return [
        (slot, spec, grids.get(slot, tuple((0, extent) for extent in spec.shape)))
        for slot, spec in specs.items()
    ]


def _chunked(array: DaskArray, tasks: _Tasks) -> ChunkedArray:
    grid = tuple((0, *np.cumsum(sizes).tolist()) for sizes in array.chunks)
    chunked = ChunkedArray(array.shape, array.dtype, grid, tasks.make)
    chunked.chunks = {
        position: (array.name, *position) for position in np.ndindex(*array.numblocks)
    }
    return chunked


def _token(program: Program, operands: Sequence[DaskArray]) -> str:
    """A deterministic token of a computation and its operands, for Dask's names."""
    said = pickle.dumps([(step.md_hom, step.operands, step.results) for step in program.steps])
    names = repr([(array.name, array.chunks) for array in operands])
    fills = repr((program.fills, program.converted))
    return hashlib.sha256(said + names.encode() + fills.encode()).hexdigest()[:32]
