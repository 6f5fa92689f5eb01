"""The registry of kinds: what an entry names is what the lowering, the rules and the ranking do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from types import CodeType, FrameType
from typing import Any

import pytest

from mdtensor.errors import LoweringError
from mdtensor.lower.gpu.base.gpu_kind import LOOK_BACK, SCATTER, SIMPLE, GpuKind
from mdtensor.lower.gpu.space.gpu_kinds import KINDS, kind_on_gpu, kinds_of
from mdtensor.lower.gpu.space.gpu_ranking import estimated_on_gpu, gpu_schedule
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain, scattering
from mdtensor.lower.schedule.rules.scan_rules import validate_scan
from mdtensor.lower.schedule.schedule import Schedule
from tests.lower.gpu.space.test_gpu_space import OF_KINDS, WITH_MATRICES

NUMBERS = range(len(KINDS))


def schedules_of(problem: Problem) -> Iterator[Schedule]:
    """Schedules of all kinds that a problem has."""
    yield gpu_schedule(problem, WITH_MATRICES)
    if SCATTER in kinds_of(problem, WITH_MATRICES):
        yield scattering(problem, plain(problem, "gpu"))
    for candidates in dict.fromkeys(kind.candidates for kind in KINDS):
        yield from candidates(problem, WITH_MATRICES)


@cache
def case_of(kind: GpuKind) -> tuple[Problem, Schedule]:
    """A problem and a schedule of a kind."""
    for problem in OF_KINDS.values():
        if kind.applies(problem, WITH_MATRICES):
            for schedule in schedules_of(problem):
                if kind.owns(problem, schedule):
                    return problem, schedule
    raise AssertionError(f"no schedule is of the kind {kind.name}")


def codes_run_by(function: Callable[[], object]) -> set[CodeType]:
    """The code of every function that runs."""
    found: set[CodeType] = set()

    def note(frame: FrameType, _event: str, _argument: Any) -> None:
        found.add(frame.f_code)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return found


def codes_of(emit: Callable[..., object]) -> set[CodeType]:
    """The code of an emitter, and of what it is told: a loop structure, or a product."""
    if not isinstance(emit, partial):
        return {emit.__code__}
    told = (getattr(value, "loops", value) for value in emit.keywords.values())
    return codes_of(emit.func).union(*map(codes_of, told))


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{KINDS[int(n)].name}-{n}")
def test_the_lowering_runs_the_emitter_and_the_rules_of_a_kind(number: int) -> None:
    kind = KINDS[number]
    problem, schedule = case_of(kind)
    codes = codes_run_by(lambda: lowered(problem, schedule, aligned=True))
    assert codes_of(kind.emit) <= codes
    assert not [rule for rule in kind.rules if not codes_of(rule) <= codes]


@pytest.mark.parametrize("name", ["points: star", "scan: a vector", "scatter: a histogram"])
def test_every_schedule_is_of_one_kind_that_the_problem_has(name: str) -> None:
    problem, counts = OF_KINDS[name], Counter[str]()
    for schedule in [*schedules_of(problem)][::7]:
        (kind,) = (kind for kind in KINDS if kind.owns(problem, schedule))
        assert kind is kind_on_gpu(problem, schedule)
        assert kind.applies(problem, WITH_MATRICES)
        counts[kind.name] += 1
    assert len(counts) >= 2


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{KINDS[int(n)].name}-{n}")
def test_a_kind_estimates_its_own_schedules(number: int) -> None:
    kind = KINDS[number]
    problem, schedule = case_of(kind)
    seconds = kind.cost(problem, schedule, WITH_MATRICES)
    assert 0 < seconds < 1
    assert estimated_on_gpu(problem, schedule, WITH_MATRICES) == seconds


def test_the_space_has_the_kinds_that_apply() -> None:
    for problem in OF_KINDS.values():
        found = [
            name
            for kind in KINDS
            if kind.applies(problem, WITH_MATRICES)
            for name in kind.space(problem, WITH_MATRICES)
        ]
        assert [*kinds_of(problem, WITH_MATRICES)] == found
        assert len(set(found)) == len(found)
        assert SIMPLE in found


def test_a_rule_of_a_kind_rejects() -> None:
    (kind,) = (kind for kind in KINDS if kind.name == LOOK_BACK)
    problem, schedule = case_of(kind)
    wrong = replace(schedule, threads=(1,) * len(schedule.threads))
    (rule,) = (rule for rule in kind.rules if rule is validate_scan)
    with pytest.raises(LoweringError):
        rule(problem, wrong)
