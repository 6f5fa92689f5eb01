"""What is known of an expression before it runs: its type, its range, how far rounding may reach.

Values are drawn such that plain Python over NumPy's scalars, and whatever computes the same in
other types, agree: no range leaves its type where types may differ, and only exact values are
compared, rounded or divided with a remainder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

LITERAL, LONG = "int", "long"
"""A number in the text; an int of Python's, which is int64 in a kernel (an index, `int(x)`)."""
WHOLE = (LITERAL, LONG, "u1", "i2", "i4", "i8")
FLOATS = ("float", "f4", "f8")
NARROW = ("u1", "i2", "i4")
_DIGITS = {"f4": 24, "f8": 52, "float": 52}
_WIDEST = 1 << 50


@dataclass(frozen=True)
class Range:
    """Every value of an expression lies in [low, high] and is a multiple of 2**-grain.

    `grain` is None where the value is rounded, `error` then says by how many units of the rounding
    at most. `pure` values have their type in Python whatever branch was taken.
    """

    kind: str
    low: float
    high: float
    grain: int | None = 0
    error: float = 0.0
    pure: bool = True

    @property
    def is_exact(self) -> bool:
        return self.grain is not None

    @property
    def is_whole(self) -> bool:
        return self.kind in WHOLE

    @property
    def bound(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def limits(self) -> tuple[float, float]:
        """What the type holds."""
        if self.kind in ("u1", "i2", "i4", "i8"):
            info = np.iinfo(self.kind)
            return max(int(info.min), -_WIDEST), min(int(info.max), _WIDEST)
        return -_WIDEST, _WIDEST

    def fits(self) -> bool:
        return self.limits[0] <= self.low and self.high <= self.limits[1]

    def impure(self) -> Range:
        return replace(self, pure=False)


BOOL = Range("?", 0, 1)


def common_kind(a: Range, b: Range) -> str | None:
    """The type of an operation on two numbers; None where it depends on more than types."""
    kinds = {a.kind, b.kind}
    for one, other in ((a, b), (b, a)):
        # Where a float may be an int of Python's, that must fit.
        if one.kind in NARROW and not other.pure and other.kind != one.kind:
            return None
    if "?" in kinds:
        kinds.discard("?")
        return kinds.pop() if kinds and kinds <= {"i8", "f8", LITERAL, LONG} else None
    if LONG in kinds:
        other = b.kind if a.kind == LONG else a.kind
        if other in NARROW:
            return None
        return LONG if other in (LITERAL, LONG) else other
    if LITERAL in kinds or "float" in kinds:
        weak = [k for k in kinds if k in (LITERAL, "float")]
        strong = [k for k in kinds if k not in (LITERAL, "float")]
        if not strong:
            return "float" if "float" in weak else LITERAL
        example = 0.0 if "float" in weak else 0
        return np.result_type(np.dtype(strong[0]), example).str[1:]
    found = np.result_type(a.kind, b.kind).str[1:]
    # An int of Python's in the place of either would leave a float32 one.
    return "f4" if "f4" in kinds and not (a.pure and b.pure) else found


def settled(kind: str, low: float, high: float, grain: int | None, error: float) -> Range:
    """A range whose rounding follows from its type."""
    if kind in WHOLE:
        return Range(kind, low, high, 0)
    bound = max(abs(low), abs(high))
    if grain is not None and bound * 2**grain < 2 ** _DIGITS[kind]:
        return Range(kind, low, high, grain)
    return Range(kind, low, high, None, error + bound)


def converted(a: Range, kind: str) -> Range:
    """An operand brought to the type of an operation, which rounds where that is a short float."""
    if kind not in FLOATS or a.grain is None:
        return a
    return replace(settled(kind, a.low, a.high, a.grain, 0), pure=a.pure)


def comparable(a: Range, b: Range) -> bool:
    """Whether a comparison gives the same in any type that is as wide as Python's."""
    if "?" in (a.kind, b.kind):
        return a.is_exact and b.is_exact and a.kind not in NARROW and b.kind not in NARROW
    kind = common_kind(a, b) or "i8"
    return all(converted(one, kind).is_exact for one in (a, b))


def combined(op: str, a: Range, b: Range) -> Range | None:
    """The range of `a op b` for + - *; None where Python and kernels may differ."""
    kind = common_kind(a, b)
    if kind is None:
        return None
    for one in (a, b):
        # NumPy refuses a number that does not fit the type of the other operand.
        if one.kind == LITERAL and kind in NARROW and not replace(one, kind=kind).fits():
            return None
    a, b = converted(a, kind), converted(b, kind)
    exact = a.grain is not None and b.grain is not None
    if op == "*":
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(ends), max(ends)
        grain = a.grain + b.grain if a.grain is not None and b.grain is not None else None
        error = a.error * b.bound + b.error * a.bound
    else:
        low = a.low + b.low if op == "+" else a.low - b.high
        high = a.high + b.high if op == "+" else a.high - b.low
        grain = max(a.grain or 0, b.grain or 0) if exact else None
        error = a.error + b.error
    found = replace(settled(kind, low, high, grain, error), pure=a.pure and b.pure)
    if found.fits():
        return found
    wraps = found.pure and kind in NARROW and a.kind == b.kind == kind
    return Range(kind, *found.limits) if wraps else None


def quotient(a: Range, b: Range) -> Range | None:
    """The range of `a / b`, where b is at least 1 from zero."""
    kind = common_kind(a, b)
    if kind is None or not (b.low >= 1 or b.high <= -1):
        return None
    if kind in WHOLE:
        kind = "float" if kind in (LITERAL, LONG) else "f8"
    bound = a.bound
    return Range(kind, -bound, bound, None, a.error + bound * b.error + bound, a.pure and b.pure)


def remainder(op: str, a: Range, b: Range) -> Range | None:
    """The range of `a // b` and `a % b` of exact values, b at least 1 from zero."""
    kind = common_kind(a, b)
    if kind is None or not (b.low >= 1 or b.high <= -1):
        return None
    a, b = converted(a, kind), converted(b, kind)
    if a.grain is None or b.grain is None:
        return None
    for one in (a, b):
        if one.kind == LITERAL and kind in NARROW and not replace(one, kind=kind).fits():
            return None
    if op == "//":
        bound = a.bound + 1
        found = settled(kind, min(-bound, 0) if a.low < 0 or b.low < 0 else 0, bound, 0, 0)
    else:
        low, high = (0.0, b.high) if b.low > 0 else (b.low, 0.0)
        found = settled(kind, low, high, max(a.grain, b.grain), 0)
    found = replace(found, pure=a.pure and b.pure)
    return found if found.fits() and found.is_exact else None


def chosen(ranges: Sequence[Range]) -> Range | None:
    """The range of a value that is one of several; None where their types do not go together."""
    first, *others = ranges
    for other in others:
        kind = _merged_kind(first, other)
        if kind is None:
            return None
        grains = first.grain, other.grain
        first = Range(
            kind,
            min(first.low, other.low),
            max(first.high, other.high),
            None if None in grains else max(g for g in grains if g is not None),
            max(first.error, other.error),
            first.pure and other.pure and first.kind == other.kind == kind,
        )
        if not first.fits():
            return None
    return first


def _merged_kind(a: Range, b: Range) -> str | None:
    if a.kind == b.kind:
        return a.kind
    kinds = {a.kind, b.kind}
    if kinds <= {LITERAL, LONG, "i8"}:
        return "i8" if "i8" in kinds else LONG
    if kinds <= {"float", "f8"}:
        return "f8"
    if kinds <= {LITERAL, *NARROW} and LITERAL in kinds:
        return next(k for k in kinds if k != LITERAL)
    if kinds <= {"float", "f4"}:
        return "f4"
    if kinds <= {LITERAL, LONG, "i8", "f8", "float"} and a.is_exact and b.is_exact:
        return "f8"
    return None
