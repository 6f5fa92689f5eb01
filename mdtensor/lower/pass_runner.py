"""Passes: named rewriting steps, and a watcher of their values.

`kernels.passes` lists all of them in the order in which they run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Concatenate, Generic, TypeVar

from mdtensor.dataclass import dataclass
from mdtensor.scoped import Given, Result, scoped

Before = TypeVar("Before")
After = TypeVar("After")

Watcher = Callable[["Pass[Any, ..., Any]", Any, Any], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@dataclass(frozen=True, slots=True)
class Pass(Generic[Before, Given, After]):
    """A named step of the lowering: from a value, and extra arguments, to the next value.

    One that changes nothing returns the value itself, or an equal one.
    """

    name: str
    does: Callable[Concatenate[Before, Given], After]

    def __call__(self, value: Before, *args: Given.args, **options: Given.kwargs) -> After:
        """Run the pass, and report it to the context's watcher, if there is one."""
        after = self.does(value, *args, **options)
        if (watcher := _watcher.get()) is not None:
            watcher(self, value, after)
        return after


def run(
    passes: Sequence[Pass[Before, Given, Before]],
    value: Before,
    *args: Given.args,
    **options: Given.kwargs,
) -> Before:
    """The value after all passes, in order."""
    for each in passes:
        value = each(value, *args, **options)
    return value


def watched(
    watcher: Watcher,
    function: Callable[Given, Result],
    /,
    *args: Given.args,
    **options: Given.kwargs,
) -> Result:
    """Call a function, and report every pass that it runs to `watcher`, with its values."""
    return scoped([(_watcher, watcher)], function, *args, **options)
