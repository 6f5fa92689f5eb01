"""`tensordot` with NumPy's signature and results."""

from __future__ import annotations

import operator
from typing import Any

from mdtensor.api.arrays.operands import Array
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.frontends.einsum.einsum import einsum
from mdtensor.api.frontends.einsum.products import Given
from mdtensor.errors import AxisError, DTypeError, ShapeError, count_of, shown
from mdtensor.options import MOST_AXES, beginning, is_iterable
from mdtensor.originals import original

_numpy_tensordot = original("numpy.tensordot")


@with_call_cache
def tensordot(a: Any, b: Any, axes: Any = 2) -> Array:
    """Sum products over pairs of axes, as `numpy.tensordot` does.

    `axes` is a number N (the last N axes of `a` with the first N of `b`), or two lists of axes.
    Raises ShapeError (a ValueError) where axes are repeated or their extents differ, AxisError
    (an IndexError too) for one that an array lacks, DTypeError (a TypeError) for what is no axis.

    >>> import numpy as np
    >>> a, b = np.ones((2, 3, 4)), np.ones((4, 3, 5))
    >>> tensordot(a, b, 1).shape
    (2, 3, 3, 5)
    >>> tensordot(a, b, ([1, 2], [1, 0])).shape
    (2, 5)
    """
    given = Given.of(a, b)
    (left, right), xp = given.arrays, given.xp
    have_shapes = isinstance(left, xp.ndarray) and isinstance(right, xp.ndarray)
    pairs = _paired_axes(left.shape, right.shape, axes) if have_shapes else []
    if given.reason:
        return given.by_numpy(_numpy_tensordot, a, b, axes)
    indices = iter(range(left.ndim + right.ndim))
    left_names = [next(indices) for _ in range(left.ndim)]
    shared = {of_b: left_names[of_a] for of_a, of_b in pairs}
    right_names = [shared[n] if n in shared else next(indices) for n in range(right.ndim)]
    summed = set(shared.values())
    kept = [n for n in (*left_names, *right_names) if n not in summed]
    return xp.asarray(einsum(left, left_names, right, right_names, kept, order="C"))


def _paired_axes(left: tuple[int, ...], right: tuple[int, ...], axes: Any) -> list[tuple[int, int]]:
    notes = (f"a: {left}    b: {right}",)
    of_left, of_right = _two_lists(axes)
    if len(of_left) != len(of_right):
        raise ShapeError(f"{len(of_left)} axes of a for {len(of_right)} of b", notes=notes)
    for name, shape, listed in (("a", left, of_left), ("b", right, of_right)):
        for axis in listed:
            if not -len(shape) <= axis < len(shape):
                raise AxisError(
                    f"{name} has no axis {shown(axis)}, but {count_of(len(shape), 'axis', 'axes')}",
                    notes=notes,
                )
    for one, other in zip(of_left, of_right, strict=True):
        if left[one] != right[other]:
            raise ShapeError(
                f"axis {one} of a has extent {left[one]} but axis {other} of b {right[other]}",
                notes=notes,
            )
    pairs = [
        (one % len(left), other % len(right)) for one, other in zip(of_left, of_right, strict=True)
    ]
    if any(len(set(side)) != len(side) for side in zip(*pairs, strict=True)):
        raise ShapeError(f"axes {shown(axes)} are repeated", notes=notes)
    return pairs


def _two_lists(axes: Any) -> tuple[list[int], list[int]]:
    """The contracted axes of both operands, from a count or from a list for each."""
    hint = "a number of axes, or two lists of them: ([1, 2], [0, 1])"
    try:
        if not is_iterable(axes):
            count = operator.index(axes)
            if count > MOST_AXES:
                raise AxisError(f"axes are {shown(axes)}", hint=f"an array has {MOST_AXES} at most")
            return list(range(-count, 0)), list(range(count))
        listed = [side if is_iterable(side) else [side] for side in beginning(axes, 2)]
        sides = [list(map(operator.index, beginning(side, MOST_AXES))) for side in listed]
    except TypeError:
        raise DTypeError(f"axes are {shown(axes)}", hint=hint) from None
    if len(sides) != 2:
        raise ShapeError(f"axes are {shown(axes)}", hint=hint)
    return sides[0], sides[1]
