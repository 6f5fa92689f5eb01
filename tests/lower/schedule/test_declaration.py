"""Declarations of tuning parameters, and what follows from them for schedules."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace

import pytest

from mdtensor.lower.schedule.declaration import (
    changed,
    copied_from,
    copied_to,
    declarations_of,
    free_on,
    tried,
    tuned,
)
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.schedule_space import parameters_of
from tests.kernels.kernel_cases import CASES
from tests.targets import CPU, H200


@dataclass(frozen=True)
class Pair:
    rows: tuple[int, ...] = tuned((), "rows {}", entries="dims", least=1)
    depth: int = tuned(0, "depth {}", most=4, idle=1, copied=True, values=(0, 2, 4))
    mode: str = tuned("fast", "mode {}", choices=("fast", "small"), copied=True, free=("gpu",))
    kept: bool = tuned(False, "kept", of_resident=True, copied=True)


COUNTS = {"dims": 2, "streams": 3}


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("rows", (), ""),
        ("rows", (1, 2), ""),
        ("rows", (1,), "schedule.rows needs 2 entries or none"),
        ("rows", (1, 0), "schedule.rows is at least 1"),
        ("depth", 4, ""),
        ("depth", 5, "schedule.depth is between 0 and 4"),
        ("depth", -1, "schedule.depth is between 0 and 4"),
        ("mode", "small", ""),
        ("mode", "slow", "schedule.mode is none of ('fast', 'small')"),
    ],
)
def test_values_have_the_form_that_is_declared(name: str, value: object, fault: str) -> None:
    assert declarations_of(Pair)[name].fault(name, value, COUNTS) == fault


def test_some_values_mean_what_the_neutral_one_does() -> None:
    declared = declarations_of(Pair)
    assert declared["depth"].is_neutral(1)
    assert not declared["depth"].is_neutral(2)
    assert declared["rows"].is_neutral((0, 0))
    assert not declared["kept"].is_neutral(True)
    found = [(name, value) for name, _, value in changed(Pair(depth=2, mode="small"))]
    assert found == [("depth", 2), ("mode", "small")]


def test_configurations_hold_what_is_copied() -> None:
    assert copied_to(Pair(depth=1, kept=True)) == {"depth": 0, "mode": "fast", "kept": True}
    given = {"depth": 3, "kept": True, "other": 7}
    assert copied_from(given, Pair) == {"depth": 3}
    assert copied_from(given, Pair, resident=True) == {"depth": 3, "kept": True}


def test_searches_try_what_is_declared() -> None:
    assert tried(Pair, "depth") == (0, 2, 4)
    assert tried(Pair, "mode") == ("fast", "small")
    assert tried(Pair, "kept") == (False, True)
    assert tried(Pair, "rows") == ()
    assert [*free_on(Pair, "gpu")] == ["mode"]
    assert [*free_on(Pair, "cpu")] == []


def test_what_searches_try_is_in_range() -> None:
    for name, declared in declarations_of(Schedule).items():
        for value in declared.tried:
            given = (value,) * 2 if declared.entries else value
            assert declared.fault(name, given, {"dims": 2, "streams": 2}) == ""


def test_free_parameters_are_in_the_spaces_of_their_devices() -> None:
    problem = CASES["dot_split"].problem()
    for target in (CPU, H200):
        space = {each.name: each.values for each in parameters_of(problem, target)}
        for name, declared in free_on(Schedule, target.kind).items():
            assert declared.copied
            assert declared.devices in ((), (target.kind,))
            assert target.kind == "gpu" or space[name] == declared.tried
            assert name in space


def test_every_field_that_has_a_default_is_declared_and_documented() -> None:
    declared = declarations_of(Schedule)
    names = [field.name for field in fields(Schedule)]
    assert names[-len(declared) :] == list(declared)
    assert Schedule.__doc__ is not None
    assert [name for name in names[1:] if f"`{name}`" not in Schedule.__doc__] == []


def test_texts_and_stored_forms_leave_out_what_says_nothing() -> None:
    problem = CASES["dot_split"].problem()
    schedule = plain(problem, "cpu")
    stored = json.loads(schedule.to_json())
    assert {name for name in declarations_of(Schedule) if name in stored} == {
        "tail",
        "streaming",
        "inline",
    }
    assert schedule.describe(problem).endswith("tail split; streaming False; inline False")
    changed = replace(schedule, ahead=3, peel=True)
    assert changed.describe(problem).endswith("inline False; peel; ahead 3")
    assert Schedule.from_json(changed.to_json()) == changed
