"""Main function of a worker process: load a handler by name, then serve requests by line."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

PR_SET_PDEATHSIG = 1


def main(target: str, parent: str) -> None:
    """Serve requests until the pipe closes or an empty line arrives."""
    _be_expendable(int(parent))
    requests, replies = _protocol_pipes()
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()

    def load(payload: object) -> object:
        nonlocal handler
        module, _, name = target.partition(":")
        handler = getattr(importlib.import_module(module), name)(payload)
        return None

    handler: Callable[[Any], Any] = load
    while (line := inbox.get()).strip():
        _answer(replies, handler, json.loads(line))


def _answer(replies: int, handler: Callable[[Any], Any], request: object) -> None:
    try:
        message = json.dumps({"reply": handler(request)})
    except Exception as error:
        raised = "".join(traceback.format_exception_only(error)).strip()
        message = json.dumps({"raised": raised, "trace": traceback.format_exc()})
    left = message.encode() + b"\n"
    while left:
        left = left[os.write(replies, left) :]


def _receive(requests: BinaryIO, inbox: queue.SimpleQueue[bytes]) -> None:
    for line in requests:
        inbox.put(line)
    # The parent is gone: so is any use for what this process and its children do.
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _protocol_pipes() -> tuple[BinaryIO, int]:
    """Duplicate stdin and stdout, and redirect the originals away from the protocol.

    A kernel's `printf`, or a library's banner, goes to standard error instead.
    """
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, replies


def _be_expendable(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle.
    faulthandler.enable()
    with suppress(OSError, AttributeError):
        # Also where a hanging call keeps Python from noticing the end of the pipe.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("the parent died first")
    with suppress(OSError):
        # Of all processes, the system shall take this one when memory runs out.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
