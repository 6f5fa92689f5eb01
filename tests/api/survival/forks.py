"""Forks at random moments, beside first calls and beside kernels, and ends of warm processes.

Processes that fork are warm, so that a child takes milliseconds. Each child has a limit; of one
that exceeds it, the stacks of all threads are shown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.api.survival.programs import LONGEST_S, Ended, ended, started

_CHILD_S = 60

# `forked(child, code)` tells how a child ended: it says something, and leaves by that code.
_FORKING = f"""
import atexit, faulthandler, importlib, random, select, signal, threading, time
from contextlib import suppress
from tests.api.survival.programs import where

rng, count = random.Random(int(sys.argv[1])), int(sys.argv[2])

def forked(child, code=0):
    pid = os.fork()
    if pid == 0:
        print("said", end=" ")  # to be written at the end
        child()
        sys.exit(code)
    ends = os.pidfd_open(pid)
    has_ended, _, _ = select.select([ends], [], [], {_CHILD_S})
    os.close(ends)
    if not has_ended:
        print(where(pid), file=sys.stderr, flush=True)
        os.kill(pid, signal.SIGABRT)  # for faulthandler
        time.sleep(2)
        os.kill(pid, signal.SIGKILL)
    found = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print("right" if found == code else f"ended-by-{{found}}" if has_ended else "hung", flush=True)

def daemons(work, number):
    def works():
        while True:
            work()
    for _ in range(number):
        threading.Thread(target=works, daemon=True).start()

large = np.ones((300, 300))

def long():
    assert mdt.einsum("ij,jk->ik", large, large)[-1, -1] == 300
"""
_BESIDE_FIRST_CALLS = """
is_over = threading.Event()

def work():
    while not is_over.is_set():
        new()
        known()

def child():
    known()
    new()
    sys.stdout.flush()
    os._exit(0)

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for number in range(count):
    time.sleep(rng.uniform(0, 0.3 if number == 0 else 0.05))
    forked(child)
is_over.set()
for thread in threads:
    thread.join()
"""
# Children leave at once, or compute before.
_BESIDE_KERNELS = """
long()
known()
daemons(long, rng.choice((1, 2)))
for _ in range(count):
    time.sleep(rng.uniform(0, 0.01))
    forked(rng.choice((lambda: None, lambda: None, long, known)), rng.choice((0, 3)))
"""
# The process that forks has imported everything and opened no device, so that ends are whole.
_ENDS = """
def child():
    if late:  # before the device is opened, so that its own handlers run first
        atexit.register(lambda: (known(), new()))
    call()
    daemons(call, threads)
    time.sleep(pause)

listed, lists = os.pipe()
if os.fork() == 0:
    known()
    new()
    os.write(lists, " ".join(sys.modules).encode())
    os._exit(0)
os.close(lists)
for name in os.fdopen(listed).read().split():
    with suppress(Exception):
        importlib.import_module(name)
os.wait()
for number in range(count):
    call, late, threads = (new, long)[number % 2], rng.random() < 0.5, rng.choice((1, 2, 4))
    pause = rng.uniform(0, 0.05)
    forked(child, rng.choice((0, 3)))
"""


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong in forks beside first calls and compilations; "" where nothing did."""
    return _tried(_BESIDE_FIRST_CALLS, 10, count, seed, folder)


def survived_beside_kernels(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong in forks beside kernels, whose children leave by `sys.exit`."""
    return _tried(_BESIDE_KERNELS, 25, count, seed, folder)


def survived_ends(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong at ends of processes while daemon threads compute or compile."""
    return _tried(_ENDS, 25, count, seed, folder)


def _tried(program: str, each: int, count: int, seed: int, folder: Path) -> Iterator[str]:
    """The outcomes of forks, so many of them by one process."""
    rng = random.Random(seed)
    for first in range(0, count, each):
        forks = min(each, count - first)
        process = started(_FORKING + program, folder / "cache", rng.randrange(1 << 30), forks)
        parent = ended(process, LONGEST_S + forks * _CHILD_S)
        told = parent.shown.splitlines()
        yield from (_reason(line, parent) for line in told)
        if len(told) < forks or not parent.is_clean():
            yield from [f"the parent ended by {parent}"] * (forks - len(told) or 1)


def _reason(line: str, parent: Ended) -> str:
    return "" if line == "said right" else f"{line}: {parent.trouble}"
