"""Random calls of functions along axes and of pools, with NumPy's on wider types as reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.special

import mdtensor as mdt
from tests.api.fronts.drawing import DTYPES, Draw, outcome_of, same_outcome, same_values

_POINTS = 5000
_EPS = 0.1  # added to a variance: rounding of the mean counts little beside it
_NUMPYS = ("sum", "prod", "max", "min", "mean", "var", "std", "argmax", "argmin")
_ORDERED = ("max", "min", "argmax", "argmin", "softmax", "logsumexp", "layer_norm", "max_pool")


def _layer_norm(x: np.ndarray, axis: Any) -> np.ndarray:
    far = x - x.mean(axis, keepdims=True)
    return far / np.sqrt(np.square(far).mean(axis, keepdims=True) + _EPS)


_NORMALISING: Mapping[str, Callable[..., Any]] = {
    "softmax": scipy.special.softmax,
    "logsumexp": scipy.special.logsumexp,
    "layer_norm": _layer_norm,
}
_POOLS = ("max_pool", "avg_pool")


def check(draw: Draw) -> None:
    """One function, on several shapes and layouts."""
    rng = draw.rng
    name = rng.choice((*_NUMPYS, *_NORMALISING, *_POOLS))
    ndim = rng.choice((1, 2, 2, 3))
    dtype = rng.choice([d for d in DTYPES if d not in ("c8", "c16") or name not in _ORDERED])
    axis = rng.choice((None, *range(-ndim, ndim), *([(0, -1)] if ndim > 1 else [])))
    if name in ("argmax", "argmin") and isinstance(axis, tuple):
        axis = None
    options: dict[str, Any] = {"axis": axis}
    if name in _POOLS:
        axes = rng.sample(range(ndim), rng.randint(1, min(2, ndim)))
        options = {"window": tuple(rng.randint(1, 3) for _ in axes), "axes": tuple(axes)}
        options["stride"] = tuple(rng.randint(1, 3) for _ in axes)
        options["padding"] = tuple(rng.randrange(size) for size in options["window"])
    elif name in _NUMPYS and draw.chance(0.4):
        options["keepdims"] = True
    draw.say(f"{name} {dtype} {options}")
    for _ in range(rng.choice((1, 2, 3, 5))):
        shape = draw.extents(ndim, _POINTS)
        for _ in range(rng.choice((1, 2))):
            array = draw.array(shape, dtype, odd=rng.choice((0, 0, 0.5)))
            theirs = outcome_of(lambda: _reference(name, array, options))  # noqa: B023
            more = {"eps": _EPS} if name == "layer_norm" else {}
            ours = outcome_of(lambda: getattr(mdt, name)(array, **options, **more))  # noqa: B023
            if same_outcome(ours, theirs):
                expected = theirs.value
                same_values(np.asarray(ours.value), expected, _bound(expected))
            draw.finished()


def _bound(expected: np.ndarray) -> Any:
    """How far rounding may take a result."""
    if expected.dtype.kind not in "fc":
        return None
    return 16 * np.finfo(expected.dtype).eps * np.maximum(1, np.nan_to_num(np.abs(expected)))


def _reference(name: str, array: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    wide = {"f": np.float64, "c": np.complex128}.get(array.dtype.kind, array.dtype)
    exact = array.astype(wide)
    own = array.dtype if array.dtype.kind == "f" else np.dtype("f8")
    if name in _NUMPYS:
        found = getattr(np, name)(exact, **options)
        return np.asarray(found).astype(getattr(np, name)(array, **options).dtype)
    if name in _NORMALISING:
        return np.asarray(_NORMALISING[name](exact.astype("f8"), **options)).astype(own)
    dtype = array.dtype
    least = {"f": -np.inf, "b": False}.get(dtype.kind)
    if name == "avg_pool":
        least, dtype = 0, array.dtype if array.dtype.kind in "fc" else np.dtype("f8")
    elif least is None:
        least = np.iinfo(array.dtype).min
    windows = _windows(exact, options, least)
    last = tuple(range(-len(options["axes"]), 0))
    found = windows.max(last) if name == "max_pool" else windows.mean(last)
    return np.asarray(found).astype(dtype)


def _windows(x: np.ndarray, options: dict[str, Any], outside: Any) -> np.ndarray:
    """The windows of a padded array, along further axes."""
    around, every = [(0, 0)] * x.ndim, [slice(None)] * x.ndim
    for axis, pad, step in zip(options["axes"], options["padding"], options["stride"], strict=True):
        around[axis], every[axis] = (pad, pad), slice(None, None, step)
    padded = np.pad(x, around, constant_values=outside)
    sliding = np.lib.stride_tricks.sliding_window_view
    return sliding(padded, options["window"], options["axes"])[tuple(every)]
