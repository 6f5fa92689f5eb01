"""Random reductions and scans of tuples by functions, with a fold over rows as reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import mdtensor as mdt
from tests.api.fronts.drawing import Draw, outcome_of, same_outcome, same_values

_POINTS = 4000
Pair = tuple[Any, Any]
# Functions of two tuples of two elements: associative on whole numbers, not all commutative.
_OPERATORS: Mapping[str, Callable[[Pair, Pair], Pair]] = {
    "sum and largest": lambda x, y: (x[0] + y[0], np.maximum(x[1], y[1])),
    "span": lambda x, y: (np.minimum(x[0], y[0]), np.maximum(x[1], y[1])),
    "composed lines": lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]),
    "last": lambda x, y: y,
    "largest, its weight": lambda x, y: (
        np.maximum(x[0], y[0]),
        np.where(x[0] >= y[0], x[1], y[1]),
    ),
}
_TEXTS = ("i,i->", "ij,ij->i", "ij,ij->j", "ij,j->i", "ij,ji->")


def check(draw: Draw) -> None:
    """One operator on pairs, reduced or scanned, on several shapes and layouts."""
    rng = draw.rng
    name = rng.choice(list(_OPERATORS))
    operator = _OPERATORS[name]
    scans = draw.chance(0.3)
    text = "i,i->i" if scans else rng.choice(_TEXTS)
    lines = name == "composed lines"  # whose products are exact where integers wrap around
    dtypes = [rng.choice(("i4", "i8") if lines else ("f4", "f8", "i4", "i8"))] * 2
    if not lines and draw.chance(0.3):
        dtypes[1] = rng.choice(("f4", "f8", "i4", "u1", "?", "i2"))
    draw.say(f"{text} {name} {dtypes}")
    terms = text.partition("->")[0].split(",")
    letters = sorted(set("".join(terms)))
    for _ in range(rng.choice((1, 2, 3, 5))):
        extents = dict(zip(letters, draw.extents(len(letters), _POINTS), strict=True))
        for _ in range(rng.choice((1, 2))):
            arrays = [
                draw.array([extents[c] for c in term], dtype, odd=rng.choice((0, 0, 0.5)))
                for term, dtype in zip(terms, dtypes, strict=True)
            ]
            theirs = outcome_of(lambda: _reference(text, arrays, operator, scans))  # noqa: B023
            if theirs.error is not None:
                raise theirs.error
            call = mdt.scan if scans else mdt.reduce
            ours = outcome_of(
                lambda: call(text, *arrays, f=lambda a, b: (a, b), combine=operator)  # noqa: B023
            )
            if same_outcome(ours, theirs):
                same_values(tuple(map(np.asarray, ours.value)), theirs.value)
            draw.finished()


def _reference(
    text: str, arrays: list[np.ndarray], operator: Callable[[Pair, Pair], Pair], scans: bool
) -> Pair:
    inputs, _, output = text.partition("->")
    terms = inputs.split(",")
    order = sorted(set("".join(terms)))
    reduced = [c for c in order if c not in output] or order
    first = [*reduced, *(c for c in order if c not in reduced)]  # reduced axes, outermost first
    views = []
    for array, term in zip(arrays, terms, strict=True):
        own = array.transpose([term.index(c) for c in first if c in term])
        views.append(own[tuple(slice(None) if c in term else None for c in first)])
    pair = [np.array(each) for each in np.broadcast_arrays(*views)]
    rows = [each.reshape(-1, *each.shape[len(reduced) :]) for each in pair]
    found = [(rows[0][0], rows[1][0])]
    for row in zip(rows[0][1:], rows[1][1:], strict=True):
        found.append(operator(found[-1], row))
    results = [np.stack(each) for each in zip(*found, strict=True)] if scans else found[-1]
    return tuple(np.asarray(r).astype(a.dtype) for r, a in zip(results, arrays, strict=True))  # type: ignore[return-value]
