"""While a function of Python is traced, nobody may rely on values that only kernels know."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from mdtensor.errors import TranslationError
from mdtensor.scoped import Given, Result, scoped


class SymbolError(TranslationError):
    """A symbolic value was used as if it were known: in a condition, as a number, as a length."""


# The errors met so far, while a user's function runs on symbols in this context.
TRACED: ContextVar[list[SymbolError] | None] = ContextVar("traced", default=None)


def while_tracing(
    function: Callable[Given, Result], /, *args: Given.args, **options: Given.kwargs
) -> Result:
    """Calls a function that may compare nodes by `==`, which does not mean equal values there."""
    return scoped([(TRACED, [])], function, *args, **options)


def unknown(node: object, what: str, hint: str) -> SymbolError:
    """The error of a node whose value was needed; noted, too, while a function is traced."""
    error = SymbolError(f"the {what} of {node!r} is known only when the kernel runs", hint=hint)
    errors = TRACED.get()
    if errors is not None:
        errors.append(error)
    return error
