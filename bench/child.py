"""The driver's side of a worker process: requests, replies, time limits."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import MISLEADING
from mdtensor.closing import Closing

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 600.0


class ChildError(Exception):
    """A worker failed, died or did not answer in time."""


class Child(Closing):
    """A process that hosts engines and stays warm for the whole run."""

    def __init__(self, engines: Sequence[str], **variables: str) -> None:
        self.engines = tuple(engines)
        environment = {k: v for k, v in os.environ.items() if k not in MISLEADING} | variables
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", *engines],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, do: str, *, patience: float = PATIENCE_SECONDS, **request: Any) -> Any:
        """The reply to a request; ChildError carries the worker's traceback."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise ChildError(f"{self} has ended: {error}") from error
        if not select.select([stdout], [], [], patience)[0]:
            self.close()
            raise ChildError(f"{self}: no answer to {do} in {patience:.0f} s")
        line = stdout.readline()
        if not line:
            raise ChildError(f"{self} ended during {do} (exit status {self._process.wait()})")
        reply = json.loads(line)
        if "failure" in reply:
            raise ChildError(f"{self} failed at {do}:\n{reply['failure']}")
        return reply

    @property
    def is_alive(self) -> bool:
        """Whether the process can still be asked."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __str__(self) -> str:
        return f"worker of {', '.join(self.engines)}"
