"""Random plans: on arrays of their layout and of others, into arrays, and by threads at once."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import ShapeError
from tests.api import stand_in_bench
from tests.api.fronts.drawing import Draw, outcome_of, same_values
from tests.hurried import at_once
from tests.workers import MismatchError

_CALLS = (
    ("ij,jk->ik", "einsum"),
    ("ij,kj->ki", "einsum"),
    ("ijk,k->ji", "einsum"),
    ("ij->j", "einsum"),
    ("i,i->", "einsum"),
    ("ij,jk,kl->il", "einsum"),
    ("ij,j->ij", "einsum"),
    ("bij,bjk->bik", "einsum"),
    ("ij->i", "max"),
    ("i->i", "scan"),
)


def check(draw: Draw) -> None:
    """A plan and what it refuses; then the same call by several threads, on other shapes too."""
    rng = draw.rng
    text, kind = rng.choice(_CALLS)
    dtype = rng.choice(("f4", "f8", "i4", "c8", "u2"))
    if kind == "max" and dtype == "c8":
        dtype = "f4"
    terms = text.partition("->")[0].split(",")

    def arrays(odd: float) -> list[np.ndarray]:
        letters = sorted(set("".join(terms)))
        extents = dict(zip(letters, draw.extents(len(letters), 20000), strict=True))
        return [draw.array([extents[c] for c in term], dtype, odd=odd) for term in terms]

    operands = arrays(rng.choice((0, 0.5)))
    operands = [
        a if a.flags.aligned and not any(s % a.itemsize for s in a.strides) else a.copy()
        for a in operands
    ]
    draw.say(f"plan of {text} {kind}")
    plan = _plan(text, kind, operands)
    if draw.chance(0.02):
        draw.say("tuned")
        with pytest.MonkeyPatch.context() as patched:
            stand_in_bench.use(stand_in_bench.Bench(), patched)
            plan.tune(4, quiet=True)
    expected = _reference(text, kind, operands)
    for _ in range(2):
        same_values(np.asarray(plan(*operands)), expected)
    out = np.empty(plan.result.shape, plan.result.dtype)
    for _ in range(2):
        out[...] = 0
        if plan(*operands, out=out) is not out:
            raise MismatchError("the result is not the array that was given")
        same_values(out, expected)
    _refuses(plan, [np.asarray(a, order="C").reshape(*a.shape, 1) for a in operands])
    others = arrays(0)
    if any(
        a.shape != b.shape or a.strides != b.strides for a, b in zip(operands, others, strict=True)
    ):
        _refuses(plan, others)
    shares = next(
        (
            a
            for a in operands
            if a.shape == out.shape and a.dtype == out.dtype and a.strides == out.strides
        ),
        None,
    )
    if shares is not None and shares.flags.writeable:
        refused = outcome_of(lambda: plan(*operands, out=shares))
        if not isinstance(refused.error, ShapeError):
            raise MismatchError(f"out is an operand, and the plan gives {refused}")
    draw.finished()
    _at_once(
        draw,
        [(text, kind, arrays(rng.choice((0, 0.3)))) for _ in range(4)],
        plan,
        operands,
        expected,
    )
    draw.finished()


def _plan(text: str, kind: str, operands: list[np.ndarray]) -> Any:
    if kind == "einsum":
        return mdt.compile(text, *operands)
    function = mdt.scan if kind == "scan" else mdt.reduce
    return mdt.compile(function, text, *operands, combine="add" if kind == "scan" else "max")


def _call(text: str, kind: str, operands: list[np.ndarray]) -> Any:
    if kind == "einsum":
        return mdt.einsum(text, *operands)
    if kind == "scan":
        return mdt.scan(text, *operands)
    return mdt.reduce(text, *operands, combine="max")


def _reference(text: str, kind: str, operands: list[np.ndarray]) -> np.ndarray:
    if kind == "max":
        return operands[0].max(1)
    if kind == "scan":
        return np.cumsum(operands[0], dtype=operands[0].dtype)
    return np.asarray(np.einsum(text, *operands))


def _refuses(plan: Any, operands: list[np.ndarray]) -> None:
    refused = outcome_of(lambda: plan(*operands))
    if not isinstance(refused.error, ShapeError):
        raise MismatchError(f"arrays of another layout, and the plan gives {refused}")


def _at_once(
    draw: Draw,
    calls: list[tuple[str, str, list[np.ndarray]]],
    plan: Any,
    operands: list[np.ndarray],
    expected: np.ndarray,
) -> None:
    """Four threads: each makes all calls, beginning with another one, and the plan's between."""
    wanted = [_reference(*call) for call in calls]
    begin = threading.Barrier(4)

    def work(first: int) -> None:
        begin.wait()
        for n in range(3 * len(calls)):
            place = (first + n) % len(calls)
            same_values(np.asarray(_call(*calls[place])), wanted[place])
            same_values(np.asarray(plan(*operands)), expected)

    draw.say("by threads")
    at_once(*(partial(work, first) for first in range(4)))
