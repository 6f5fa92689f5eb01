"""Timers of a call's stages, reported to the recorder in the context."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

from mdtensor.scoped import Given, Result, scoped

STAGES = ("open", "translate", "choose", "lower", "render", "compile", "run")


class StageRecorder(Protocol):
    """Receives the stages of a traced call, and the kernels that serve it."""

    def begin(self, stage: str) -> None:
        """Begin a stage, possibly nested."""
        ...

    def end(self) -> None:
        """End the innermost stage."""
        ...

    def ran(self, kernel: object) -> None:
        """Record the kernel chosen for the call."""
        ...

    def beside(self) -> StageRecorder:
        """A recorder for work that another thread does for the call."""
        ...


recorder: ContextVar[StageRecorder | None] = ContextVar("recorder", default=None)


class stage:  # noqa: N801
    """Context manager that times a stage, one of STAGES, if the context is traced."""

    __slots__ = "_name", "_recorder"

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._recorder = recorder.get()
        if self._recorder is not None:
            self._recorder.begin(self._name)

    def __exit__(self, *_: object) -> None:
        if self._recorder is not None:
            self._recorder.end()


def ran(kernel: object) -> None:
    """Report the chosen kernel to this context's trace, if any."""
    if (told := recorder.get()) is not None:
        told.ran(kernel)


def beside(
    of: StageRecorder | None,
    function: Callable[Given, Result],
    /,
    *args: Given.args,
    **options: Given.kwargs,
) -> Result:
    """Calls a function in this thread with its stages timed by another thread's recorder."""
    return scoped([(recorder, of)], function, *args, **options)


def asked_for() -> StageRecorder | None:
    """A recorder for work handed to another thread; None if the call is not traced."""
    told = recorder.get()
    return None if told is None else told.beside()
