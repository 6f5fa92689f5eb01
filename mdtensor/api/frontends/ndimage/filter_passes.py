"""Filter passes over an array, as one computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module
from mdtensor.api.calls.program_calls import call
from mdtensor.api.frontends.ndimage.filter_arguments import check_origin
from mdtensor.dataclass import dataclass
from mdtensor.errors import FilterError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.scalar import Expr
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_filter import (
    Filter,
    md_homs_from_filter,
    stored,
    weights_dtype,
)
from mdtensor.translate.stencils.program_from_slices import program_from_slices
from mdtensor.translate.stencils.rounded_weights import rounded_weights
from mdtensor.translate.stencils.slices import Leaf, combined, fused_from_source

# From what several rows of passes make of a point to the result there.
Join = Callable[..., Expr]


@dataclass(frozen=True, slots=True)
class Passes:
    """A sequence of filters, with a window for each weighted one."""

    filters: tuple[Filter, ...]
    windows: tuple[np.ndarray, ...] = ()


def filtered(passes: Passes, array: Array, dtype: np.dtype, out: Array | None) -> Array:
    """Apply passes in sequence, as one call."""
    return joined([passes], None, array, dtype, out)


def joined(
    rows: Sequence[Passes], join: Join | None, array: Array, dtype: np.dtype, out: Array | None
) -> Array:
    """Apply rows of passes to an array, and join their results elementwise by `join`.

    What a pass gives is of the type of the result.
    """
    if array.ndim == 0:
        raise FilterError("a filter needs an array with at least one axis")
    weights = [
        _taken(window.reshape(given.sizes), array, dtype)
        for passes in rows
        for window, given in zip(passes.windows, passes.filters, strict=False)
    ]
    filters = tuple([passes.filters for passes in rows])

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        return _computation(filters, join, specs, TensorSpec.of(specs[0].shape, dtype))

    return call(("filter", filters, join, dtype), [array, *weights], build, out, len(weights))


def _computation(
    rows: Sequence[Sequence[Filter]],
    join: Join | None,
    specs: Sequence[TensorSpec],
    out: TensorSpec,
) -> Program:
    """The program of rows of passes, through temporaries."""
    builder = ProgramBuilder(specs)
    ends: list[int] = []
    weights = 1
    # Rows have most passes in common. Keys have no extents, which families of shapes watch.
    made: dict[Hashable, tuple[MDHom, ...]] = {}
    for row in rows:
        slot = 0
        for position, given in enumerate(row):
            reads = (slot, weights) if given.weighted else (slot,)
            window = specs[weights] if given.weighted else None
            weights += given.weighted
            key = given, position == 0, window and window.dtype
            if key not in made:
                made[key] = md_homs_from_filter(given, builder.specs[slot], out, window)
            slot = builder.new(out)
            for md_hom in made[key]:
                builder.add(md_hom, reads, (slot,))
        ends.append(slot)
    return builder.program(ends if join is None else joining(builder, ends, join, out))


def joining(
    builder: ProgramBuilder, ends: Sequence[int], join: Join, out: TensorSpec
) -> tuple[int, ...]:
    """Add a step that joins the rows' results elementwise; returns its slots."""

    def build(*elements: Expr) -> Expr:
        return stored(join(*elements), out.dtype)

    specs = [builder.specs[end] for end in ends]
    leaves = [fused_from_source(Leaf(n, s.shape, s.dtype)) for n, s in enumerate(specs)]
    return builder.append(program_from_slices(combined(leaves, build), specs), ends)


def _taken(window: np.ndarray, array: Array, dtype: np.dtype) -> Array:
    """A window on the array's device: weights in the computed type, footprints as they are."""
    if window.dtype != np.bool_:
        is_complex = "c" in (array.dtype.kind, window.dtype.kind)
        window = rounded_weights(window, weights_dtype(array.dtype, dtype, is_complex=is_complex))
    return array_module([array]).asarray(np.ascontiguousarray(window))


def along(
    combine: str,
    ndim: int,
    axis: int,
    size: int,
    shift: int,
    border: Border,
    *,
    weighted: bool = False,
) -> Filter:
    """A one-dimensional window along an axis."""
    sizes, shifts = [1] * ndim, [0] * ndim
    sizes[axis], shifts[axis] = size, shift
    return window_around(combine, sizes, shifts, border, weighted=weighted)


def window_around(
    combine: str, sizes: Sequence[int], shifts: Sequence[int], border: Border, *, weighted: bool
) -> Filter:
    """A window around each point; an unweighted sum becomes the mean."""
    for size, shift in zip(sizes, shifts, strict=True):
        check_origin(size, shift)
    starts = tuple(-(size // 2) - shift for size, shift in zip(sizes, shifts, strict=True))
    divisor = math.prod(sizes) if combine == "add" and not weighted else 1
    return Filter(combine, tuple(sizes), starts, border, weighted, divisor)
