"""Epilogues that have a name: functions of a finished element, some also of an operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mdtensor.errors import TranslationError, shown
from mdtensor.translate.scalar import apply


def relu(value: Any) -> Any:
    """The value where it is positive, else 0; NaN stays."""
    return apply("max", value, 0)


def gelu(value: Any) -> Any:
    """The value times the probability that a normal variable is below it."""
    return value * 0.5 * (apply("erf", value * math.sqrt(0.5)) + 1)


def bias(value: Any, added: Any) -> Any:
    """The value plus an element of an operand."""
    return value + added


def bias_relu(value: Any, added: Any) -> Any:
    """`relu` of the value plus an element of an operand."""
    return relu(value + added)


def bias_gelu(value: Any, added: Any) -> Any:
    """`gelu` of the value plus an element of an operand."""
    return gelu(value + added)


EPILOGUES: Mapping[str, Callable[..., Any]] = {
    function.__name__: function for function in (relu, gelu, bias, bias_relu, bias_gelu)
}


def epilogue_named(said: Callable[..., Any] | str | None) -> Callable[..., Any] | None:
    """The function that a name stands for; a function itself.

    Raises TranslationError for a name that nobody knows.

    >>> epilogue_named("relu").__name__
    'relu'
    """
    if not isinstance(said, str):
        return said
    if said not in EPILOGUES:
        raise TranslationError(
            f"unknown epilogue {shown(said)}", hint=f"a function, or one of {', '.join(EPILOGUES)}"
        )
    return EPILOGUES[said]
