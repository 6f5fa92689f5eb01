"""Random calls of scipy's filters, with arguments of all kinds, compared with scipy's own."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.ndimage

import mdtensor as mdt
from tests.api.fronts.drawing import Draw, outcome_of, same_outcome, same_values

_MODES = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-wrap", "grid-constant")
_DTYPES = ("f8", "f8", "f4", "f4", "i4", "u1", "i8", "i2", "?", "c16", "c8")
_POINTS = 4000
_SORTING = ("median_filter", "percentile_filter", "rank_filter")
_ORDERED = (*_SORTING, "maximum_filter", "maximum_filter1d", "minimum_filter", "minimum_filter1d")
_SQUARING = ("gaussian_gradient_magnitude", "gaussian_laplace", "generic_gradient_magnitude")
_ALONG_AXIS = ("prewitt", "sobel")


def check(draw: Draw) -> None:
    """One filter, on several shapes."""
    rng = draw.rng
    name = rng.choice(mdt.ndimage.__all__)
    ours, theirs = getattr(mdt.ndimage, name), getattr(scipy.ndimage, name)
    # scipy's rank filters of arrays of one axis read beyond them where the window is wider.
    ndim = rng.choice((2, 2, 3) if name in _SORTING else (1, 2, 2, 3))
    dtype = rng.choice(_DTYPES)
    if name in _ORDERED and np.dtype(dtype).kind == "c":
        dtype = "f8"
    if name in _SQUARING and np.dtype(dtype).kind in "biu":
        dtype = "f8"  # an integer that is rounded otherwise is another one when it is squared
    options: dict[str, Any] = {"mode": rng.choice(_MODES)}
    if draw.chance(0.3):
        options["cval"] = rng.choice((0, 1, 2))
    if name.endswith("1d") or name in _ALONG_AXIS:
        options["axis"] = rng.randrange(-ndim, ndim)
    elif draw.chance(0.3):
        options["axes"] = tuple(sorted(rng.sample(range(ndim), rng.randint(1, ndim))))
    operand = _operand(draw, name, len(options.get("axes", range(ndim))), options)
    weights = [np.asarray(o) for o in operand if "late" in name or "volve" in name]
    if draw.chance(0.3):
        options["output"] = _output(draw, dtype, weights)
    draw.say(f"{name} {dtype} {operand} {options}")
    for _ in range(rng.choice((1, 2, 3))):
        shape = draw.extents(ndim, _POINTS)
        array = draw.array(shape, dtype, odd=rng.choice((0, 0.5)))
        expected = outcome_of(partial(theirs, array.copy(), *operand, **options))
        found = outcome_of(partial(ours, array, *operand, **options))
        if same_outcome(found, expected):
            values = found.value, expected.value
            if "magnitude" in name and found.value.dtype.kind == "c":
                # Roots of nearly the same numbers are far apart beside the branch cut.
                values = tuple(value**2 for value in values)
            _compare(*values, array, weights, exact=name in _ORDERED)
        draw.finished()


def _operand(draw: Draw, name: str, axes: int, options: dict[str, Any]) -> list[Any]:
    """What a filter takes besides the array; adds to the options."""
    rng = draw.rng
    if name in (*_ALONG_AXIS, "laplace"):
        return []
    if name.startswith("generic"):
        return [scipy.ndimage.sobel]
    if name in _SORTING:
        size = tuple(rng.choice((1, 2, 3)) for _ in range(axes))
        options["origin"] = [_origin(draw, n) for n in size]
        rank = {"percentile_filter": [rng.choice((0, 17, 50, -30, 100))], "rank_filter": [0]}
        return [*rank.get(name, []), size]
    if "gaussian" in name:
        if "filter" in name:
            options["order"] = rng.choice((0, 0, 1, 2))
        return [rng.choice((0.5, 1.0, 1.7))]
    if "late" in name or "volve" in name:
        shape = [rng.randint(1, 4) for _ in range(1 if name.endswith("1d") else axes)]
        options["origin"] = [_origin(draw, n, flipped="volve" in name) for n in shape]
        if name.endswith("1d"):
            (options["origin"],) = options["origin"]
        return [draw.values(shape, rng.choice(("f8", "f8", "i4", "f4", "?", "u1", "c16")))]
    if name.endswith("1d"):
        size = rng.randint(1, 5)
        options["origin"] = _origin(draw, size)
        return [size]
    if "imum" in name and draw.chance(0.4):
        counted = draw.values([rng.randint(1, 4) for _ in range(axes)], "?")
        counted.flat[rng.randrange(counted.size)] = True
        options |= {"footprint": counted, "origin": [_origin(draw, n) for n in counted.shape]}
        return []
    return [rng.choice((1, 2, 3, 4, tuple(rng.randint(1, 4) for _ in range(axes))))]


def _origin(draw: Draw, size: int, *, flipped: bool = False) -> int:
    if flipped:  # scipy flips a window with the origin, and an even one has no middle
        return 0 if size % 2 == 0 else draw.rng.randint(-(size // 2), size // 2)
    return draw.rng.randint(-(size // 2), (size - 1) // 2)


def _output(draw: Draw, dtype: str, weights: list[np.ndarray]) -> Any:
    """A type that the result is converted to without a warning, and within its range."""
    is_complex = "c" in [np.dtype(dtype).kind, *(w.dtype.kind for w in weights)]
    return np.dtype(draw.rng.choice(("c8", "c16") if is_complex else ("f4", "f8")))


def _compare(
    found: np.ndarray,
    expected: np.ndarray,
    array: np.ndarray,
    weights: list[np.ndarray],
    *,
    exact: bool,
) -> None:
    """Raises MismatchError where results differ by more than rounding explains."""
    if exact:
        same_values(found, expected)
    elif expected.dtype.kind == "b":
        same_values(np.zeros_like(found), np.zeros_like(expected))  # scipy's are other bytes too
    elif expected.dtype.kind in "iu":
        _same_integers(found, expected)
    else:
        is_single = np.result_type(expected, np.complex64) == np.complex64
        scale = sum(float(np.abs(w.astype(complex)).sum()) for w in weights) or 1.0
        scale *= max(2.0, float(np.abs(array.astype(complex)).max(initial=0)))
        # Sums of squares are larger than what they are of.
        eps = np.finfo(np.float32 if is_single else np.float64).eps
        bound = (3e-6 if is_single else 1e-11) * scale + 4 * eps * np.abs(expected)
        same_values(found, expected, bound)


def _same_integers(found: np.ndarray, expected: np.ndarray) -> None:
    """Raises MismatchError where integers differ by more than the one that a rounding makes."""
    same_values(np.zeros_like(found), np.zeros_like(expected))
    apart = (found - expected).astype(np.int64)
    if ((apart != 0) & (np.abs(apart.astype(found.dtype.str.replace("u", "i"))) > 1)).any():
        same_values(found, expected)
