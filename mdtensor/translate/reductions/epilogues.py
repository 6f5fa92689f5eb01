"""Named epilogues: functions of a finished element, some with another operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mdtensor.errors import TranslationError, shown
from mdtensor.translate.scalar import apply


def relu(value: Any) -> Any:
    """`max(value, 0)`; NaN stays."""
    return apply("max", value, 0)


def gelu(value: Any) -> Any:
    """`value` times Φ(value), with the normal distribution's Φ by `erf`."""
    return value * 0.5 * (apply("erf", value * math.sqrt(0.5)) + 1)


def silu(value: Any) -> Any:
    """The value times its logistic function, also known as swish."""
    return value / (apply("exp", -value) + 1)


def tanh(value: Any) -> Any:
    """The hyperbolic tangent of the value."""
    return apply("tanh", value)


def bias(value: Any, added: Any) -> Any:
    """The value plus an element of an operand."""
    return value + added


def _behind_bias(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Compose a function with a preceding bias."""

    def biased(value: Any, added: Any) -> Any:
        return function(value + added)

    biased.__name__ = f"bias_{function.__name__}"
    return biased


_FUNCTIONS = (relu, gelu, silu, tanh)
EPILOGUES: Mapping[str, Callable[..., Any]] = {
    function.__name__: function for function in (*_FUNCTIONS, bias, *map(_behind_bias, _FUNCTIONS))
}


def epilogue_named(said: Callable[..., Any] | str | None) -> Callable[..., Any] | None:
    """The epilogue of a name; a function (or None) is returned as is.

    Raises TranslationError for a name that nobody knows.

    >>> epilogue_named("relu").__name__
    'relu'
    """
    if not isinstance(said, str):
        return said
    if said not in EPILOGUES:
        names = ", ".join(function.__name__ for function in _FUNCTIONS)
        raise TranslationError(
            f"unknown epilogue {shown(said)}",
            hint=f"a function, or {names}, bias, and bias_relu and so on",
        )
    return EPILOGUES[said]
