"""A compiler of candidates that hangs, crashes or refuses: for tests of tuning."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdtensor.api.engine import compiler_process
from mdtensor.api.tuning import bench_worker
from mdtensor.autotune.worker.pickling import packed, unpacked
from mdtensor.backends.host.binary_cache import MachineCode


def open_hanging(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that never ends."""

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        print("hangs", flush=True)
        return threading.Event().wait() or {}

    return handle


def open_crashing(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that takes its process with it."""

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "function" in request:
            return compiler_process.called(request["function"])
        os.kill(os.getpid(), signal.SIGSEGV)
        return {}

    return handle


def crashed_unless_in(process: int) -> int:
    """Takes its process with it, unless that is the one of this number, which it returns."""
    if os.getpid() != process:
        os.kill(os.getpid(), signal.SIGSEGV)
    return process


def open_killed_once(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that somebody kills, but not again; a file tells."""
    compiler, was_killed = compiler_process.open_compiler(payload), Path(os.environ["WAS_KILLED"])

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if not was_killed.exists():
            was_killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return compiler(request)

    return handle


def open_killed(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that is killed every time."""
    return lambda request: os.kill(os.getpid(), signal.SIGKILL) or {}


def open_working(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that never ends and takes all of a core, where little of one is allowed."""
    compiler_process._MOST_WORKING = 1

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        compiler_process._limit()
        while True:
            pass

    return handle


def open_refusing(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that makes what no device takes."""
    compilations = bench_worker.open_compiler(payload)

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        reply = compilations(request)
        compiled = unpacked(reply["compiled"])
        return {"compiled": packed(replace(compiled, machine=MachineCode(b"no code")))}

    return handle
