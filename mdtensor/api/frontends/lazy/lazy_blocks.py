"""Lazy arrays in parts: `concatenate`, `stack`, `roll`, `pad`, `take` and `reshape`.

Each is put together of blocks, which are views of expressions: every block is computed where it
belongs, by an `md_hom` of its own with affine indices.
"""

# The blocks are a part of lazy arrays, in a module of its own.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays.array_spec import spec
from mdtensor.api.arrays.operands import array_module, has_layout
from mdtensor.api.calls import call_cache
from mdtensor.api.frontends.lazy import interning
from mdtensor.api.frontends.lazy.lazy_array import (
    LazyArray,
    as_lazy,
    axes_of,
    into,
    merged,
)
from mdtensor.errors import DTypeError, IndexingError, LazyError, ShapeError, shown
from mdtensor.options import MOST_AXES, beginning, is_iterable, one_of, whole
from mdtensor.specs import as_dtype, common_dtype, kind_of
from mdtensor.translate.stencils.slices import FusedValue, broadcast, dim_of
from mdtensor.translate.views import AffineIndex

MOST_BLOCKS = 256
_MOST_OPERANDS = 4096
_EVALUATE = "np.asarray(y) evaluates a lazy array y first"


def concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, dtype: object = None, casting: str = "same_kind"
) -> Any:
    """Arrays joined along an axis; flattened first, if the axis is None."""
    parts = _listed(arrays)
    if axis is None:
        parts, axis = [reshape(part, -1) for part in parts], 0
    first = parts[0]
    if any(part.ndim != first.ndim or not part.ndim for part in parts):
        raise ShapeError(
            f"arrays with {', '.join(str(part.ndim) for part in parts[:MOST_AXES])} axes"
            " do not follow each other",
            hint="as many axes each, at least one",
        )
    (along,) = axes_of((axis,), first.ndim)
    for part in parts:
        if _without(part.shape, along) != _without(first.shape, along):
            raise ShapeError(
                f"shapes {first.shape} and {part.shape} differ not only along axis {along}"
            )
    made = _common_dtype(parts, dtype, casting)
    extents = [part.shape[along] for part in parts]
    starts = itertools.accumulate(extents, initial=0)
    shape = (*first.shape[:along], sum(extents), *first.shape[along + 1 :])
    offsets = [[start if n == along else 0 for n in range(first.ndim)] for start in starts]
    blocks = [(at, part.astype(made)) for at, part in zip(offsets, parts, strict=False)]
    return into(_assembled(blocks[0][1], shape, blocks), out)


def stack(
    arrays: Any, axis: Any = 0, out: Any = None, dtype: object = None, casting: str = "same_kind"
) -> Any:
    """Arrays of one shape, joined along a new axis."""
    parts = _listed(arrays)
    if any(part.shape != parts[0].shape for part in parts):
        raise ShapeError("arrays that are stacked have one shape")
    (along,) = axes_of((axis,), parts[0].ndim + 1)
    key = (*[slice(None)] * along, None)
    return concatenate([part[key] for part in parts], along, out, dtype, casting)


def roll(a: Any, shift: Any, axis: Any = None) -> LazyArray:
    """The elements shifted cyclically along axes."""
    value = as_lazy(a)
    if axis is None:
        return reshape(roll(reshape(value, -1), shift, 0), value.shape)
    shifts = _several(shift, "shift")
    given = _several(axis, "axis")
    count = max(len(shifts), len(given))
    if any(len(each) not in (1, count) for each in (shifts, given)):
        raise ShapeError(f"{len(shifts)} shifts along {len(given)} axes", hint="one for each axis")
    total = [0] * value.ndim
    many_shifts = shifts * (count if len(shifts) == 1 else 1)
    for each, along in zip(many_shifts, given * (count if len(given) == 1 else 1), strict=True):
        (number,) = axes_of((along,), value.ndim)
        total[number] += each
    pieces: list[list[_Piece]] = []
    for extent, by in zip(value.shape, total, strict=True):
        cut = extent and by % extent
        ends = [(0, cut, slice(extent - cut, None)), (cut, extent - cut, slice(0, extent - cut))]
        pieces.append([end for end in ends if end[1]] or [(0, extent, slice(None))])
    return _pieced(value, value.shape, pieces)


# A part of an axis: where it begins, how long it is, and which elements it has: a slice of them, or
# a value of its own.
_Piece = tuple[int, int, "slice | LazyArray"]


def pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> LazyArray:
    """The array padded: constant, edge, reflect, symmetric or wrap."""
    value = as_lazy(array)
    one_of("mode", mode, ("constant", "edge", "reflect", "symmetric", "wrap"))
    constants = _for_each_side("constant_values", options.pop("constant_values", 0), value.ndim)
    if options:
        raise DTypeError(
            f"np.pad of lazy arrays takes no {shown(next(iter(options)))}", hint=_EVALUATE
        )
    widths = _for_each_side("pad_width", pad_width, value.ndim)
    pieces: list[list[_Piece]] = []
    for axis, extent in enumerate(value.shape):
        before, after = (whole("pad_width", width) for width in widths[axis])
        if before < 0 or after < 0:
            raise ShapeError(f"pad_width of axis {axis} is {(before, after)}", hint="at least 0")
        if mode == "constant":
            sides = [_single(value, side) for side in constants[axis]]
            ends: list[_Piece] = [(0, before, sides[0]), (before + extent, after, sides[1])]
        elif not extent and (before or after):
            raise ShapeError(f"axis {axis} has no elements to pad with", hint="mode='constant'")
        else:
            ends = [*_before(mode, extent, before), *_after(mode, extent, before, after)]
        pieces.append([piece for piece in ((before, extent, slice(None)), *ends) if piece[1]])
    shape = tuple(sum(piece[1] for piece in each) for each in pieces)
    return _pieced(value, shape, pieces)


def _after(mode: str, extent: int, before: int, after: int) -> list[_Piece]:
    """The pieces that pad an axis at its end: repetitions of the axis, or of its mirror image."""
    if mode == "edge" or (mode == "reflect" and extent == 1):
        return [(before + extent, after, slice(extent - 1, extent))]
    skipped = 1 if mode == "reflect" else 0
    period, found = extent - skipped, list[_Piece]()
    for number, done in enumerate(_steps(period, after)):
        count = min(period, after - done)
        first = extent - 1 - skipped
        key = slice(skipped, skipped + count)
        if mode != "wrap" and number % 2 == 0:
            key = slice(first, first - count if first >= count else None, -1)
        found.append((before + extent + done, count, key))
    return found


def _before(mode: str, extent: int, before: int) -> list[_Piece]:
    """The pieces that pad an axis at its begin: those of `_after`, mirrored."""
    found: list[_Piece] = []
    for start, count, key in _after(mode, extent, 0, before):
        begin, end, step = cast(slice, key).indices(extent)
        last = begin + (len(range(begin, end, step)) - 1) * step
        # Elements n and extent - 1 - n take each other's place.
        turned = range(extent - 1 - last, extent - 1 - begin + (1 if step > 0 else -1), step)
        stop = turned.stop if turned.stop >= 0 else None
        found.append((before + extent - start - count, count, slice(turned.start, stop, step)))
    return found


def _steps(period: int, length: int) -> range:
    if length > period * MOST_BLOCKS:
        raise _too_many_blocks(-(-length // period))
    return range(0, length, period)


def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """The elements at positions along an axis, by blocks of equal step."""
    value = as_lazy(a)
    if axis is None:
        value, axis = reshape(value, -1), 0
    (along,) = axes_of((axis,), value.ndim)
    places = _positions(indices, value.shape[along], mode)
    key = (slice(None),) * along
    if not places.ndim:
        return into(value[(*key, int(places))], out)
    pieces: list[list[_Piece]] = [[(0, extent, slice(None))] for extent in value.shape]
    pieces[along] = _runs(places.ravel())
    shape = (*value.shape[:along], places.size, *value.shape[along + 1 :])
    taken = _pieced(value, shape, pieces)
    whole_shape = (*value.shape[:along], *places.shape, *value.shape[along + 1 :])
    return into(reshape(taken, whole_shape), out)


def _positions(indices: Any, extent: int, mode: Any) -> np.ndarray:
    """Positions normalised to count from 0, on the host."""
    one_of("mode", mode, ("raise", "wrap", "clip"))
    given = as_lazy(indices)
    held: Any = given.evaluate() if isinstance(indices, LazyArray) else given._arrays[0]
    on_host: np.ndarray = np.asarray(held.get() if hasattr(held, "get") else held)
    if on_host.dtype.kind not in "iu" and on_host.size:
        raise IndexingError(
            f"np.take of lazy arrays takes integers, not {on_host.dtype}", hint="astype(int)"
        )
    if not extent and on_host.size:
        raise IndexingError("positions along an axis that has no elements")
    places = on_host.astype(np.int64)
    if mode == "wrap":
        return places % extent if extent else places
    if mode == "clip":
        return places.clip(0, max(extent - 1, 0))
    if ((places < -extent) | (places >= extent)).any():
        raise IndexingError(f"a position is out of range for an axis of {extent} elements")
    return np.where(places < 0, places + extent, places)


def _runs(places: np.ndarray) -> list[_Piece]:
    """Positions as slices, one for each run of equal step."""
    found: list[_Piece] = []
    steps, start = np.diff(places), 0
    while start < len(places):
        if len(found) == MOST_BLOCKS:
            raise LazyError(
                f"positions that are more than {MOST_BLOCKS} slices",
                hint="np.take(np.asarray(y), positions) takes any from an evaluated lazy array y",
            )
        step = int(steps[start]) if start < len(steps) else 0
        others = np.flatnonzero(steps[start:] != step)
        count = int(others[0]) + 1 if len(others) else len(places) - start
        first = int(places[start])
        if step == 0:
            found.append((start, count, slice(first, first + 1)))
        else:
            stop = first + step * count
            found.append((start, count, slice(first, stop if stop >= 0 else None, step)))
        start += count
    return found


def reshape(a: Any, shape: Any, order: Any = "C", *, copy: Any = None) -> LazyArray:
    """The elements in another shape: a view, unless axes are merged, which are stored."""
    value = as_lazy(a)
    one_of("order", order, ("C", "F"))
    if copy is False:
        raise LazyError(
            "a lazy array is reshaped by a copy, where axes become one", hint="copy=None"
        )
    if order == "F":
        wanted = _wanted_shape(value, shape)
        return reshape(value.transpose(), wanted[::-1]).transpose()
    wanted = _wanted_shape(value, shape)
    if wanted == value.shape:
        return value
    array: Any = value.array
    if has_layout(array) and array.flags.c_contiguous and call_cache.tracer.get() is None:
        return as_lazy(array.reshape(wanted))
    if not value.size:
        return _empty(value, wanted)
    return value._like(interning.reshaped(value._value, wanted))


def ravel(a: Any, order: Any = "C") -> LazyArray:
    """The elements along one axis."""
    return reshape(a, -1, order)


def _wanted_shape(value: LazyArray, shape: Any) -> tuple[int, ...]:
    listed = tuple(beginning(shape, MOST_AXES)) if is_iterable(shape) else (shape,)
    extents = [whole("an extent", extent) for extent in listed]
    size = value.size
    if extents.count(-1) == 1:
        known = -math.prod(extents)
        extents[extents.index(-1)] = size // known if known else 0
    if any(extent < 0 for extent in extents) or math.prod(extents) != size:
        raise ShapeError(f"{value.shape} has not as many elements as {shown(listed)}")
    return spec(tuple(extents)).shape


def _pieced(
    value: LazyArray, shape: Sequence[int], pieces: Sequence[Sequence[_Piece]]
) -> LazyArray:
    """An array assembled from pieces of its axes; each combination of pieces is a block."""
    count = math.prod(map(len, pieces))
    if count > MOST_BLOCKS:
        raise _too_many_blocks(count)
    blocks: list[tuple[Sequence[int], LazyArray]] = []
    for chosen in itertools.product(*pieces):
        extents = tuple(piece[1] for piece in chosen)
        own = [piece[2] for piece in chosen if isinstance(piece[2], LazyArray)]
        # A constant of a later axis goes over those of axes before it.
        part = own[-1] if own else value[tuple(cast(slice, piece[2]) for piece in chosen)]
        if part.shape != extents:
            part = part._like(broadcast(part._value, extents))
        blocks.append(([piece[0] for piece in chosen], part))
    return _assembled(value, tuple(shape), blocks)


def _assembled(
    like: LazyArray, shape: tuple[int, ...], blocks: Sequence[tuple[Sequence[int], LazyArray]]
) -> LazyArray:
    """An array assembled from blocks at given starts; an empty one where there are none."""
    kept = [(starts, value) for starts, value in blocks if value.size]
    if not kept:
        return _empty(like, shape)
    if len(kept) == 1 and kept[0][1].shape == shape:
        return kept[0][1]
    places = tuple(
        tuple(AffineIndex.of(dim_of(axis), offset=start) for axis, start in enumerate(starts))
        for starts, _ in kept
    )
    values, arrays = merged([value for _, value in kept])
    return LazyArray(interning.assembled(shape, places, *cast("list[FusedValue]", values)), arrays)


def _empty(like: LazyArray, shape: tuple[int, ...]) -> LazyArray:
    return as_lazy(array_module(like._arrays).empty(shape, like.dtype))


def _single(value: LazyArray, constant: Any) -> LazyArray:
    """A number as an array of another array's type."""
    held = np.asarray(constant)
    if held.ndim or kind_of(held.dtype) not in "biufc":
        raise DTypeError(f"constant_values has {shown(constant)}, which is no number")
    if held.dtype.kind == "c" and value.dtype.kind != "c":
        raise DTypeError(f"{constant} goes into no array of {value.dtype}")
    with np.errstate(all="ignore"):
        return as_lazy(array_module(value._arrays).asarray(held.astype(value.dtype)))


def _for_each_side(name: str, given: Any, ndim: int) -> list[list[Any]]:
    """A pair per axis, from one number, one pair, or a pair for each axis."""
    try:
        held = np.broadcast_to(np.asarray(given), (ndim, 2))
    except (RecursionError, RuntimeError, TypeError, ValueError):
        raise ShapeError(
            f"{name} is {shown(given)}", hint=f"a number, or a pair for each of {ndim} axes"
        ) from None
    return held.tolist()


def _several(given: Any, name: str) -> list[int]:
    listed = beginning(given, _MOST_OPERANDS) if is_iterable(given) else [given]
    return [whole(name, each) for each in listed]


def _listed(arrays: Any) -> list[LazyArray]:
    if not is_iterable(arrays):
        raise DTypeError(f"{shown(arrays)} is no list of arrays")
    parts = [as_lazy(array) for array in beginning(arrays, _MOST_OPERANDS)]
    if not parts:
        raise ShapeError("no arrays to put together")
    if len(parts) > MOST_BLOCKS:
        raise _too_many_blocks(len(parts))
    return parts


def _common_dtype(parts: Sequence[LazyArray], dtype: object, casting: str) -> np.dtype:
    if dtype is None:
        return common_dtype([part.dtype for part in parts])
    made = as_dtype(dtype)
    one_of("casting", casting, ("no", "equiv", "safe", "same_kind", "unsafe"))
    for part in parts:
        if not np.can_cast(part.dtype, made, casting):  # type: ignore[arg-type]
            raise DTypeError(f"{part.dtype} does not go into {made} by casting={casting!r}")
    return made


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _too_many_blocks(count: int) -> LazyError:
    return LazyError(f"an array in {count} blocks: at most {MOST_BLOCKS}", hint=_EVALUATE)
