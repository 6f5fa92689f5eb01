"""While a function of Python is traced, nobody may rely on values that only kernels know."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from mdtensor.errors import TranslationError


class SymbolError(TranslationError):
    """A symbolic value was used as if it were known: in a condition, as a number, as a length."""


# The errors met so far, while a user's function runs on symbols in this context.
TRACED: ContextVar[list[SymbolError] | None] = ContextVar("traced", default=None)


@contextmanager
def while_tracing() -> Generator[list[SymbolError]]:
    """While a user's function runs, `==` on nodes is an error: it does not mean equal values.

    Gives the errors of symbols used as if they were known, also those that the function caught.
    """
    errors: list[SymbolError] = []
    token = TRACED.set(errors)
    try:
        yield errors
    finally:
        TRACED.reset(token)


def unknown(node: object, what: str, hint: str) -> SymbolError:
    """The error of a node whose value was needed; noted, too, while a function is traced."""
    error = SymbolError(f"the {what} of {node!r} is known only when the kernel runs", hint=hint)
    errors = TRACED.get()
    if errors is not None:
        errors.append(error)
    return error
