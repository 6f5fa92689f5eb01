"""Dependence tests between the accesses of a loop nest.

The test is exact up to the rational shadow (see `integer_points`): loops' bounds, triangular ones
too, and affine conditions count. An index that is not affine may be anything.
"""

from __future__ import annotations

from mdtensor.dataclass import dataclass
from mdtensor.translate.loop_nests.source_loop_nest import Loops, SourceLoop
from mdtensor.translate.loops.integer_points import Linear, may_hold
from mdtensor.translate.views import AffineIndex

_FIRST, _SECOND = "", "'"


@dataclass(frozen=True, slots=True)
class Touch:
    """An access, read or write, in iterations of `loops` with all `conditions` non-negative."""

    buffer: str
    index: tuple[AffineIndex | None, ...]
    loops: Loops
    conditions: tuple[AffineIndex, ...] = ()


def carried_backwards(first: Touch, second: Touch) -> SourceLoop | None:
    """A loop that carries a dependence from `second` back to a later iteration of `first`.

    `first` comes before `second` in the text. If there is such a loop, all iterations of `first`
    cannot run before those of `second`.

    >>> i = SourceLoop("i", 10)
    >>> read = Touch("x", (AffineIndex.of("i", offset=-1),), (i,))
    >>> write = Touch("x", (AffineIndex.of("i"),), (i,))
    >>> carried_backwards(read, write)
    i:10
    >>> carried_backwards(write, read)
    """
    common = _common(first.loops, second.loops)
    if first.buffer != second.buffer or not common:
        return None
    equations, inequalities = _meeting(first, second)
    for loop in common:
        ahead = _variable(loop, _FIRST) - _variable(loop, _SECOND)
        if may_hold(equations, [*inequalities, ahead + Linear((), -1)]):
            return loop
        equations = [*equations, ahead]
    return None


def repeated(write: Touch) -> SourceLoop | None:
    """A loop with two iterations that may write the same element; None if there is none."""
    equations, inequalities = _meeting(write, write)
    for loop in write.loops:
        ahead = _variable(loop, _FIRST) - _variable(loop, _SECOND)
        if may_hold(equations, [*inequalities, ahead + Linear((), -1)]):
            return loop
        equations = [*equations, ahead]
    return None


def stays_inside(
    index: AffineIndex, extent: int, loops: Loops, conditions: tuple[AffineIndex, ...]
) -> bool:
    """Whether an index is within 0 to `extent` - 1 in all iterations of its access."""
    space = _space(Touch("", (), loops, conditions), _FIRST)
    value = _linear(index, _FIRST)
    below = Linear((), -1) - value
    above = value - Linear((), extent)
    return not may_hold([], [*space, below]) and not may_hold([], [*space, above])


def _common(first: Loops, second: Loops) -> Loops:
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return first[:count]


def _meeting(first: Touch, second: Touch) -> tuple[list[Linear], list[Linear]]:
    """The equations and inequalities for two accesses to touch one element."""
    equations = [
        _linear(lhs, _FIRST) - _linear(rhs, _SECOND)
        for lhs, rhs in zip(first.index, second.index, strict=True)
        if lhs is not None and rhs is not None
    ]
    return equations, [*_space(first, _FIRST), *_space(second, _SECOND)]


def _space(touch: Touch, mark: str) -> list[Linear]:
    found: list[Linear] = []
    for loop in touch.loops:
        variable = _variable(loop, mark)
        found += [variable, Linear((), loop.extent - 1) - variable]
    return found + [_linear(condition, mark) for condition in touch.conditions]


def _variable(loop: SourceLoop, mark: str) -> Linear:
    return Linear(((loop.name + mark, 1),))


def _linear(index: AffineIndex, mark: str) -> Linear:
    return Linear.of({dim + mark: c for dim, c in index.coefficients}, index.offset)
