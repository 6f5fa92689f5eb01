"""Rank filters of small windows: the median, a percentile, the n-th smallest element."""

# ruff: noqa: A002 - scipy calls the array `input`.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.calls.program_calls import call
from mdtensor.api.frontends.ndimage.filter_arguments import (
    Filtering,
    check_origin,
    filtering,
    footprint_of,
    for_each_axis,
    number,
    whole_number,
)
from mdtensor.api.frontends.ndimage.filters import check_order, check_size, extreme
from mdtensor.errors import FilterError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.stencils.md_hom_from_ranks import RankFilter, md_homs_from_ranks

LARGEST_WINDOW = 27
"""Elements of a window at most: what sorts them is one function, which a kernel has in full."""


@with_call_cache
def rank_filter(
    input: Any,
    rank: int,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The element of a window with `rank` smaller ones; as scipy.ndimage.rank_filter.

    A negative rank counts from the largest element. The result is NaN where the window has one.
    Windows have at most 27 elements, unless the smallest or the largest is asked for.

    >>> rank_filter([3, 9, 2, 7, 5], -2, size=3)
    array([3, 3, 7, 5, 5])
    """
    wanted = whole_number("rank", rank)

    given = filtering(input, output, mode, cval, origin, axes)
    return _ranked(given, lambda _: wanted, size, footprint)


@with_call_cache
def median_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The median of a window; as scipy.ndimage.median_filter.

    The result is NaN where the window has one. Windows have at most 27 elements.

    >>> median_filter([1.0, 2.0, 50.0, 3.0, 4.0], size=3)
    array([1., 2., 3., 4., 4.])
    """
    given = filtering(input, output, mode, cval, origin, axes)
    return _ranked(given, lambda count: count // 2, size, footprint)


@with_call_cache
def percentile_filter(
    input: Any,
    percentile: float,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The element of a window at a percentile, from 0 to 100; as scipy.ndimage.percentile_filter.

    A negative percentile counts from 100 down. The result is NaN where the window has one. Windows
    have at most 27 elements, unless the smallest or the largest is asked for.

    >>> percentile_filter([3, 9, 2, 7, 5], 20, size=3)
    array([3, 2, 2, 2, 5])
    """
    share = number("percentile", percentile)
    share += 100.0 if share < 0 else 0.0
    if not 0 <= share <= 100:
        raise FilterError("invalid percentile", hint="from -100 to 100")

    def at_share(count: int) -> int:
        return count - 1 if share == 100 else int(count * share / 100.0)

    return _ranked(filtering(input, output, mode, cval, origin, axes), at_share, size, footprint)


def _ranked(asked: Filtering, rank: Callable[[int], int], size: Any, footprint: Any) -> Array:
    """The element of a given rank in each window; `rank` maps the window's size to it."""
    array = asked.array
    check_order(array)
    check_size(size, footprint)
    sizes = _sizes(size, footprint, len(asked.chosen()))
    counted = None if footprint is None else footprint_of(footprint)
    if counted is not None:
        asked.check_axes("footprint", counted)
    count = math.prod(sizes) if counted is None else int(counted.sum())
    wanted = rank(count)
    wanted += count if wanted < 0 else 0
    if not 0 <= wanted < count:
        raise FilterError(
            "rank not within filter footprint size", hint=f"from {-count} to {count - 1}"
        )
    if wanted in (0, count - 1):
        combine = "min" if wanted == 0 else "max"
        return extreme(combine, asked, None if counted is not None else tuple(sizes), counted)
    if count > LARGEST_WINDOW:
        raise FilterError(
            f"a window of {count} elements is too large to sort",
            hint=f"at most {LARGEST_WINDOW}; scipy.ndimage has filters of larger windows",
        )
    border = asked.border(" by non-separable rank filters", hint="one mode for all axes")
    dtype, out = asked.result()
    counted = np.ones(sizes, bool) if counted is None else counted
    window, shifts = asked.on_all_axes(counted)
    for extent, shift in zip(window.shape, shifts, strict=True):
        check_origin(extent, shift)
    starts = [-(extent // 2) - shift for extent, shift in zip(window.shape, shifts, strict=True)]
    places = tuple([tuple(map(int, place)) for place in np.argwhere(window) + starts])
    given = RankFilter(places, wanted, border)

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        result = TensorSpec.of(specs[0].shape, dtype)
        return Program.of(*md_homs_from_ranks(given, specs[0], result))

    return call(("ranks", given, dtype), [array], build, out)


def _sizes(size: Any, footprint: Any, axes: int) -> list[int]:
    """The sizes of a box; empty where a footprint is given."""
    if footprint is not None:
        return []
    if size is None:
        raise FilterError("no footprint or filter size provided", hint="give size= or footprint=")
    sizes = [whole_number("size", extent) for extent in for_each_axis(size, axes)]
    if any(extent < 1 for extent in sizes):
        raise FilterError("incorrect filter size", hint="at least 1")
    return sizes
