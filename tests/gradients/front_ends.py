"""Calls of every front end, as functions of arrays whose gradients are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mdtensor as mdt


def _points(u: Any) -> Any:
    return u[-1] * u[1] + u[0]


_VALID = mdt.stencil(_points)
_ZEROS = mdt.stencil(_points, border="constant")
_REFLECTED = mdt.stencil(_points, border="reflect")
_FIXED = mdt.stencil(_points, border="fixed")


def _softmax(x: Any) -> Any:
    e = np.exp(mdt.lazy(x) - mdt.lazy(x).max(axis=1)[:, None])
    return e / e.sum(axis=1)[:, None]


def _recurrence(lhs: Any, rhs: Any) -> Any:
    return lhs[0] * rhs[0], lhs[1] * rhs[0] + rhs[1]


Case = tuple[Callable[..., Any], list[tuple[int, ...]]]

CASES: dict[str, Case] = {
    "lazy": (lambda x, y: np.exp(mdt.lazy(x)) * y / (1 + np.tanh(y) ** 2), [(3, 4), (4,)]),
    "lazy sum": (lambda x: (mdt.lazy(x) * x).sum(axis=1), [(3, 4)]),
    "slices": (lambda x: mdt.lazy(x)[1:] * mdt.lazy(x)[::-1][1:], [(5,)]),
    "softmax": (_softmax, [(3, 4)]),
    "where": (lambda x: np.where(mdt.lazy(x) > 0, mdt.lazy(x) ** 3, -2 * mdt.lazy(x)), [(7,)]),
    "max": (lambda x: mdt.reduce("ij->i", x, combine="max"), [(3, 4)]),
    "min of two dims": (lambda x: mdt.reduce("ij->", x, combine="min"), [(3, 4)]),
    "product": (lambda x: mdt.reduce("ij->i", x, combine="mul"), [(3, 4)]),
    "product of two dims": (lambda x: mdt.reduce("ij->", x, combine="mul"), [(3, 2)]),
    "logsumexp": (lambda x: mdt.reduce("ij->j", x, combine="logaddexp"), [(3, 4)]),
    "own operator": (
        lambda x: mdt.reduce("ij->i", x, combine=lambda a, b: a + b + a * b),
        [(3, 4)],
    ),
    "operator of tuples": (
        lambda x: mdt.reduce("i->", x, f=lambda a: (a, a * a), combine=_recurrence),
        [(5,)],
    ),
    "value of argmax": (
        lambda x: mdt.reduce("i->", x, f=lambda a, *, i: (a, i), combine="argmax")[0],
        [(5,)],
    ),
    "two operators": (
        lambda x, y: mdt.reduce(
            "id,jd->i", x, y, f=lambda a, b: (a - b) * (a - b), combine={"d": "add", "j": "min"}
        ),
        [(2, 3), (4, 3)],
    ),
    "own function": (
        lambda x, y: mdt.reduce("ij,j->i", x, y, f=lambda a, b: np.abs(a - b) * np.sin(a)),
        [(3, 4), (4,)],
    ),
    "epilogue": (
        lambda x, y, b: mdt.reduce(
            "ij,jk->ik; k", x, y, b, epilogue=lambda total, bias: np.tanh(total + bias)
        ),
        [(3, 4), (4, 2), (2,)],
    ),
    "gather": (lambda x: mdt.reduce("@1 j, i -> i j", x, np.array([2, 0, 2, 1])), [(3, 2)]),
    "window": (
        lambda x: mdt.reduce("h+r->h", x, f=lambda a: a * a * a, extents={"r": 3}),
        [(7,)],
    ),
    "max pool": (lambda x: mdt.reduce("2h+r->h", x, combine="max", extents={"r": 2}), [(6,)]),
    "min plus": (
        lambda x, y: mdt.einsum("ij,jk->ik", x, y, semiring="min_plus"),
        [(3, 4), (4, 2)],
    ),
    "logsumexp semiring": (
        lambda x, y: mdt.einsum("ij,jk->ik", x, y, semiring="logsumexp"),
        [(3, 4), (4, 2)],
    ),
    "cumsum": (lambda x: mdt.scan("ij->ij", x, combine={"j": "add"}), [(2, 4)]),
    "cumprod": (lambda x: mdt.scan("i->i", x, combine="mul"), [(5,)]),
    "cummax": (lambda x: mdt.scan("i->i", x, combine="max"), [(5,)]),
    "reverse scan": (lambda x: mdt.scan("i->i", x, combine="add", reverse=True), [(5,)]),
    "exclusive reverse scan": (
        lambda x: mdt.scan("i->i", x, combine="mul", exclusive=True, reverse=True),
        [(5,)],
    ),
    "scan of tuples": (
        lambda x, y: mdt.scan("i,i->i", x, y, f=lambda a, b: (a, b), combine=_recurrence),
        [(5,), (5,)],
    ),
    "conv": (mdt.conv, [(1, 5, 6, 2), (4, 2, 3, 2)]),
    "strided conv": (
        lambda x, w: mdt.conv(x, w, stride=2, padding=1),
        [(1, 5, 6, 2), (4, 2, 3, 2)],
    ),
    "conv with borders": (
        lambda x, w: mdt.conv(x, w, padding=((1, 0), (2, 1)), stride=(1, 2)),
        [(2, 6, 7, 2), (3, 2, 3, 2)],
    ),
    "transposed conv with borders": (
        lambda x, w: mdt.conv(x, w, stride=2, padding=1, transposed=True),
        [(1, 3, 4, 2), (4, 3, 3, 2)],
    ),
    "windows that overlap": (
        lambda x: mdt.reduce("2h+r->h", x, combine="max", extents={"r": 3}),
        [(9,)],
    ),
    "windows of several dims": (
        lambda x, w: mdt.einsum("2h+3r+s, r s -> h", x, w),
        [(14,), (3, 2)],
    ),
    "dilated conv": (lambda x, w: mdt.conv(x, w, dilation=2), [(1, 5, 6, 2), (4, 2, 3, 2)]),
    "transposed conv": (
        lambda x, w: mdt.conv(x, w, stride=2, transposed=True),
        [(1, 3, 3, 2), (4, 2, 3, 2)],
    ),
    "convolve": (mdt.convolve, [(6,), (3,)]),
    "correlate": (lambda x, w: mdt.correlate(x, w, mode="same"), [(6,), (3,)]),
    "tensordot": (lambda x, y: mdt.tensordot(x, y, 1), [(2, 3), (3, 2)]),
    "stencil": (_VALID, [(6,)]),
    "stencil with zeros": (_ZEROS, [(6,)]),
    "stencil that reflects": (_REFLECTED, [(6,)]),
    "stencil with fixed borders": (_FIXED, [(6,)]),
    "gaussian_filter": (lambda x: mdt.ndimage.gaussian_filter(x, 1.0), [(5, 5)]),
    "uniform_filter": (lambda x: mdt.ndimage.uniform_filter(x, 3), [(5, 5)]),
    "maximum_filter": (lambda x: mdt.ndimage.maximum_filter(x, 3), [(5,)]),
}
"""A function of arrays, and their shapes."""
