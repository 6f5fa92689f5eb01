"""Chunked arrays: a task makes each chunk, and further tasks assemble boxes of them."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import allocate
from mdtensor.api.parts.cuts import Grid, pieces_along, points_of
from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.rewrites.parts import Box, Range

# The key of a task.
Key = Any
# Makes a task of a function of other tasks' results, and gives its key.
Make = Callable[..., Key]


@dataclass(frozen=True, slots=True)
class Placed:
    """A section of a task's array, and its place in a box."""

    key: Key
    section: Box
    place: Box
    is_whole: bool


@dataclass(slots=True)
class ChunkedArray:
    """An array chunked by a grid of edges; `chunks` maps positions to task keys.

    What is written is kept in `pieces` until the array is read.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    grid: Grid
    make: Make
    fill: float | None = None
    chunks: dict[tuple[int, ...], Key] = field(default_factory=dict[tuple[int, ...], Any])
    pieces: dict[tuple[int, ...], list[Placed]] = field(
        default_factory=dict[tuple[int, ...], list[Placed]]
    )

    def write(self, box: Box, key: Key) -> None:
        """Record the task that makes a box, whose slices may have steps."""
        for position, placed in self._sections(box, key):
            self.pieces.setdefault(position, []).append(placed)

    def settled(self) -> dict[tuple[int, ...], Key]:
        """The keys of all chunks, with those assembled that several boxes overlap."""
        for position in itertools.product(*(range(len(edges) - 1) for edges in self.grid)):
            if position not in self.chunks:
                spans = self._spans(position)
                placed = self.pieces.pop(position, [])
                self.chunks[position] = self._joined([b - a for a, b in spans], placed)
        return self.chunks

    def read(self, box: Box) -> Key:
        """The key of a task that makes a box without steps."""
        chunks = self.settled()
        shape = [axis.stop - axis.start for axis in box]
        first = [
            bisect_right(edges, axis.start) - 1 for edges, axis in zip(self.grid, box, strict=True)
        ]
        positions = [
            range(max(0, n), max(1, bisect_right(edges, axis.stop - 1, 0, len(edges) - 1)))
            for n, edges, axis in zip(first, self.grid, box, strict=True)
        ]
        placed: list[Placed] = []
        for position in itertools.product(*positions):
            spans = self._spans(position)
            common = [
                (max(axis.start, low), min(axis.stop, high))
                for axis, (low, high) in zip(box, spans, strict=True)
            ]
            section = _relative(common, [low for low, _ in spans])
            place = _relative(common, [axis.start for axis in box])
            is_whole = common == spans
            placed.append(Placed(chunks[position], section, place, is_whole))
        return self._joined(shape, placed)

    def _spans(self, position: Sequence[int]) -> list[Range]:
        return [(e[n], e[n + 1]) for e, n in zip(self.grid, position, strict=True)]

    def _sections(self, box: Box, key: Key) -> list[tuple[tuple[int, ...], Placed]]:
        """The sections of a box by chunk position, each with its place in the chunk."""
        by_axis = map(pieces_along, box, self.grid)
        sections: list[tuple[tuple[int, ...], Placed]] = []
        for each in itertools.product(*by_axis):
            position = tuple(n for n, _, _ in each)
            place, section = tuple(p for _, p, _ in each), tuple(s for _, _, s in each)
            is_whole = points_of(section) == points_of(box)
            sections.append((position, Placed(key, section, place, is_whole)))
        return sections

    def _joined(self, shape: Sequence[int], placed: Sequence[Placed]) -> Key:
        """The key of a task that assembles sections into an array of a shape."""
        keys = [
            each.key if each.is_whole else self.make(section_of, [each.key], each.section)
            for each in placed
        ]
        if len(placed) == 1 and _fills(placed[0].place, shape):
            return keys[0]
        places = tuple(each.place for each in placed)
        return self.make(joined, keys, tuple(shape), self.dtype, self.fill, places)


def section_of(arrays: Sequence[np.ndarray], section: Box) -> np.ndarray:
    """A contiguous copy of a section of an array, small enough to send to another worker."""
    return np.array(arrays[0][section], order="C")


def joined(
    arrays: Sequence[np.ndarray],
    shape: tuple[int, ...],
    dtype: np.dtype,
    fill: float | None,
    places: Sequence[Box],
) -> np.ndarray:
    """An array assembled from others at given places."""
    result = allocate(TensorSpec.of(shape, dtype), np)
    if fill is not None:
        result.fill(fill)
    for array, place in zip(arrays, places, strict=True):
        result[place] = array
    return result


def _relative(spans: Sequence[Range], starts: Sequence[int]) -> Box:
    pairs = zip(spans, starts, strict=True)
    return tuple(slice(low - start, high - start, 1) for (low, high), start in pairs)


def _fills(place: Box, shape: Sequence[int]) -> bool:
    return all(
        (axis.start, axis.stop, axis.step) == (0, extent, 1)
        for axis, extent in zip(place, shape, strict=True)
    )
