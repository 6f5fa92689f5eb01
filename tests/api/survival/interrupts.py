"""Interrupts at each line of calls, gradients and searches; afterwards all of it goes on as before.

`python -m tests.api.survival.interrupts WORK TRIES` tries one kind of work on the current device.
"""

from __future__ import annotations

import ast
import contextvars
import faulthandler
import itertools
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import mdtensor as mdt
from mdtensor import forks
from mdtensor.api.arrays import invalidation
from mdtensor.tuner import evaluations
from tests import children
from tests.interrupts import comes_at_line, interrupt, is_free, lines_met

DEVICES = ("llvm", "opencl")
TIMES_AS_LONG = {"first call of a process": 20, "search": 40}
_PACKAGES = [find_spec(name) for name in ("concurrent.futures", "llvmlite")]
LOCKS = type(threading.Lock()), type(threading.RLock())
LONGEST_S = 60.0  # of one try, with all that is done behind it
_PACKAGE = f"{Path(mdt.__file__).parent}{os.sep}"
# Locks that are written in Python stay locked where an interrupt comes as they are taken.
_FILES = (
    _PACKAGE,
    threading.__file__,
    *(next(iter(found.submodule_search_locations or ())) for found in _PACKAGES if found),
)
_A = np.random.default_rng(0).random((20, 30))
_X = np.array([1.0, 2, 3])
_numbers = itertools.count()


def call() -> None:
    """Calls that were made before, once they were."""
    np.testing.assert_allclose(mdt.einsum("ij,kj->ik", _A, _A), _A @ _A.T, rtol=1e-12)
    np.testing.assert_array_equal(mdt.reduce("ij->i", _A, combine="max"), _A.max(1))


def gradient() -> None:
    """A gradient of functions and of a contraction."""
    found = mdt.grad(lambda x: np.sum(np.tanh(mdt.einsum("i,i->i", x, x)) * x))(_X)
    assert type(found) is np.ndarray, type(found)
    wanted = np.tanh(_X**2) + 2 * _X**2 / np.cosh(_X**2) ** 2
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def first_call() -> None:
    """A call of a function that was not called before."""
    number = next(_numbers) + 0.5
    found = mdt.reduce("ij->i", _A, f=lambda x: x * number)
    np.testing.assert_allclose(found, (_A * number).sum(1), rtol=1e-12)


def search() -> None:
    """A search of two candidates for a shape that was not searched before."""
    b = np.ones((30, 1 + next(_numbers)))
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,jk->ik", _A, b)
    (report,) = mdt.tune(seen, 60, quiet=True, again=True, abort=evaluations(2))
    assert report.interrupted or report.seconds is not None, report
    np.testing.assert_allclose(mdt.einsum("ij,jk->ik", _A, b), _A @ b, rtol=1e-12)


WORKS: dict[str, Callable[[], None]] = {
    "call": call,
    "gradient": gradient,
    "first call": first_call,
    "first call of a process": call,
    "search": search,
}


def wrong_behind(before: dict[Any, Any]) -> str:
    """What is not as it should be behind an interrupt; "" for nothing."""
    left = {k.name for k, v in contextvars.copy_context().items() if before.get(k) is not v}
    if left := left - {"tuning", "traces"}:  # whose blocks have ended
        return f"variables are set: {left}"
    for lock in forks._kept:
        if isinstance(lock, LOCKS) and not is_free(lock, within_s=LONGEST_S / 4):
            return f"a lock is held: {lock}"
    try:
        call()
        gradient()
        first_call()
        with mdt.trace() as trace:
            call()
        assert len(trace.calls) == 2, trace
    except BaseException:
        return traceback.format_exc()
    return ""


def tried(work: Callable[[], None], place: int, watched: Callable[[], None]) -> str:
    """What one interrupt did; "" where nothing is left of it."""
    ends: list[BaseException | None] = []  # there until all was tried, as a shell keeps the last
    destructors: list[str] = []
    way: list[str] = []  # from the interrupt outwards

    def act() -> None:
        for frame, line in traceback.walk_stack(None):
            code = frame.f_code
            if code.co_filename.startswith(_FILES):
                way.append(f"{code.co_filename.removeprefix(_PACKAGE)}:{line} {code.co_qualname}")
            if code.co_name == "__del__":
                destructors.append(code.co_qualname)
        interrupt()

    def told() -> None:
        try:
            work()
        except KeyboardInterrupt as error:
            ends.append(error)
            raise
        except BaseException:
            ends.append(None)
            said.append(traceback.format_exc())
        else:
            ends.append(None)

    said: list[str] = []
    before = dict(contextvars.copy_context().items())
    watched()
    is_met = comes_at_line(place, act, told, *_FILES)
    if not is_met:
        said.append("never met") if place == 0 else None
    elif ends[0] is None and work is not search and not said:
        said.append(f"the interrupt was lost{': ' if destructors else ''}{', '.join(destructors)}")
    said.append(wrong_behind(before))
    faulthandler.cancel_dump_traceback_later()
    ends.clear()
    if invalidation.watchers:
        said.append("calls are watched")
    said = [each for each in said if each]
    return "\n".join([*said, f"at {' < '.join(way[:4])}"]) if said else ""


def places(lines: int, tries: int) -> list[int]:
    """So many of the lines, evenly."""
    count = min(lines, tries)
    return [number * lines // count for number in range(count)]


def main(name: str, tries: int, begin: int = 0) -> None:
    """Tries one kind of work, and prints what each interrupt did: a place and what was wrong."""
    shown = os.dup(2)
    noise = _Noise()
    watched = partial(faulthandler.dump_traceback_later, LONGEST_S, exit=True, file=shown)
    work, apart = WORKS[name], name.endswith("of a process")
    shows = partial(print, flush=True, sep="\t")

    def show_all(of: list[int]) -> None:
        for place in of:
            shows(place, end="\t")
            shows(repr("\n".join(filter(None, (tried(work, place, watched), noise.new())))))

    if apart:
        found = _forked(lambda: [lines_met(work, *_FILES)])
        assert int(found), "no lines are met"
        shows("lines", found)
        for place in places(int(found), tries)[begin:]:
            shows(place, end="\t")
            said = _forked(lambda place=place: [tried(work, place, watched)])
            shows(repr("\n".join(filter(None, (said, noise.new())))))
        return
    for _ in range(1 if work is search else 4):
        work()
    found = lines_met(work, *_FILES)
    assert found, "no lines are met"
    shows("lines", found)
    show_all(places(found, tries)[begin:])


def _forked(function: Callable[[], list[Any]]) -> str:
    """What a function says in a fork of this process, and how that ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            print(*function(), file=pipe)
        sys.exit()
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read().strip()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said if code == 0 else f"{said} ended with {code}"


class _Noise:
    """What this process and its children write to their standard error, from now on."""

    def __init__(self) -> None:
        handle, path = tempfile.mkstemp()
        os.dup2(handle, 2)
        self._read = open(path, errors="replace")  # noqa: SIM115
        os.unlink(path)

    def new(self) -> str:
        """What was written since this was last asked."""
        sys.stderr.flush()
        return self._read.read()


def survived(count: int, seed: int, folder: Path) -> Iterator[str]:
    """What went wrong with each interrupt: so many of a call, fewer of what takes longer."""
    for device, work in itertools.product(DEVICES, WORKS):
        tries = -(-count // TIMES_AS_LONG.get(work, 1))
        yield from interrupted(device, work, tries, folder / device)


def interrupted(device: str, work: str, tries: int, cache: Path) -> Iterator[str]:
    """The same of one kind of work; a process that hangs is replaced by one that goes on behind."""
    environment = {"MDTENSOR_DEVICE": device, "MDTENSOR_CACHE_DIR": cache}
    done = failed = 0
    lines, code = "", -1
    while code != 0:
        end = children.run(
            *("-m", __name__, work, str(tries), str(done)), env=environment, limit_s=3600, code=None
        )
        code, said = end.code, [line.split("\t") for line in end.lines]
        if not said:
            failed += 1
            yield f"{device}, {work}: ended with {code}\n{end.err}"
            break
        lines = said[0][1]
        for place, *reasons in said[1:]:
            done += 1
            wrong = ast.literal_eval(reasons[0]) if reasons else f"ended with {code}\n{end.err}"
            failed += bool(wrong)
            yield f"{device}, {work}, line {place} of {lines}: {wrong}" if wrong else ""
    print(f"{device}, {work}: {done} of {lines} lines, {failed} failed", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
