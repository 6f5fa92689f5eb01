"""Signals that come at places that are counted, not at times: each place of some work in turn."""

from __future__ import annotations

import dis
import functools
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from tests.counted import no_collections

# Behind these instructions Python looks whether a signal has come, and at jumps back.
_LOOKS_BEHIND = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME"}
_LOOKS_AT = ("JUMP_BACKWARD", "POP_JUMP_BACKWARD")
_TOOL = 4  # a number that debuggers, profilers and coverage leave free


def interrupt() -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


def comes_at(number: int, act: Callable[[], object], work: Callable[[], object], *of: str) -> bool:
    """Does some work, and calls `act` at its place of that number; whether it has so many.

    Places are those where Python calls handlers of signals, in files whose paths begin with one of
    `of`. What `act` raises ends the work there, and goes no further than this.
    """
    return _met(number, act, work, of, by_line=False) > number


def comes_at_line(
    number: int, act: Callable[[], object], work: Callable[[], object], *of: str
) -> bool:
    """The same for the first place of each line, as lines are met: loops count once."""
    return _met(number, act, work, of, by_line=True) > number


def lines_met(work: Callable[[], object], *of: str) -> int:
    """The number of different lines of some work at which Python calls handlers of signals."""
    return _met(sys.maxsize, interrupt, work, of, by_line=True)


def is_free(lock: Any, within_s: float) -> bool:
    """Whether another thread can take a lock in time: whoever works by it may have it meanwhile."""
    taken: list[bool] = []

    def take() -> None:
        taken.append(lock.acquire(timeout=within_s))
        if taken[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken[0]


def _met(
    number: int,
    act: Callable[[], object],
    work: Callable[[], object],
    of: tuple[str, ...],
    *,
    by_line: bool,
) -> int:
    """How many places were met until `act` was called."""
    met = 0
    lines: set[tuple[CodeType, int | None]] = set()

    def is_next(code: CodeType, offset: int) -> bool:
        """Counts an instruction that is a place; whether it is the one that is looked for."""
        nonlocal met
        if offset not in (places := _places(code)):
            return False
        line = code, places[offset]
        if by_line and line in lines:
            return False
        lines.add(line)
        met += 1
        return met > number

    told = sys.unraisablehook
    # What a destructor raises, Python tells and drops; a file may stay open that was just opened.
    lost_here = KeyboardInterrupt, ResourceWarning
    sys.unraisablehook = lambda lost: lost.exc_type in lost_here or told(lost)
    try:
        with no_collections(), watched(is_next, act, of, once=by_line):
            work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.unraisablehook = told
    return met


Counts = Callable[[CodeType, int], bool]


@contextmanager
def _traced(
    is_next: Counts, act: Callable[[], object], of: tuple[str, ...], *, once: bool
) -> Generator[None]:
    """Asks `is_next` before each instruction of this thread, and calls `act` where it says so."""

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if event == "call":
            if not frame.f_code.co_filename.startswith(of):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and is_next(frame.f_code, frame.f_lasti):
            sys.settrace(None)
            act()
            return None
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _monitored(
    is_next: Counts, act: Callable[[], object], of: tuple[str, ...], *, once: bool
) -> Generator[None]:
    """The same by what Python 3.12 has for it, which is quick where each is asked but `once`."""
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009, of Python 3.12
    thread = threading.get_ident()

    def before(code: CodeType, offset: int) -> object:
        if threading.get_ident() != thread:
            return None
        is_here = code.co_filename.startswith(of)
        if is_here and is_next(code, offset):
            monitoring.set_events(_TOOL, 0)
            act()
        return monitoring.DISABLE if once or not is_here else None

    monitoring.use_tool_id(_TOOL, __name__)
    monitoring.register_callback(_TOOL, monitoring.events.INSTRUCTION, before)
    monitoring.restart_events()
    monitoring.set_events(_TOOL, monitoring.events.INSTRUCTION)
    try:
        yield
    finally:
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)


watched = _monitored if hasattr(sys, "monitoring") else _traced


@functools.cache
def _places(code: CodeType) -> dict[int, int | None]:
    """Offsets of the instructions before which handlers are called, and their lines.

    Where a call is the last of a `try`, what a handler raises behind it is still the call's; here
    it would be raised outside.
    """
    read = dis.Bytecode(code)

    def caught(offset: int) -> list[int]:
        tries: list[Any] = read.exception_entries  # type: ignore[attr-defined]
        return [each.target for each in tries if each.start <= offset < each.end]

    found: dict[int, int | None] = {}
    before: dis.Instruction | None = None
    for each in read:
        is_behind = before is not None and before.opname in _LOOKS_BEHIND
        if each.opname.startswith(_LOOKS_AT) or (
            is_behind and caught(before.offset) == caught(each.offset)
        ):
            found[each.offset] = each.positions and each.positions.lineno
        before = each
    return found
