"""Powers: strength reduction to multiplications, and NumPy's rules for integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.errors import TranslationError
from mdtensor.specs import kind_of

Applied = Callable[..., Any]
_MULTIPLIED, _INTEGERS_MULTIPLIED = 4, 64


def simpler_power(apply: Applied, base: Any, exponent: Any) -> Any:
    """Rewrite a small constant power as multiplications or sqrt; None for others.

    Base and exponent have one type, which is not bool. Raises TranslationError for integers where
    the exponent is, or may be, negative.

    >>> from mdtensor.translate.scalar import apply, const, param
    >>> simpler_power(apply, param(0, "f4"), const(3.0, "f4"))
    ((p0 * p0) * p0)
    """
    known = exponent.value if exponent.op == "const" else None
    whole = base.dtype.kind in "iu"
    if whole and not _is_never_negative(exponent):
        raise _negative(exponent)
    if isinstance(known, int | float):
        if known == 0.5 and kind_of(base.dtype) == "f":
            return apply("sqrt", base)
        most = _INTEGERS_MULTIPLIED if whole else _MULTIPLIED
        if 0 < known <= most and known == int(known):
            return _multiplied(apply, base, int(known))
    return None


def _is_never_negative(expr: Any) -> bool:
    """Whether an integer's type or value shows that it is non-negative."""
    if expr.op == "const":
        return isinstance(expr.value, int | float) and expr.value >= 0
    if expr.op == "cast":
        [given] = expr.args
        stays = np.can_cast(given.dtype, expr.dtype)
        return expr.dtype.kind == "u" or (stays and _is_never_negative(given))
    return expr.op == "index" or expr.dtype.kind in "bu"


def _negative(exponent: Any) -> TranslationError:
    if exponent.op == "const":
        return TranslationError(
            "integers to negative integer powers are not allowed, as in NumPy",
            hint="convert the base to a floating type",
        )
    return TranslationError(
        f"integers have no negative powers, which an exponent of {exponent.dtype.name} may ask for",
        hint="convert the exponent to an unsigned type, or the base to a floating one",
    )


def _multiplied(apply: Applied, base: Any, count: int) -> Any:
    if count == 1:
        return base
    half = _multiplied(apply, base, count // 2)
    square = apply("mul", half, half)
    return apply("mul", square, base) if count % 2 else square
