"""The parent's side of measuring on processors: who compiles when, and what is timed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mdtensor.api.engine import registry
from mdtensor.api.tuning import measurer as measurers
from mdtensor.api.tuning.bench_worker import Bench, Compilations
from mdtensor.api.tuning.measurer import Measurer, TooLateError
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.worker.pickling import packed
from mdtensor.autotune.worker.worker import WorkerCrashed
from mdtensor.backends.host.binary_cache import Binaries, Compiled, MachineCode
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.gpu.register_blocking.gpu_candidates import blocked
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from tests.api.stand_in_bench import Clock
from tests.problems import einsum_problem


class Compiling(Future[Any]):
    """A reply that comes when somebody waits for it."""

    def __init__(self, reply: dict[str, Any]) -> None:
        super().__init__()
        self.reply = reply

    def come(self) -> None:
        if not self.done() and self.set_running_or_notify_cancel():
            self.set_result(self.reply)

    def result(self, timeout: float | None = None) -> Any:
        self.come()
        return super().result(0)


pytestmark = pytest.mark.process


class Compilers:
    """Stands for a crew; where `is_slow`, nothing is done by a deadline, until it is ended."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.futures: list[Compiling] = []
        self.programs: dict[str, str] = {}  # of schedules that are another's program
        self.is_slow, self.waited = False, list[float]()

    def submit(self, request: Any, timeout_s: float) -> Future[Any]:
        asked = request["schedule"]
        program = self.programs.get(asked, asked)
        self.asked.append(asked)
        self.futures.append(Compiling({"compiled": "code", "spilled": 0, "program": program}))
        if self.is_slow:
            self.futures[-1].set_running_or_notify_cancel()
        return self.futures[-1]

    def wait(self, futures: Iterable[Compiling], timeout: float = 0, **options: Any) -> Any:
        """Stands for `concurrent.futures.wait`."""
        self.waited.append(timeout)
        for future in [] if self.is_slow else futures:
            future.come()
        return wait_for(futures, 0, **options)

    def interrupt(self) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(WorkerCrashed("ended"))

    def close(self) -> None:
        """There is nothing to end."""


class Bencher:
    """Stands for the worker that times; while it does, nothing may compile."""

    def __init__(self, compilers: Compilers) -> None:
        self.compilers = compilers
        self.requests: list[Any] = []
        self.starts = 1
        self.pid: int | None = 1
        self.was_killed = False

    def call(self, request: Any, timeout_s: float) -> Any:
        if "open" in request:
            return {}
        assert all(future.done() for future in self.compilers.futures)
        self.requests.append(request)
        if "confirm" in request:
            return {"seconds": [[1e-3]] * len(request["confirm"])}
        return {"status": "ok", "seconds": 1e-3, "spread": 0.0}

    def kill(self) -> None:
        self.was_killed = True

    def close(self) -> None:
        """There is nothing to end."""


@pytest.fixture
def problem() -> Problem:
    return einsum_problem("ij->i", (64, 64))


@pytest.fixture
def measurer(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measurer]:
    """A measurer on a processor whose processes are stood for."""
    made = Measurer(registry.engine_for(), None)
    compilers = Compilers()
    made._crew, made.ahead, made.apart = compilers, 6, True  # pyright: ignore
    made._worker = Bencher(compilers)  # pyright: ignore
    monkeypatch.setattr(measurers, "wait", compilers.wait)
    made.begin(problem)
    yield made
    made.close()


def schedules(problem: Problem, count: int) -> list[Schedule]:
    return [replace(plain(problem), ahead=number) for number in range(count)]


def test_nothing_is_timed_while_something_compiles(measurer: Measurer, problem: Problem) -> None:
    made = schedules(problem, 4)
    for schedule in made:
        measurer.prepare(schedule)
    for schedule in made[:2]:  # asserted where it is timed
        assert measurer.trial(schedule, None).status == "ok"
    measurer.prepare(replace(made[0], ahead=16))
    assert measurer.by_turns(made[:2]) == [[1e-3], [1e-3]]


def test_what_compiles_beyond_the_deadline_is_ended(measurer: Measurer, problem: Problem) -> None:
    crew: Any = measurer._crew
    first, late = schedules(problem, 2)
    measurer.deadline = Deadline(2.0, Clock())
    measurer.trial(first, None)
    crew.is_slow = True
    measurer.prepare(late)
    assert measurer.by_turns([first]) == [[1e-3]]
    assert 2.0 <= crew.waited[-2] <= 3.0
    assert crew.futures[-1].exception() is not None
    trial = measurer.trial(late, None)
    assert (trial.status, trial.detail) == ("crashed", "ended")


class Late(Future[Any]):
    """What does not come in time."""

    waited = -1.0

    def result(self, timeout: float | None = None) -> Any:
        assert timeout is not None
        self.waited = timeout
        raise TimeoutError


def test_a_worker_whose_reference_is_late_is_killed(measurer: Measurer) -> None:
    worker: Any = measurer._worker
    measurer.deadline = Deadline(2.0, Clock())
    measurer._opening = late = Late()
    with pytest.raises(TooLateError):
        measurer.opened()
    assert 2.0 <= late.waited < 4.0
    assert worker.was_killed
    assert measurer._worker is not worker


def test_what_the_worker_has_timed_is_confirmed_without_its_code(
    measurer: Measurer, problem: Problem
) -> None:
    timed, other = schedules(problem, 2)
    measurer.trial(timed, None)
    measurer.by_turns([timed, other])
    first, second = measurer._worker.requests[-1]["confirm"]  # pyright: ignore
    assert "compiled" not in first
    assert second["compiled"] == "code"
    assert measurer._crew.asked == [timed.to_json(), other.to_json()]  # pyright: ignore


@pytest.mark.parametrize("change", [{"starts": 2}, {"pid": None}])
def test_a_new_worker_is_sent_the_code_again(
    measurer: Measurer, problem: Problem, change: dict[str, Any]
) -> None:
    (timed,) = schedules(problem, 1)
    measurer.trial(timed, None)
    for name, value in change.items():
        setattr(measurer._worker, name, value)
    measurer.by_turns([timed])
    (candidate,) = measurer._worker.requests[-1]["confirm"]  # pyright: ignore
    assert candidate["compiled"] == "code"


def test_machine_code_is_forgotten_once_it_was_timed(measurer: Measurer, problem: Problem) -> None:
    for schedule in schedules(problem, 3):
        measurer.trial(schedule, None)
    assert measurer._compiled == {}
    assert measurer._pending == set()


def test_schedules_that_are_one_program_are_measured_once(
    measurer: Measurer, problem: Problem
) -> None:
    first, same, other = schedules(problem, 3)
    measurer._crew.programs[same.to_json()] = first.to_json()  # pyright: ignore
    trials = [measurer.trial(schedule, None) for schedule in (first, same, other)]
    assert [trial.status for trial in trials] == ["ok"] * 3
    timed = [request["schedule"] for request in measurer._worker.requests]  # pyright: ignore
    assert timed == [first.to_json(), other.to_json()]
    unknown = replace(other, ahead=16)
    assert measurer.different([same, unknown, first, other]) == [same, unknown, other]
    measurer.begin(problem)
    measurer.trial(same, None)
    assert len(measurer._worker.requests) == 3  # pyright: ignore


class Counting:
    """Stands for a compiler, and counts."""

    def __init__(self) -> None:
        self.count = 0

    def compiled(self, source: KernelSource) -> Compiled:
        self.count += 1
        return Compiled(source, MachineCode(b"code", 32, 8))


def test_schedules_that_are_one_program_are_compiled_once_by_all_compilers(tmp_path: Path) -> None:
    compiler, kept = Counting(), Binaries(tmp_path)
    problem = einsum_problem("ik,kj->ij", (64, 64), (64, 64))
    alone = replace(blocked(problem, (4, 4), (8, 8), 8), last_group=False)
    schedules = [alone, replace(alone, last_group=True), replace(alone, tiles=(0, 16, 0))]
    replies = [
        Compilations(compiler, CUDA, kept).handle(
            {"problem": packed(problem), "schedule": schedule.to_json()}
        )
        for schedule in schedules
    ]
    programs = [reply["program"] for reply in replies]
    assert programs[0] == programs[1] != programs[2]
    assert compiler.count == 2
    assert replies[0] == replies[1] | {"compile_time": replies[0]["compile_time"]}
    assert [reply["spilled"] for reply in replies] == [8] * 3


def test_short_searches_have_no_compilers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = registry.engine_for()
    monkeypatch.setattr(measurers, "core_count", lambda: 2)
    assert aheads(lambda budget: Measurer(engine, None, budget), [1.5, 4.0, 60.0]) == [0, 6, 6]
    monkeypatch.setattr(measurers, "core_count", lambda: 1)
    assert aheads(lambda budget: Measurer(engine, None, budget), [1.5, 60.0]) == [0, 0]
    monkeypatch.setattr(measurers, "core_count", lambda: 64)
    assert aheads(lambda budget: Measurer(engine, None, budget), [60.0]) == [24]


def aheads(make: Callable[[float], Measurer], budgets: list[float]) -> list[int]:
    found: list[int] = []
    for budget in budgets:
        with make(budget) as made:  # whose processes start when first needed
            found.append(made.ahead)
    return found


@pytest.mark.process
@pytest.mark.parametrize(
    ("compiler", "status", "words"),
    [
        ("open_hanging", "timeout", "did not reply in time"),
        ("open_crashing", "crashed", "SIGSEGV"),
        ("open_refusing", "compile_error", "refused machine code"),
    ],
)
def test_compilers_that_fail_cost_their_candidate_only(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, compiler: str, status: str, words: str
) -> None:
    monkeypatch.setattr(measurers, "COMPILER", f"tests.api.faulty_compiler:{compiler}")
    seconds = 0.5 if status == "timeout" else 60.0
    monkeypatch.setattr(measurers, "COMPILE_SECONDS", {"cpu": seconds})
    monkeypatch.setattr(measurers, "core_count", lambda: 2)
    with Measurer(registry.engine_for(), None) as made:
        made.begin(problem)
        trial = made.trial(plain(problem), None)
    assert trial.status == status
    assert words in trial.detail


@pytest.mark.process
def test_candidates_that_fail_cost_their_trial_only(
    monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    monkeypatch.setattr(measurers, "BENCH", "tests.api.faulty_bench:open_bench")
    made = [replace(plain(problem), registers=(rows, 1)) for rows in range(1, 33)]
    by_fault = {zlib.crc32(schedule.to_json().encode()) % 5: schedule for schedule in made}
    hangs, crashes, wrong, right, other = (by_fault[n] for n in range(5))
    with Measurer(registry.engine_for(), None, budget=0) as measurer:
        measurer.begin(problem)
        trials = [measurer.trial(schedule, None) for schedule in (right, crashes, wrong)]
        with monkeypatch.context() as hurried:
            hurried.setattr(measurers, "TRIAL_SECONDS", 0.5)
            trials.append(measurer.trial(hangs, None))
        trials.append(measurer.trial(other, None))
    assert [each.status for each in trials] == ["ok", "crashed", "wrong", "timeout", "ok"]
    assert "SIGSEGV" in trials[1].detail
    assert "error" in trials[2].detail


def test_only_the_fastest_runs_are_kept() -> None:
    bench: Any = Bench(None, None, None)  # pyright: ignore
    for number in range(100):
        bench._keep(str(number), float((number * 37) % 100), lambda: None)
    assert sorted(seconds for seconds, _ in bench.runs.values()) == [float(n) for n in range(16)]
