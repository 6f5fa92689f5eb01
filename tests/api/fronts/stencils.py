"""Random stencils, run by NumPy on shifted arrays too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mdtensor as mdt
from mdtensor.translate.python.tuples import as_tuple
from tests.api.fronts.drawing import Draw, outcome_of, same_outcome, same_values
from tests.workers import MismatchError

_BORDERS = ("valid", "fixed", "constant", "nearest", "reflect", "mirror", "wrap")
_DTYPES = ("f4", "f4", "f8", "f8", "i4", "i8", "u1", "i2", "f2", "c16", "?")
_POINTS = 4000

Function = Callable[..., Any]


@dataclass
class Shifted:
    """An array that relative indices give shifted copies of; it notes what they reach."""

    array: np.ndarray
    border: str
    cval: float
    reached: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def __getitem__(self, place: Any) -> np.ndarray:
        place = place if isinstance(place, tuple) else (place,)
        self.reached.append(place)
        found = self.array
        outside = np.zeros(found.shape, bool)
        for axis, (step, extent) in enumerate(zip(place, found.shape, strict=True)):
            at = np.arange(extent) + step
            beyond = (at < 0) | (at >= extent)
            at = _folded(at, extent, self.border)
            found = np.take(found, at, axis)
            shape = [-1 if n == axis else 1 for n in range(found.ndim)]
            outside |= beyond.reshape(shape)
        if self.border == "constant":
            found = np.where(outside, np.asarray(self.cval).astype(found.dtype), found)
        return found


def _folded(at: np.ndarray, extent: int, border: str) -> np.ndarray:
    if not extent:
        return at
    if border == "reflect":
        at = at % (2 * extent)
        return np.where(at < extent, at, 2 * extent - 1 - at)
    if border == "mirror":
        if extent == 1:
            return np.zeros_like(at)
        at = at % (2 * extent - 2)
        return np.where(at < extent, at, 2 * extent - 2 - at)
    return np.clip(at, 0, extent - 1) if border == "nearest" else at % extent


def check(draw: Draw) -> None:
    """One function with one border, on several shapes, called and stepped."""
    rng = draw.rng
    ndim = rng.choice((1, 1, 2, 2, 3))
    count = rng.choice((1, 1, 2, 3))
    results = rng.choice((1, 1, 1, 2)) if count > 1 else 1
    border = rng.choice(_BORDERS)
    dtypes = [rng.choice(_DTYPES)] * count
    if draw.chance(0.2):
        dtypes = [rng.choice(_DTYPES) for _ in dtypes]
    whole = all(np.dtype(d).kind in "iub" for d in dtypes)
    cval = rng.choice((0, 0, 1, 3))
    cval = bool(cval) if "?" in dtypes else cval
    function = _function(draw, ndim, count, results, any(np.dtype(d).kind in "cb" for d in dtypes))
    stencil = mdt.stencil(function, border=border, cval=cval)
    draw.say(f"{ndim} axes, border {border} {cval}, {dtypes}")
    for _ in range(rng.choice((1, 2, 3))):
        shape = draw.extents(ndim, _POINTS, 0.01)
        for _ in range(rng.choice((1, 1, 2))):
            odd = rng.choice((0, 0, 0.5))
            arrays = [draw.array(shape, dtype, small=not whole, odd=odd) for dtype in dtypes]
            _check_call(draw, stencil, function, border, cval, arrays, results)


def _function(draw: Draw, ndim: int, count: int, results: int, unordered: bool) -> Function:
    rng = draw.rng
    reach = rng.choice((1, 1, 2, 3))

    def read() -> tuple[int, tuple[int, ...]]:
        return rng.randrange(count), tuple(rng.randint(-reach, reach) for _ in range(ndim))

    kinds = (
        ("sum", "product") if unordered else ("sum", "sum", "product", "larger", "chosen", "clip")
    )
    plans = [
        (
            rng.choice(kinds),
            [(*read(), rng.choice((1, 1, -1, 2))) for _ in range(rng.randint(1, 5))],
        )
        for _ in range(results)
    ]
    draw.say(repr(plans))

    def function(*arrays: Any) -> Any:
        found = []
        for kind, parts in plans:
            # What is not used does not count: a stencil reaches as far as its results do.
            used = parts if kind == "sum" else parts[:1] + parts[-1:]
            reads = [arrays[n][place if ndim > 1 else place[0]] for n, place, _ in used]
            if kind == "product":
                value = reads[0] * reads[-1]
            elif kind == "larger":
                value = np.maximum(reads[0], reads[-1])
            elif kind == "chosen":
                value = np.where(reads[0] > reads[-1], reads[-1], reads[0] + reads[-1])
            elif kind == "clip":
                value = np.clip(reads[0] + reads[-1], 0, 3)
            else:
                value = reads[0]
                for one, (_, _, factor) in zip(reads[1:], parts[1:], strict=True):
                    value = (
                        value + one
                        if factor == 1
                        else value - one
                        if factor < 0 and not unordered
                        else value + factor * one
                    )
            found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    names = ", ".join(f"a{n}" for n in range(count))
    return eval(f"lambda {names}: function({names})", {"function": function})


def _reference(
    function: Function, border: str, cval: float, arrays: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    shifted = [Shifted(array, border, cval) for array in arrays]
    values = function(*shifted)
    found = values if isinstance(values, tuple) else (values,)
    reached = [place for one in shifted for place in one.reached]
    ndim = arrays[0].ndim
    low = [min(0, *(place[n] for place in reached)) for n in range(ndim)]
    high = [max(0, *(place[n] for place in reached)) for n in range(ndim)]
    inside = tuple(
        slice(-a, max(-a, extent - b))
        for a, b, extent in zip(low, high, arrays[0].shape, strict=True)
    )
    if border == "valid":
        if any(e - b + a <= 0 for a, b, e in zip(low, high, arrays[0].shape, strict=True)):
            raise ValueError("nothing is inside")
        return tuple(np.ascontiguousarray(value[inside]) for value in found)
    if border == "fixed":
        kept = []
        for value, array in zip(found, arrays, strict=False):
            if not np.can_cast(array.dtype, value.dtype, "same_kind"):
                raise TypeError("the border's elements do not go into the result")
            result = array.astype(value.dtype)
            result[inside] = value[inside]
            kept.append(result)
        return tuple(kept)
    return tuple(np.ascontiguousarray(value) for value in found)


def _check_call(
    draw: Draw,
    stencil: Any,
    function: Function,
    border: str,
    cval: float,
    arrays: list[np.ndarray],
    results: int,
) -> None:
    copies = [np.array(array) for array in arrays]
    steps = draw.rng.choice((0, 0, 0, 1, 2, 3, 5))
    if any(array.dtype == np.float16 for array in arrays):
        steps = 0
    if 0 in arrays[0].shape:
        return draw.finished()

    def reference() -> tuple[np.ndarray, ...]:
        state = list(copies)
        found: tuple[np.ndarray, ...] = ()
        for _ in range(max(1, steps)):
            if state[-1].shape != state[0].shape:
                raise ValueError("arrays of different shapes")
            found = _reference(function, border, cval, state)
            state[: len(found)] = found
        return found

    theirs = outcome_of(reference)
    options: dict[str, Any] = {"n": steps} if steps else {}
    if theirs.error is None and draw.chance(0.3):
        out = tuple(_target(draw, value, arrays[n]) for n, value in enumerate(theirs.value))
        for target in out:
            draw.may_change(target)
        options["out"] = out if results > 1 else out[0]
    draw.say(f"steps={steps} out={'out' in options}")
    ours = outcome_of(lambda: (stencil.steps if steps else stencil)(*arrays, **options))
    if same_outcome(ours, theirs):
        if "out" in options:
            pairs = zip(as_tuple(ours.value), as_tuple(options["out"]), strict=True)
            if not all(one is other for one, other in pairs):
                raise MismatchError("the result is not the array that was given")
        same_values(ours.value, theirs.value if results > 1 else theirs.value[0])
    draw.finished()
    return None


def _target(draw: Draw, like: np.ndarray, array: np.ndarray) -> np.ndarray:
    fits = array.shape == like.shape and array.dtype == like.dtype and array.flags.writeable
    if fits and draw.chance(0.7) and not (0 in array.strides and array.size > 1):
        return array
    return draw.array(like.shape, like.dtype, target=True)
