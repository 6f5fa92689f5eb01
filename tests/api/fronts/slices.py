"""Random lazy expressions, computed by NumPy beside; tensordot, convolve and correlate."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.signal

import mdtensor as mdt
from tests.api.fronts.drawing import Draw, outcome_of, same_outcome, same_values
from tests.workers import MismatchError

_POINTS = 3000
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "where": lambda a, b: np.where(a > b, b, a),
    "<": lambda a, b: a < b,
    "!=": lambda a, b: a != b,
}
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "square": np.square,
    "+1": lambda a: a + 1,
    "*2": lambda a: 2 * a,
    "/2": lambda a: a / 2,
    "clip": lambda a: np.clip(a, 0, 3),
    "T": lambda a: a.T,
    "astype": lambda a: a.astype("f8"),
    "flip": lambda a: np.flip(a, 0) if a.ndim else a,
    "roll": lambda a: np.roll(a, 2, a.ndim - 1) if a.ndim else a,
    "pad": lambda a: np.pad(a, 1, mode="edge" if a.size else "constant"),
    "concatenate": lambda a: np.concatenate([a, a[1:]]) if a.ndim else a,
    "ravel": lambda a: a.ravel(),
    "split": lambda a: a.reshape(*a.shape, 1, 1)[..., 0].reshape(-1, 1),
    "take": lambda a: np.take(a, [0, 0, -1], 0) if a.ndim and a.shape[0] else a,
}
_REDUCTIONS = ("sum", "max", "min", "mean", "any", "all", "prod")


def check(draw: Draw) -> None:
    """One expression, on several shapes and layouts."""
    rng = draw.rng
    count = rng.choice((1, 1, 2, 3))
    dtypes = draw.dtypes(count)
    dtypes = ["f4" if d in ("f2", "c8", "c16") else d for d in dtypes]
    ndim = rng.choice((1, 2, 2, 3))
    seed = rng.getrandbits(32)
    for _ in range(rng.choice((1, 2, 3))):
        shape = draw.extents(ndim, _POINTS)
        for _ in range(rng.choice((1, 2))):
            odd = rng.choice((0, 0, 0.5))
            shapes = [[1 if draw.chance(0.05) else e for e in shape] for _ in dtypes]
            arrays = [draw.array(s, d, odd=odd) for s, d in zip(shapes, dtypes, strict=True)]
            _check_expression(draw, arrays, seed)


def _check_expression(draw: Draw, arrays: list[np.ndarray], seed: int) -> None:
    made = outcome_of(lambda: _build(arrays, seed))
    if made.error is not None:
        raise made.error
    expected, said = made.value
    expected = np.asarray(expected)
    draw.say(said)
    out = None
    if draw.chance(0.25):
        fits = [a for a in arrays if a.shape == expected.shape and a.dtype == expected.dtype]
        fits = [a for a in fits if a.flags.writeable and (a.size < 2 or 0 not in a.strides)]
        out = fits[0] if fits else draw.array(expected.shape, expected.dtype, target=True)
        draw.may_change(out)
        draw.say("out")
    expected = expected.copy()
    ours = outcome_of(lambda: _build([mdt.lazy(a) for a in arrays], seed)[0].evaluate(out))
    if same_outcome(ours, made):
        magnitude = np.abs(expected.astype(np.float64)) if expected.dtype.kind == "f" else None
        bound = None if magnitude is None else 1e-5 * np.nan_to_num(magnitude) + 1e-6
        if out is not None and ours.value is not out:
            raise MismatchError("the result is not the array that was given")
        same_values(np.asarray(ours.value), expected, bound)
    draw.finished()


def _build(leaves: list[Any], seed: int) -> tuple[Any, str]:
    """The expression of a seed, on lazy arrays or on NumPy's; the same operations on both."""
    rng = random.Random(seed)
    values, said = list(leaves), list[str]()
    for _ in range(rng.choice((1, 2, 3, 4, 6))):
        n = rng.randrange(len(values))
        value = values[n]
        kind = rng.random()
        if kind < 0.3:
            key = tuple(_slice(rng, extent) for extent in value.shape)
            said.append(f"{n}[{key}]")
            values.append(value[key])
        elif kind < 0.5:
            name = rng.choice(list(_UNARY))
            if value.dtype == np.bool_ and name == "clip":
                name = "+1"
            said.append(f"{name} {n}")
            values.append(_UNARY[name](value))
        elif kind < 0.6 and value.ndim:
            name, axis = rng.choice(_REDUCTIONS), rng.choice((None, 0, value.ndim - 1))
            keep = rng.random() < 0.5
            if 0 in value.shape and name in ("max", "min", "mean"):
                name = "sum"
            said.append(f"{name}({n}, {axis}, {keep})")
            values.append(getattr(value, name)(axis=axis, keepdims=keep))
        else:
            m = rng.randrange(len(values))
            one, other = _common(value, values[m])
            name = rng.choice(list(_BINARY))
            if one.dtype == other.dtype == np.bool_ and name == "-":
                name = "*"
            said.append(f"{name}({n}, {m})")
            values.append(_BINARY[name](one, other))
    return values[-1], "; ".join(said)


def _slice(rng: Any, extent: int) -> Any:
    start = rng.randint(0, max(0, extent // 2))
    return rng.choice(
        (
            slice(None),
            slice(start, None),
            slice(None, None, 2),
            slice(None, None, -1),
            slice(None, max(1, extent - 1)),
            slice(-2, None),
            slice(start, None, 3),
        )
    )


def _common(one: Any, other: Any) -> tuple[Any, Any]:
    """Both, cut to extents that fit each other."""
    rank = min(one.ndim, other.ndim)
    cut_one, cut_other = [], []
    for axis in range(1, rank + 1):
        a, b = one.shape[-axis], other.shape[-axis]
        least = max(a, b) if 1 in (a, b) else min(a, b)
        cut_one.insert(0, slice(0, least))
        cut_other.insert(0, slice(0, least))
    return one[(..., *cut_one)], other[(..., *cut_other)]


def check_products(draw: Draw) -> None:
    """tensordot, convolve and correlate, on several shapes in a row."""
    rng = draw.rng
    what = rng.choice(("tensordot", "convolve", "correlate", "nd"))
    dtypes = [d if d != "f2" else "f4" for d in draw.dtypes(2)]
    if what == "nd":  # SciPy correlates no booleans
        dtypes = [d if d != "?" else "i4" for d in dtypes]
    small = np.result_type(*dtypes).kind in "fc"
    rank = rng.choice((1, 2, 2, 3))
    mode, name = rng.choice(("full", "same", "valid")), rng.choice(("convolve", "correlate"))
    ranks = rng.choice(((1, 1), (2, 2), (2, 3), (3, 3), (4, 2), (0, 2)))
    shared = rng.randint(0, min(ranks))
    axes = (rng.sample(range(ranks[0]), shared), rng.sample(range(ranks[1]), shared))
    by_number = draw.chance(0.3)
    for _ in range(rng.choice((1, 2, 4))):
        odd = rng.choice((0, 0, 0.5))
        if what == "tensordot":
            shapes = [draw.extents(r, 300, 0.02) for r in ranks]
            for one, other in zip(*axes, strict=True):
                shapes[1][other] = shapes[0][one]
            asked: Any = axes
            if by_number:
                asked = shared
                for n in range(shared):
                    shapes[1][n] = shapes[0][ranks[0] - shared + n]
            a, b = (
                draw.array(s, d, small=small, odd=odd) for s, d in zip(shapes, dtypes, strict=True)
            )
            draw.say(f"tensordot({asked})")
            theirs = outcome_of(lambda: np.tensordot(a, b, asked))  # noqa: B023
            ours = outcome_of(lambda: mdt.tensordot(a, b, asked))  # noqa: B023
        elif what == "nd":
            shapes = [draw.extents(rank, 400) for _ in range(2)]
            a, b = (
                draw.array(s, d, small=small, odd=odd) for s, d in zip(shapes, dtypes, strict=True)
            )
            draw.say(f"{name} {mode} direct")
            theirs = outcome_of(lambda: getattr(scipy.signal, name)(a, b, mode, "direct"))  # noqa: B023
            ours = outcome_of(lambda: getattr(mdt, name)(a, b, mode, "direct"))  # noqa: B023
        else:
            a, b = (draw.array(draw.extents(1, 300), d, small=small, odd=odd) for d in dtypes)
            draw.say(f"{what} {mode}")
            theirs = outcome_of(lambda: getattr(np, what)(a, b, mode))  # noqa: B023
            ours = outcome_of(lambda: getattr(mdt, what)(a, b, mode))  # noqa: B023
        if same_outcome(ours, theirs):
            same_values(ours.value, theirs.value)
        draw.finished()
