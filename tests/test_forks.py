"""Locks that other threads held while the process was forked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import children

pytestmark = pytest.mark.process


def run(program: str, limit_s: float = children.LIMIT_S, **environment: str | Path) -> str:
    """What a program prints that forks; nothing goes to its errors."""
    words = "-W", "ignore", "-c", AWAITED + program
    end = children.run(*words, env=environment, limit_s=limit_s)
    assert end.err == ""
    return end.out


AWAITED = """
import os, signal, sys, threading
from mdtensor.forks import keep_over_forks

class Awaited:  # a lock that says when somebody waits for it
    def __init__(self, lock):
        self.lock, self.awaited = lock, threading.Event()
    def acquire(self):
        if not self.lock.acquire(blocking=False):
            self.awaited.set()
            self.lock.acquire()
    def release(self):
        self.lock.release()

def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

# A thread that holds the lock until a fork waits for it or has happened, and a child that needs it.
HOLDING = """
held, kept = Awaited(threading.Lock()), {kept}
if kept:
    keep_over_forks(held)
begun, forked = threading.Event(), threading.Event()
def hold():
    with held.lock:
        begun.set()
        (held.awaited if kept else forked).wait()
threading.Thread(target=hold).start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(0 if held.lock.acquire(blocking=False) else 3)
forked.set()
print(code_of(child), held.lock.acquire())
"""


@pytest.mark.parametrize(("kept", "code"), [(True, 0), (False, 3)])
def test_a_child_can_take_a_lock_that_was_kept(kept: bool, code: int) -> None:
    assert run(HOLDING.format(kept=kept)) == f"{code} True\n"


# A thread that computes an attribute for a while, and a child that needs that of another object.
ATTRIBUTE = """
from mdtensor.forks import cached_property
begun, forked = threading.Event(), threading.Event()
class Slow:
    @cached_property
    def value(self):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            forked.wait()
        return object()
slow = Slow()
thread = threading.Thread(target=lambda: slow.value)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    other = Slow()
    os._exit(0 if other.value is other.value else 3)
code = code_of(child)
forked.set()
thread.join()
print(code, slow.value is slow.value)
"""


def test_a_child_computes_an_attribute_that_another_thread_was_computing() -> None:
    """Python 3.11 has one lock for all objects there."""
    assert run(ATTRIBUTE) == "0 True\n"


# In the first call of each structure a thread stops at its n-th call of a function, and goes on
# when a fork begins, which may wait for what it holds.
FIRST_CALLS = """
import numpy as np, mdtensor as mdt
a = np.ones((8, 8))
goes_on = threading.Semaphore(0)
os.register_at_fork(before=goes_on.release)

def call(text, place, stopped):
    left = place
    def stops(frame, event, _):
        nonlocal left
        left -= "mdtensor" in frame.f_code.co_filename
        if left == 0:
            sys.settrace(None)
            stopped.set()
            goes_on.acquire()
    sys.settrace(stops)
    mdt.einsum(text, a, a)

for text, place in zip(["ij,jk->ik", "ij,jk->ki", "ji,jk->ik", "ij,kj->ik", "ji,kj->ik"], PLACES):
    stopped = threading.Event()
    thread = threading.Thread(target=call, args=(text, place, stopped))
    thread.start()
    stopped.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if mdt.einsum(text, a, a)[0, 0] == 8 else 3)
    print(code_of(child), flush=True)
    thread.join()
"""


@pytest.mark.parametrize("places", [(1, 9, 40, 90, 170), (500, 300, 220, 130, 60)])
def test_a_child_computes_where_another_thread_was_in_its_first_call(
    places: tuple[int, ...], tmp_path: Path
) -> None:
    program = FIRST_CALLS.replace("PLACES", str(places))
    assert run(program, MDTENSOR_CACHE_DIR=tmp_path).split() == ["0"] * len(places)


EXIT = """
import numpy as np, mdtensor as mdt
from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.llvm.object_compiler import ObjectCompiler
inside, whole = threading.Event(), WHERE
def told(*given, **options):
    inside.set()
    return whole(*given, **options)
WHERE = told
def calls():
    for n in range(99):
        mdt.reduce("i->", np.ones(8), f=lambda x, c=float(n): x * c)
threading.Thread(target=calls, daemon=True).start()
inside.wait()
"""


@pytest.mark.parametrize("where", ["ObjectCompiler.object_code", "JitCompiler._addresses"])
def test_a_process_ends_while_a_daemon_thread_compiles(where: str, tmp_path: Path) -> None:
    assert run(EXIT.replace("WHERE", where), MDTENSOR_CACHE_DIR=tmp_path) == ""


FORKS_AT_ONCE = """
before = sys.getswitchinterval()
def forks():
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os._exit(0 if sys.getswitchinterval() == before else 3)
        codes.append(code_of(child))
codes = []
threads = [threading.Thread(target=forks) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(set(codes), len(codes), sys.getswitchinterval() == before)
"""


def test_threads_that_fork_at_once_leave_the_interpreter_as_it_was() -> None:
    assert run(FORKS_AT_ONCE) == "{0} 80 True\n"


# What takes locks of its own in forks, imported by a thread while a fork waits for that import.
IMPORTED_BESIDE = """
from mdtensor import forks
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
print(code_of(child))
"""


def test_no_pool_of_threads_is_imported_first_while_a_fork_waits() -> None:
    assert run(IMPORTED_BESIDE) == "0\n"


# An import that another thread began once a fork had looked for those under way.
IMPORTED_AFTER_THE_LOOK = """
import tempfile
from mdtensor import forks
forks._is_importing = lambda: False
begun, is_child = threading.Event(), False
with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/imported_slowly.py", "w") as file:
        file.write("import __main__\\nif not __main__.is_child:\\n")
        file.write("    __main__.begun.set()\\n    __main__.may_end.wait()\\nvalue = 3\\n")
    sys.path.insert(0, folder)
    may_end = threading.Event()
    thread = threading.Thread(target=__import__, args=("imported_slowly",))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        is_child = True
        import imported_slowly
        os._exit(imported_slowly.value)
    print(code_of(child), forks._imported_by_others())
    may_end.set()
    thread.join()
"""


def test_a_child_begins_an_import_anew_that_another_thread_was_in() -> None:
    assert run(IMPORTED_AFTER_THE_LOOK, limit_s=60) == "3 ['imported_slowly']\n"


# A lock that a thread keeps and takes while a fork waits for an earlier one, which it takes again
# when the fork waits for the later one.
KEPT_MEANWHILE = """
earlier, later = Awaited(threading.RLock()), Awaited(threading.RLock())
keep_over_forks(earlier)
begun = threading.Event()
def works():
    with earlier.lock:
        begun.set()
        earlier.awaited.wait()
        keep_over_forks(later)
        later.acquire()
    later.awaited.wait()
    with earlier.lock:
        later.release()
threading.Thread(target=works, daemon=True).start()
begun.wait()
child = os.fork()
if child == 0:
    takes = (lock.lock.acquire(blocking=False) for lock in (earlier, later))
    os._exit(0 if all(takes) else 3)
print(code_of(child))
"""


def test_a_fork_takes_locks_in_their_order_where_another_is_kept_meanwhile() -> None:
    assert run(KEPT_MEANWHILE, limit_s=60) == "0\n"


FREEING = """
from llvmlite.binding import ffi
inner = ffi.lib._lock._lock = Awaited(threading.RLock())
from mdtensor.backends.llvm.jit_compiler import JitCompiler
jit = JitCompiler()
begun = threading.Event()

def free():
    with ffi.lib._lock:  # as whoever frees a module
        begun.set()
        inner.awaited.wait()

threading.Thread(target=free, daemon=True).start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    # The compiler's thread may have the number of the one that was lost, whose locks are its own.
    if not inner.lock.acquire(blocking=False):
        os._exit(3)
    inner.release()
    os._exit(0 if jit.object_code("define void @kernel() { ret void }") else 4)
print(code_of(child))
"""


def test_a_child_compiles_where_another_thread_freed_what_was_compiled() -> None:
    assert run(FREEING) == "0\n"


# A thread is in kernels all the time, in the child of a fork as well, which forks itself; children
# leave by all that is done at the end of a process.
IN_KERNELS = """
import atexit, ctypes
import numpy as np, mdtensor as mdt
a = np.ones((400, 400), np.float32)
def call():
    assert mdt.einsum("ij,jk->ik", a, a)[-1, -1] == 400
def calls():
    while True:
        call()
def forked(child, code):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        child()
        atexit.register(print, "handled")
        ctypes.CDLL(None).printf(b"written by C,")
        sys.exit(code)
    return code_of(pid)
def fork_beside_kernels():
    threading.Thread(target=calls, daemon=True).start()
    call()
    assert forked(call, 5) == 5
call()
threading.Thread(target=calls, daemon=True).start()
call()
codes = [forked(child, 4) for child in (lambda: None, call) * 4 + (fork_beside_kernels,)]
sys.exit(0 if set(codes) == {4} else f"{codes}")
"""


# The same where NumPy computes, by OpenBLAS's threads, which end as the process forks.
IN_PRODUCTS = f"""
from mdtensor.api.engine import registry, tiers
registry.engine_for()
tiers.Tiers.ask_for_first = lambda *_, **__: None
{IN_KERNELS}"""


@pytest.mark.parametrize("device", ["opencl", "llvm"])
def test_children_end_and_compute_where_another_thread_was_in_a_kernel(device: str) -> None:
    """Intel's runtime waits for commands that threads of its own were to do, and a child lacks."""
    shown = run(IN_KERNELS, MDTENSOR_DEVICE=device, PYTHONUNBUFFERED="")
    assert (shown.count("written by C,"), shown.count("handled\n")) == (10, 10)


def test_children_end_and_compute_where_another_thread_was_in_a_product_of_matrices() -> None:
    shown = run(IN_PRODUCTS, MDTENSOR_TIER0="1", PYTHONUNBUFFERED="")
    assert (shown.count("written by C,"), shown.count("handled\n")) == (10, 10)
