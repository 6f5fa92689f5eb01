"""The parent's side of measuring on processors: who compiles when, and what is timed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mdtensor.api.engine import registry
from mdtensor.api.engine.pickling import packed
from mdtensor.api.tuning import measurer as measurers
from mdtensor.api.tuning.bench_worker import Bench, Compilations
from mdtensor.api.tuning.measurer import Measurer
from mdtensor.backends.host.binary_cache import Binaries, Compiled, MachineCode
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.gpu.register_blocking.gpu_candidates import blocked
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

pytestmark = pytest.mark.process


class Compilers:
    """Stands for a crew: each request is done a moment later, or when `finish` says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.futures: list[Future[Any]] = []
        self.programs: dict[str, str] = {}  # of schedules that are another's program

    def submit(self, request: Any, timeout_s: float) -> Future[Any]:
        future: Future[Any] = Future()
        self.asked.append(request["schedule"])
        self.futures.append(future)
        threading.Timer(0.01, self._done, [future]).start()
        return future

    def _done(self, future: Future[Any]) -> None:
        if future.set_running_or_notify_cancel():
            asked = self.asked[self.futures.index(future)]
            program = self.programs.get(asked, asked)
            future.set_result({"compiled": "code", "spilled": 0, "program": program})

    def close(self) -> None:
        """There is nothing to end."""


class Bencher:
    """Stands for the worker that times; while it does, nothing may compile."""

    def __init__(self, compilers: Compilers) -> None:
        self.compilers = compilers
        self.requests: list[Any] = []
        self.starts = 1
        self.pid: int | None = 1

    def call(self, request: Any, timeout_s: float) -> Any:
        if "open" in request:
            return {}
        assert all(future.done() for future in self.compilers.futures)
        self.requests.append(request)
        if "confirm" in request:
            return {"seconds": [1e-3] * len(request["confirm"])}
        return {"status": "ok", "seconds": 1e-3, "spread": 0.0}

    def close(self) -> None:
        """There is nothing to end."""


@pytest.fixture
def problem() -> Problem:
    return problem_from_md_hom(md_hom_from_einsum("ij->i", (TensorSpec.of((64, 64)),)))


@pytest.fixture
def measurer(problem: Problem) -> Iterator[Measurer]:
    """A measurer on a processor whose processes are stood for."""
    made = Measurer(registry.engine_for(), None)
    compilers = Compilers()
    made._crew, made.ahead, made.apart = compilers, 6, True  # pyright: ignore
    made._worker = Bencher(compilers)  # pyright: ignore
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
    assert measurer.by_turns(made[:2]) == [1e-3, 1e-3]


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
    specs = [TensorSpec.of((64, 64))] * 2
    problem = problem_from_md_hom(md_hom_from_einsum("ik,kj->ij", specs))
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


def test_only_the_fastest_runs_are_kept() -> None:
    bench: Any = Bench(None, None, None)  # pyright: ignore
    for number in range(100):
        bench._keep(str(number), float((number * 37) % 100), lambda: None)
    assert sorted(seconds for seconds, _ in bench.runs.values()) == [float(n) for n in range(16)]
