"""Loops from the arguments of `range`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.errors import TranslationError
from mdtensor.translate.loop_nests.affine_conditions import difference
from mdtensor.translate.loop_nests.affine_from_expr import added, affine_from_expr
from mdtensor.translate.loop_nests.source_loop_nest import UNKNOWN, DataRange, Loops, SourceLoop
from mdtensor.translate.scalar import I64, Expr, as_expr, cast
from mdtensor.translate.views import AffineIndex

_ONE = AffineIndex((), 1)


def loop_from_range(
    bounds: Sequence[Any], dim: str, outer: Loops, variable: str, line: int
) -> tuple[SourceLoop, Expr]:
    """The loop of a `range` as dim `dim`, and its variable as an expression.

    Bounds are numbers, or affine in the dims of the loops around, `outer`; such a loop has
    conditions. Other integers are read from arrays: how far such a loop goes follows from what it
    reads. Raises TranslationError for bounds that are no integers.

    >>> loop_from_range((1, 8, 2), "i", (), "i", 1)
    (i:4, ((i * 2) + 1))
    """
    start, stop, step = _three(bounds)
    if not isinstance(step, int) or step == 0:
        raise TranslationError("the step of a range must be a constant")
    count = Expr("index", (), I64, dim, weak=True)
    first, last = _affine(start, outer), _affine(stop, outer)
    if first is None or last is None:
        return _loop_from_data(start, stop, step, dim, variable, line), count
    if not first.coefficients and not last.coefficients:
        extent = len(range(first.offset, last.offset, step))
        return SourceLoop(dim, extent, (), variable, line), _counted(count, step, first.offset)
    if abs(step) != 1:
        raise TranslationError(
            "bounds that depend on other loops need a step of 1 or -1",
            hint="count the iterations from 0 and compute the index from the count",
        )
    extents = {loop.name: loop.extent for loop in outer}
    low, high = (first, last) if step == 1 else (added(last, _ONE), added(first, _ONE))
    assert low is not None and high is not None
    lowest, highest = low.bounds(extents)[0], high.bounds(extents)[1]
    extent = max(0, highest - lowest)
    begin = lowest if step == 1 else highest - 1
    value = AffineIndex(((dim, step),), begin)
    inside = (difference(value, low), difference(high, value, -1))
    conditions = tuple(c for c in inside if len(c.coefficients) > 1)
    return SourceLoop(dim, extent, conditions, variable, line), _counted(count, step, begin)


def _three(bounds: Sequence[Any]) -> tuple[Any, Any, Any]:
    if len(bounds) == 1:
        return 0, bounds[0], 1
    return (bounds[0], bounds[1], bounds[2] if len(bounds) > 2 else 1)


def _affine(bound: Any, outer: Loops) -> AffineIndex | None:
    """A bound as an affine index over loops of known extent; None if it depends on data."""
    try:
        known = as_expr(bound)
    except TranslationError:
        known = None
    if known is None or known.dtype.kind not in "biu":
        raise TranslationError("a bound of a loop is no integer", hint=_HINT)
    affine = affine_from_expr(known)
    from_data = {loop.name for loop in outer if loop.range is not None}
    return None if affine is None or from_data.intersection(affine.dims) else affine


_HINT = (
    "bounds are integers from arguments and shapes, sums of outer loops' variables, or elements of"
    " arrays of integers"
)


def _loop_from_data(
    start: Any, stop: Any, step: int, dim: str, variable: str, line: int
) -> SourceLoop:
    """A loop with data-dependent bounds."""
    if step != 1:
        raise TranslationError(
            "bounds that are data need a step of 1",
            hint="count the iterations from 0 and compute the index from the count",
        )
    begin, end = (cast(as_expr(bound), I64) for bound in (start, stop))
    return SourceLoop(dim, UNKNOWN, (), variable, line, DataRange(begin, end))


def _counted(count: Expr, step: int, start: int) -> Expr:
    value = count if step == 1 else count * step
    return value + start if start else value
