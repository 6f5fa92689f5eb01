"""Settings of a call or a `with` block, which interrupts cannot leave behind.

An interrupt may come between setting a variable and the `try` that would take it back, and within
its `finally`. A copy of the context has no such places: it is dropped whole.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")
Value = TypeVar("Value")
Setting = tuple[ContextVar[Any], Any]


def scoped(
    settings: Sequence[Setting],
    function: Callable[Given, Result],
    /,
    *args: Given.args,
    **options: Given.kwargs,
) -> Result:
    """Calls a function in a copy of the context, with the context variables of `settings` set.

    What the function sets of other variables is gone afterwards, too. Nothing but the context holds
    the values then, where the caller has no variable for `settings`: a shell keeps the traceback of
    the last error, and with that the variables of all functions that it passed through.

    >>> level = ContextVar("level", default=0)
    >>> scoped([(level, 1)], level.get), level.get()
    (1, 0)
    """
    context, setting = None, None
    try:
        context = copy_context()
        for setting in settings:
            context.run(setting[0].set, setting[1])
        return context.run(function, *args, **options)
    finally:
        del context, setting, settings  # which the traceback of an error would keep


class ContextSetting(Generic[Value]):
    """The handle of a `with` block: the setting lasts while this object is alive.

    Whoever enters it holds it in a variable of its own and drops that at the end, so that an
    interrupt anywhere ends the block as well: contexts hold weak references.
    """

    __slots__ = ("__weakref__", "held", "value")

    def __init__(self, value: Value, held: object) -> None:
        self.value = value
        self.held = held


class ContextSettings(Generic[Value]):
    """A stack of settings of one kind in a context variable; one may end in another context.

    Threads that Python did not start have no context of a caller: they take what was entered last
    in the process. In such threads torch computes gradients on GPUs.
    """

    def __init__(self, name: str) -> None:
        self._entered: ContextVar[tuple[weakref.ref[ContextSetting[Value]], ...]]
        self._entered = ContextVar(name, default=())
        self._latest: tuple[weakref.ref[ContextSetting[Value]], ...] = ()

    def enter(self, value: Value, held: object = None) -> ContextSetting[Value]:
        """Push a value; it lasts while the returned handle, which keeps `held`, is alive."""
        made = ContextSetting(value, held)
        alive = [each for each in self._entered.get() if each() is not None]
        self._latest = (*alive, weakref.ref(made))
        self._entered.set(self._latest)
        return made

    @property
    def values(self) -> list[Value]:
        """The values in effect in this context, innermost last."""
        entered = self._entered.get()
        if not entered and self._latest and _is_foreign():
            entered = self._latest
        found = (each() for each in entered)
        return [block.value for block in found if block is not None]


def _is_foreign() -> bool:
    """Whether something else than Python's threading started this thread."""
    return isinstance(threading.current_thread(), vars(threading)["_DummyThread"])
