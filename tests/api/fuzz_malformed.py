"""Malformed calls of every public function: each is refused by a typed error, and soon.

`python -m tests.api.fuzz_malformed --count 100000 --seed 3` begins with right calls and puts
something wrong into each. A call may be right after all; or it raises an MdtensorError, Python's
own TypeError for a signature, NumPy's MemoryError, or what the caller's own code raised. Anything
else fails, as does a call that takes longer than 50 ms whenever it is made, where nothing was
compiled. What counts is the processor's time of the thread without the garbage collector's last
generation, which goes through all that earlier calls left; where the caller's own function calls
itself a thousand times, a thousand times as many operations are made, and each level may take a
hundredth of that. A case is its seed and number: `--case 3/17` runs one again and shows its
traceback.

Most calls stop where kernels would run; one in ten runs them.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import mdtensor as mdt
from mdtensor.errors import MdtensorError, shown
from tests import children
from tests.api.malformed import calls, odd
from tests.api.malformed.calls import Call
from tests.api.malformed.watches import Compilations, FullCollections

ROOT = Path(__file__).parents[2]
TRIES = 3  # of a call that seems slow: others may be at work
LONGEST = 0.05  # seconds of the processor that a call may take that compiles nothing
LONGEST_RIGHT = 1.0  # of one that is right after all, and may be 4096 filters along 64 axes
LONGEST_WAIT = 1.0  # seconds until it returns, on a machine where others are at work
LEVELS = 100  # of a caller's function that calls itself, which may take that long together
MEMORY_OF_ALL = 1 << 36  # bytes of a process: machines differ in when they refuse arrays
HUNG = 60  # seconds after which a call is given up
REAL = 1 / 10  # share of calls that run their kernels

RIGHT, REFUSED, OWN, SIGNATURE, MEMORY = "right", "refused", "caller's own", "signature", "memory"
UNTYPED, SLOW, DIED = "UNTYPED", "SLOW", "DIED"
FAILED = (UNTYPED, SLOW, DIED)
# Python's words for arguments that fit no signature.
_SIGNATURES = ("argument", "positional", "keyword")
_OURS = f"{Path(mdt.__file__).parent}{os.sep}"
_CALLERS = (odd.__file__, calls.__file__)


@dataclass(frozen=True)
class Outcome:
    """What came of a call: its kind, what it took, and the words of the error.

    `seconds` are those of the calling thread on the processor, without full collections of garbage,
    `waited` those until it returned. So many `levels` deep were the caller's own functions.
    """

    name: str
    kind: str
    seconds: float
    waited: float
    compiled: bool
    words: str = ""
    levels: int = 0


@dataclass
class Report:
    """What came of many calls."""

    kinds: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)
    refusals: list[float] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    compiling: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, case: str, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        self.functions[outcome.name] += 1
        self.compiling += outcome.compiled
        if outcome.kind == REFUSED and not outcome.compiled:
            self.refusals.append(outcome.seconds)
        if not outcome.compiled:
            self.slowest = max(self.slowest, (outcome.seconds, f"{case} {outcome.name}"))
        if outcome.kind in FAILED:
            self.failures[case] = f"{outcome.kind} {outcome.name}: {outcome.words}"

    def __str__(self) -> str:
        lines = [f"{why}\n    {replay(case)}" for case, why in self.failures.items()]
        lines.append(", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common()))
        lines.append(f"{len(self.functions)} functions, {self.compiling} calls compiled something")
        if self.refusals:
            median = statistics.median(self.refusals)
            lines.append(f"refusals: median {median * 1e3:.3f} ms")
        lines.append(
            f"slowest without a compiler: {self.slowest[0] * 1e3:.1f} ms, {self.slowest[1]}"
        )
        lines.append(f"{len(self.failures)} failed")
        return "\n".join(lines)


def replay(case: str) -> str:
    """How to run a case again."""
    return f"python -m tests.api.fuzz_malformed --case {case}"


def drawn(case: str) -> tuple[Call, bool]:
    """The call of a case, and whether its kernels run."""
    rng = random.Random(case)
    call = calls.wrong(rng, calls.right(rng))
    return call, rng.random() < REAL and not calls.is_long(call)


def outcome(case: str) -> Outcome:
    """Makes the call of a case; one that is slow is made again."""
    found = made(case)
    for _ in range(TRIES):
        if not is_slow(found):
            return found
        time.sleep(0.2)
        found = made(case)
    if not is_slow(found):
        return found
    words = f"{found.seconds:.3f} s of {found.waited:.3f} s {found.words}"
    return replace(found, kind=SLOW, words=words)


def is_slow(found: Outcome) -> bool:
    """Whether this alone makes a call fail."""
    longest = (LONGEST_RIGHT if found.kind == RIGHT else LONGEST) * max(1, found.levels / LEVELS)
    waits = found.waited > LONGEST_WAIT and found.kind != RIGHT  # which may have work to do
    takes_long = found.seconds > longest or waits
    return takes_long and not found.compiled and found.kind not in FAILED


def made(case: str) -> Outcome:
    """Makes the call of a case once, however long it takes."""
    call, is_real = drawn(case)
    compiles, collections = Compilations(), FullCollections()
    error: BaseException | None = None
    with compiles, collections, contextlib.nullcontext() if is_real else not_computed():
        begun, at_work = time.perf_counter(), time.thread_time()
        try:
            returned = call()
        except BaseException as raised:
            error = raised
            if isinstance(raised, MdtensorError):
                str(raised)
        seconds, waited = time.thread_time() - at_work, time.perf_counter() - begun
    levels = 0
    if error is None:
        is_result = _is_result(returned, call)
        kind, words = (RIGHT, "") if is_result else (UNTYPED, f"returned {returned!r}")
    else:
        kind = kind_of(error)
        words = f"{type(error).__name__}: {_words(error)}" if kind == UNTYPED else ""
        levels = sum(file in _CALLERS for file in _files(error))
        traceback.clear_frames(error.__traceback__)
    seconds -= collections.seconds
    return Outcome(call.name, kind, seconds, waited, compiles.count > 0, words, levels)


def _files(error: BaseException) -> list[str]:
    """The files of the frames that an error went through, from the outermost on."""
    return [f.f_code.co_filename for f, _ in traceback.walk_tb(error.__traceback__)]


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except ValueError:  # of an integer with thousands of digits
        return type(error).__name__


def _words(error: BaseException) -> str:
    lines = _said(error).splitlines() or [""]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{lines[0][:200]}{where}"


def _is_result(returned: Any, call: Call) -> bool:
    # NumPy itself returns it where it is given and nothing of mdtensor is.
    return returned is not NotImplemented or any(each is NotImplemented for each in call.args)


def kind_of(error: BaseException) -> str:
    """Whose error this is."""
    if isinstance(error, MdtensorError):
        return REFUSED
    if isinstance(error, MemoryError):
        return MEMORY
    if isinstance(error, AttributeError) and "module 'mdtensor'" in _said(error):  # passed as one
        return OWN
    if "released memoryview" in _said(error):  # whatever is asked of one
        return OWN
    files = _files(error)
    if not any(_OURS in file for file in files):  # NumPy was called, and nothing of mdtensor
        return OWN
    if files[-1] in _CALLERS or sum(file in _CALLERS for file in files) > 50:
        return OWN
    if _is_called_by(odd.__file__, files):
        return OWN
    if type(error) is TypeError and any(word in _said(error) for word in _SIGNATURES):
        return SIGNATURE
    if _is_an_elements(error):
        return OWN
    return UNTYPED


def _is_called_by(file: str, files: Sequence[str]) -> bool:
    """Whether a caller's own function called something else than mdtensor that raised."""
    after = files[len(files) - files[::-1].index(file) :] if file in files else [_OURS]
    return not any(_OURS in other for other in after)


def _is_an_elements(error: BaseException) -> bool:
    """Whether elements that are objects, or arrays that answer NumPy themselves, raised this."""
    names = [f.f_locals for f, _ in traceback.walk_tb(error.__traceback__)]
    arrays = [value for local in names for value in _flat(local.values())]
    if isinstance(error, TypeError | AttributeError) and any(map(_has_objects, arrays)):
        return True
    return any(isinstance(array, odd.Overriding) for array in arrays)


def _flat(values: Any) -> Iterator[Any]:
    for value in list(values):
        if type(value) in (tuple, list) and len(value) < 20:
            yield from value
        else:
            yield value


def _has_objects(array: Any) -> bool:
    dtype = getattr(array, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.hasobject


def _nothing(*_: object) -> None:
    """Computes no element."""


@contextlib.contextmanager
def not_computed() -> Iterator[None]:
    """Calls go as far as the kernels, which don't run."""
    from mdtensor.api.calls import program_calls

    kept = program_calls.executor
    program_calls.executor = _nothing
    try:
        yield
    finally:
        program_calls.executor = kept


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """What takes long or goes far is left out: searches, benchmarks, other folders."""
    from mdtensor.api.cli import compare, demo, main, tune_command
    from mdtensor.api.plans import plan
    from mdtensor.api.tuning import tune

    class ReachedError(MdtensorError):
        """A command that would begin now."""

    def reached(*_: object, **__: object) -> Any:
        raise ReachedError("all arguments are right")

    places: list[tuple[Any, str]] = [
        (tune, "_tuned"),
        (tune_command, "tune_expressions"),
        (compare, "compare"),
        (demo, "run"),
        (main, "_run_benchmarks"),
        (plan.Plan, "explain"),
    ]
    kept = [getattr(place, name) for place, name in places]
    before = Path.cwd()
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        for place, name in places:
            setattr(place, name, reached)
        try:
            yield
        finally:
            os.chdir(before)
            for (place, name), value in zip(places, kept, strict=True):
                setattr(place, name, value)


def checked(seed: int, numbers: range) -> Report:
    """The calls of a seed with these numbers, made in this process, each once.

    None is slow: that is for the command to find.
    """
    report = Report()
    with contained():
        for number in numbers:
            case = f"{seed}/{number}"
            report.add(case, made(case))
    return report


def work(seed: int, numbers: range) -> None:
    """Makes calls and says what came of each, a line of JSON for each."""
    gc.freeze()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_OF_ALL, MEMORY_OF_ALL))
    told = os.fdopen(os.dup(1), "w")  # what calls print goes nowhere
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contained():
        for number in numbers:
            faulthandler.dump_traceback_later(HUNG, exit=True)
            found = outcome(f"{seed}/{number}")
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps(vars(found)), file=told, flush=True)


def run(seed: int, count: int, *, verbose: bool = False) -> Report:
    """Calls in worker processes: one that crashes or hangs fails, and the next ones go on."""
    report, number, begun = Report(), 0, time.monotonic()
    while number < count:
        words = "-m", "tests.api.fuzz_malformed", "--work", number, "--seed", seed, "--count", count
        with children.started(*map(str, words), stdin=None, stderr=None) as worker:
            assert worker.stdout is not None
            for line in worker.stdout:
                found = Outcome(**json.loads(line))
                report.add(f"{seed}/{number}", found)
                if verbose and found.kind in FAILED:
                    print(f"{seed}/{number}: {report.failures[f'{seed}/{number}']}", flush=True)
                number += 1
                if verbose and number % 1000 == 0:
                    rate = number / (time.monotonic() - begun)
                    print(f"{number}: {len(report.failures)} failed, {rate:.0f}/s", flush=True)
            worker.wait()
        if worker.returncode:
            words = f"the process ended with {worker.returncode}"
            if verbose:
                print(f"{seed}/{number}: {words}", flush=True)
            report.add(f"{seed}/{number}", Outcome("?", DIED, 0.0, 0.0, False, words))
            number += 1
    return report


def show(case: str) -> int:
    """Makes the call of a case and shows all of it."""
    call, is_real = drawn(case)
    arguments = [shown(arg) for arg in call.args]
    arguments += [f"{name}={shown(value)}" for name, value in call.named.items()]
    print(f"{call.name}({', '.join(arguments)})" + ("" if is_real else "  # no kernels run"))
    with contained(), contextlib.nullcontext() if is_real else not_computed():
        try:
            print(shown(call()))
        except BaseException:
            traceback.print_exc(limit=-12)
    with contained():
        found = outcome(case)
    print(found)
    return int(found.kind in FAILED)


def main() -> int:
    """Makes the calls; 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="a seed and a number, such as 3/17")
    parser.add_argument("--work", type=int, metavar="FIRST", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        return show(options.case)
    if options.work is not None:
        work(options.seed, range(options.work, options.count))
        return 0
    begun = time.monotonic()
    report = run(options.seed, options.count, verbose=True)
    seconds = time.monotonic() - begun
    print(report)
    print(f"{options.count} calls, seed {options.seed}, {seconds:.0f} s")
    return int(bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())
