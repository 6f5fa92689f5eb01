"""Accesses of an `md_hom` as strided views of arrays: an axis for each dim, in the dims' order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from mdtensor.dataclass import dataclass
from mdtensor.translate.md_hom import Dim
from mdtensor.translate.views import AffineIndex, BufferAccess, ComputedIndex

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ArrayView:
    """The strided view of an array that an affine access reads or writes.

    The view has the extent of each dim that the access depends on, and 1 for the others, along
    which it is broadcast. `steps` are, for each dim, the axes of the array along which it moves
    and by how much. `start` is the array's element at index 0 of all dims.
    """

    extents: tuple[int, ...]
    start: tuple[int, ...]
    steps: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def repeats(self) -> bool:
        """Whether several dims move along one axis, so that elements repeat, as in windows."""
        axes = [axis for step in self.steps for axis, _ in step]
        return len(set(axes)) < len(axes)

    def of(self, array: np.ndarray) -> np.ndarray:
        """The strided NumPy view of `array`."""
        strides = array.strides
        along = [sum([strides[axis] * by for axis, by in step]) for step in self.steps]
        if any(self.start):
            array = array[tuple([slice(first, None) for first in self.start])]
        return as_strided(array, self.extents, along)


def array_view(access: BufferAccess, dims: Sequence[Dim]) -> ArrayView:
    """The strided view of an affine access over the index space of `dims`."""
    steps: dict[str, list[tuple[int, int]]] = {dim.name: [] for dim in dims}
    affine = [cast("AffineIndex", index) for index in access.index]
    for axis, index in enumerate(affine):
        for name, coefficient in index.coefficients:
            if coefficient:
                steps[name].append((axis, coefficient))
    return ArrayView(
        tuple([dim.extent if steps[dim.name] else 1 for dim in dims]),
        tuple([index.offset for index in affine]),
        tuple([tuple(steps[dim.name]) for dim in dims]),
    )


def loaded(view: np.ndarray) -> np.ndarray:
    """A view as operands; booleans are normalised, so that every nonzero byte is True."""
    return view.view(np.uint8) != 0 if view.dtype == np.bool_ else view


def cut(view: np.ndarray, ranges: Sequence[Range]) -> np.ndarray:
    """The part of a view within ranges of the dims; broadcast axes stay whole."""
    pairs = zip(ranges, view.shape, strict=True)
    return view[(*[slice(*span) if extent > 1 else slice(None) for span, extent in pairs], ...)]


def gathered(
    array: np.ndarray,
    access: BufferAccess,
    indices: Mapping[str, np.ndarray],
    values: Any,
) -> np.ndarray:
    """A NumPy gather for an access with a computed index; `values` evaluates its expression."""
    rank = len(indices)
    places: list[np.ndarray] = []
    for index, extent in zip(access.index, array.shape, strict=True):
        if isinstance(index, ComputedIndex):
            place = np.asarray(values(index.expr)).astype(np.int64)
            place = np.where(place < 0, place + extent, place)
            places.append(np.clip(place, 0, extent - 1))
            continue
        place = np.full((1,) * rank, index.offset)
        for name, coefficient in index.coefficients:
            place = place + coefficient * indices[name]
        places.append(place)
    return array[tuple(places)]
