"""Timers of stages: what a call spends its seconds on, told to the recorder of its context."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

from mdtensor.scoped import Given, Result, scoped

STAGES = ("open", "translate", "choose", "lower", "render", "compile", "run")


class StageRecorder(Protocol):
    """What is told of the stages of a call, and of the kernels that serve it."""

    def begin(self, stage: str) -> None:
        """A stage begins, perhaps within another one."""
        ...

    def end(self) -> None:
        """The stage that was begun last ends."""
        ...

    def ran(self, kernel: object) -> None:
        """A kernel was chosen for the call."""
        ...

    def beside(self) -> StageRecorder:
        """The recorder of work that the call asks of another thread."""
        ...


recorder: ContextVar[StageRecorder | None] = ContextVar("recorder", default=None)


class stage:  # noqa: N801
    """Times a stage, one of STAGES, where the calls of this context are traced."""

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
    """Tells the trace of this context which kernel was chosen."""
    if (told := recorder.get()) is not None:
        told.ran(kernel)


def beside(
    of: StageRecorder | None,
    function: Callable[Given, Result],
    /,
    *args: Given.args,
    **options: Given.kwargs,
) -> Result:
    """Calls a function whose stages are timed for a call of another thread, by its recorder."""
    return scoped([(recorder, of)], function, *args, **options)


def asked_for() -> StageRecorder | None:
    """The recorder for work that this call asks of another thread; None without a trace."""
    told = recorder.get()
    return None if told is None else told.beside()
