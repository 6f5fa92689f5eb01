"""A compiler of candidates that hangs, crashes or refuses: for tests of tuning."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mdtensor.api import trial
from mdtensor.backends.compiled import MachineCode


def open_hanging(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that never ends."""

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        time.sleep(60)
        return {}

    return handle


def open_crashing(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that takes its process with it."""

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGSEGV)
        return {}

    return handle


def open_refusing(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A compiler that makes what no device takes."""
    compilations = trial.open_compiler(payload)

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        reply = compilations(request)
        compiled = trial.unpacked(reply["compiled"])
        return {"compiled": trial.packed(replace(compiled, machine=MachineCode(b"no code")))}

    return handle
