"""Locks that other threads held while the process was forked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

# A thread that holds the lock for a while, and a child that needs it.
SCRIPT = """
import os, threading
from mdtensor.forks import keep_over_forks
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


# A thread that computes an attribute for a while, and a child that needs that of another object.
ATTRIBUTE = """
import os, signal, threading
from mdtensor.forks import cached_property
begun, forked = threading.Event(), threading.Event()
class Slow:
    @cached_property
    def value(self):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            forked.wait(60)
        return object()
slow = Slow()
thread = threading.Thread(target=lambda: slow.value)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    other = Slow()
    os._exit(0 if other.value is other.value else 3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
forked.set()
thread.join()
print(code, slow.value is slow.value)
"""


def test_a_child_computes_an_attribute_that_another_thread_was_computing() -> None:
    """Python 3.11 has one lock for all objects there."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ATTRIBUTE],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.stdout.split() == ["0", "True"], done.stderr


FIRST_CALL = """
import os, threading, time
import numpy as np, mdtensor as mdt
a = np.ones((8, 8))
threading.Thread(target=lambda: mdt.einsum("ij,jk->ik", a, a)).start()
time.sleep({delay})
child = os.fork()
if child == 0:
    os._exit(0 if mdt.einsum("ij,jk->ik", a, a)[0, 0] == 8 else 3)
for _ in range(6000):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.01)
else:
    os.kill(child, 9)
    status = -1
print(os.waitstatus_to_exitcode(status) if status >= 0 else "hangs")
"""


@pytest.mark.parametrize("delay", [0, 0.02, 0.05, 0.1])
def test_a_child_computes_where_another_thread_was_in_its_first_call(delay: float) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIRST_CALL.format(delay=delay)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.stdout.split() == ["0"], done.stderr


EXIT = """
import sys, threading, time
import numpy as np, mdtensor as mdt
def calls():
    for n in range(99):
        mdt.reduce("i->", np.ones(8), f=lambda x, c=float(n): x * c + {salt})
threading.Thread(target=calls, daemon=True).start()
time.sleep({delay})
sys.exit(7)
"""


@pytest.mark.parametrize("delay", [0.6, 1.2])
def test_a_process_ends_while_a_daemon_thread_compiles(delay: float) -> None:
    script = EXIT.format(delay=delay, salt=delay)
    done = subprocess.run([sys.executable, "-c", script], timeout=250, check=False)
    assert done.returncode == 7


FORKS_AT_ONCE = """
import os, sys, threading
import mdtensor
before = sys.getswitchinterval()
def forks():
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os._exit(0 if sys.getswitchinterval() == before else 3)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
codes = []
threads = [threading.Thread(target=forks) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(set(codes), len(codes), sys.getswitchinterval() == before)
"""


def test_threads_that_fork_at_once_leave_the_interpreter_as_it_was() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS_AT_ONCE],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.stdout.split() == ["{0}", "80", "True"], done.stderr


# What takes locks of its own in forks, imported by a thread while a fork waits for that import.
IMPORTED_BESIDE = """
import mdtensor
from mdtensor import forks
import os, threading
begun = threading.Event()
waits = forks._is_importing
def imports_beside():
    if not begun.is_set():
        begun.set()
        thread = threading.Thread(target=__import__, args=("concurrent.futures.thread",))
        thread.start()
        thread.join()
    return waits()
forks._is_importing = imports_beside
child = os.fork()
if child == 0:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_no_pool_of_threads_is_imported_first_while_a_fork_waits() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTED_BESIDE],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


# A lock that a thread keeps and takes while a fork waits for an earlier one, which it takes again.
KEPT_MEANWHILE = """
import os, threading
from mdtensor.forks import keep_over_forks
earlier, later = threading.RLock(), threading.RLock()
keep_over_forks(earlier)
begun, waits = threading.Event(), threading.Event()
def works():
    with earlier:
        begun.set()
        waits.wait(60)
        threading.Event().wait(0.2)
        keep_over_forks(later)
    with later:
        threading.Event().wait(0.2)
        with earlier:
            pass
threading.Thread(target=works, daemon=True).start()
begun.wait()
waits.set()
child = os.fork()
if child == 0:
    os._exit(0 if earlier.acquire(timeout=1) and later.acquire(timeout=1) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_takes_locks_in_their_order_where_another_is_kept_meanwhile() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KEPT_MEANWHILE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


FREEING = """
import os, signal, threading, time
import numpy as np, mdtensor as mdt
from llvmlite.binding import ffi
a = np.ones((8, 8))
mdt.einsum("ij,jk->ik", a, a)
begun = threading.Event()

def free():
    with ffi.lib._lock:  # as whoever frees a module
        begun.set()
        time.sleep(0.5)

threading.Thread(target=free).start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    constant = 2.5
    os._exit(0 if mdt.reduce("ij->i", a, f=lambda x: x * constant)[0] == 20 else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_compiles_where_another_thread_freed_what_was_compiled() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FREEING],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, "MDTENSOR_DEVICE": "llvm"},
    )
    assert done.stdout.split() == ["0"], done.stderr
