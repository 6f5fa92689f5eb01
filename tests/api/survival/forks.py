"""Forks at random moments, while threads make first calls and compile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.api.survival.programs import Ended, ended, started

EACH = 10  # forks of a process
_PARENT = """
import faulthandler, random, signal, threading, time

rng, count = random.Random(int(sys.argv[1])), int(sys.argv[2])
is_over = threading.Event()

def work():
    while not is_over.is_set():
        new()
        known()

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for number in range(count):
    time.sleep(rng.uniform(0, 0.3 if number == 0 else 0.05))
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(50)
        signal.alarm(60)
        try:
            known()
            new()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
is_over.set()
for thread in threads:
    thread.join()
"""


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong with each of so many forks; "" where nothing did."""
    rng = random.Random(seed)
    for first in range(0, count, EACH):
        forks = min(EACH, count - first)
        parent = ended(started(_PARENT, folder / "cache", rng.randrange(1 << 30), forks))
        codes = parent.shown.split()
        yield from (_reason(code, parent) for code in codes)
        if len(codes) < forks or not parent.is_clean():
            yield from [f"the parent ended by {parent}"] * (forks - len(codes) or 1)


def _reason(code: str, parent: Ended) -> str:
    if code == "0":
        return ""
    what = "hung" if code == "-14" else f"exit code {code}"
    return f"{what}: {parent.trouble}"
