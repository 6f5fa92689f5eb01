"""State of symbolic tracing: misuse of symbolic values as concrete ones."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from mdtensor.errors import TranslationError
from mdtensor.scoped import Given, Result, scoped


class SymbolError(TranslationError):
    """A symbolic value was used as a concrete one: in a condition, as a number or a length."""


# The errors met so far, while a user's function runs on symbols in this context.
TRACED: ContextVar[list[SymbolError] | None] = ContextVar("traced", default=None)


def while_tracing(
    function: Callable[Given, Result], /, *args: Given.args, **options: Given.kwargs
) -> Result:
    """Call a function with comparisons of nodes by `==` refused."""
    return scoped([(TRACED, [])], function, *args, **options)


def unknown(node: object, what: str, hint: str) -> SymbolError:
    """The error for use of a symbolic value, recorded if a function is being traced."""
    error = SymbolError(f"the {what} of {node!r} is known only when the kernel runs", hint=hint)
    errors = TRACED.get()
    if errors is not None:
        errors.append(error)
    return error
