"""Locks that other threads held while the process was forked."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A thread that holds the lock for a while, and a child that needs it.
SCRIPT = """
import os, threading
from mdtensor.backends.forks import keep_over_forks
lock = threading.Lock()
if {kept}:
    keep_over_forks(lock)
begun, forked = threading.Event(), threading.Event()
def hold():
    with lock:
        begun.set()
        forked.wait(0.5 if {kept} else 60)  # a fork waits for a lock that was kept
threading.Thread(target=hold).start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(0 if lock.acquire(timeout=1) else 3)
forked.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lock.acquire(timeout=60))
"""


@pytest.mark.parametrize(("kept", "code"), [(True, 0), (False, 3)])
def test_a_child_can_take_a_lock_that_was_kept(kept: bool, code: int) -> None:
    script = SCRIPT.format(kept=kept)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.stdout.split() == [str(code), "True"], done.stderr
