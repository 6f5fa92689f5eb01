"""Rows that anybody may have written: dropped and counted, and never an error of a user's call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.store.store import Store
from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import MOST_VECTORS, Schedule
from mdtensor.plain_data import data_of
from tests.autotune.hostile_schedules import hostile_texts

A, B = (np.random.default_rng(0).random(shape, np.float32) for shape in ((20, 31), (31, 40)))
(MD_HOM,) = mdt.compile("ij,jk->ik", A, B).md_homs


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.in_memory()


@pytest.fixture(scope="module")
def engine(store: Store) -> Engine:
    return Engine(registry.engine_for().device, lambda: store)


@pytest.fixture(scope="module")
def problem(engine: Engine) -> Problem:
    return engine.problem_of(MD_HOM)


PLAIN = plain(registry.engine_for().problem_of(MD_HOM))
SCHEDULE = PLAIN.to_json()
TEXTS = dict(hostile_texts(data_of(PLAIN)))


def may_be_a_schedule(name: str) -> bool:
    """Whether a text is a schedule all the same: a field has its default, or the size of a tile."""
    if name in ("another device", "lane negative", "swath huge"):
        return True
    field, _, what = name.partition(" ")
    if what == "missing":
        return field not in ("asm", "parts", "tiles", "threads", "registers", "lane", "width")
    whole = {"parts": "one of many", "tiles": "one of many"}
    return what in {"true", "false", "empty", "empty text", whole.get(field)} or (
        field in ("parts", "tiles") and what in ("zeros", "huge ones")
    )


@pytest.mark.sampled(100)
@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_winner_is_dropped_and_the_call_goes_on(
    name: str, store: Store, engine: Engine, problem: Problem
) -> None:
    key = problem_key(problem)
    row = WinnerRow(key, engine.environment, TEXTS[name], 0.0, 1 << 62, 0.0, True)
    store.prune(everything=True)
    store._shelf.add([row])
    before = store.dropped
    choice = engine.choose(MD_HOM)
    choice.program(A, B, result := np.empty((20, 40), np.float32))
    np.testing.assert_allclose(result, A @ B, rtol=1e-5)
    if choice.origin == "tuned":
        assert may_be_a_schedule(name)
    else:
        assert store.dropped == before + 1
        assert store.winner(key, engine.environment) is None, "a search can replace it"


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", TEXTS)
def test_hostile_hints_and_trials_are_passed_over(name: str, problem: Problem) -> None:
    from mdtensor.api.engine.stored_schedules import with_schedules

    rows = [WinnerRow("p", "e", text, 1.0, 1, 1.0, True) for text in (TEXTS[name], SCHEDULE)]
    found = [row.schedule for row, _ in with_schedules(problem, rows)]
    assert found[-1] == SCHEDULE
    assert len(found) == 1 or may_be_a_schedule(name)


def test_more_texts_are_tried_than_an_attack_had() -> None:
    assert len(TEXTS) > 400


def test_register_tiles_have_an_end(engine: Engine, problem: Problem) -> None:
    schedule = Schedule.from_json(SCHEDULE.replace('"registers":[1,1,1]', '"registers":[4,8,64]'))
    with pytest.raises(LoweringError) as caught:
        engine.source(problem, schedule)
    assert caught.value.message == f"a register tile has at most {MOST_VECTORS} vectors"


def test_an_imported_schedule_is_parsed_first(tmp_path: Path, store: Store) -> None:
    with Store.in_memory() as other:
        for name, text in TEXTS.items():
            other._shelf.add([WinnerRow(name, "e", text, 1.0, 1, 1.0, True)])
        other.export(tmp_path / "rows.jsonl")
    store.prune(everything=True)
    found = store.import_(tmp_path / "rows.jsonl", Schedule.from_json)
    assert found.rows + len(found.refused) == len(TEXTS)
    assert len(found.refused) > 300
    for row in store._shelf.winners():
        Schedule.from_json(row.schedule)
