"""Tuning modes belong to their context, end in any order, and drop nothing that calls keep."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import tuning
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import call_key, call_trace
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.tuning_mode import current_mode
from tests.hurried import at_once

A, B = np.arange(35.0).reshape(5, 7), np.arange(77.0).reshape(7, 11)
MODES = ("off", "cached", "record", "tune", "online")


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each kernel that was chosen, whether the store was looked at."""
    found: list[bool] = []
    choose = Engine.choose

    def noted(engine: Engine, md_hom: Any, *, use_store: bool = True) -> Any:
        found.append(use_store)
        return choose(engine, md_hom, use_store=use_store)

    monkeypatch.setattr(Engine, "choose", noted)
    return found


def calls() -> dict[str, Callable[[], Any]]:
    plan = mdt.compile("ij,jk->ik", A, B)
    of_function = mdt.compile(mdt.reduce, "ij,jk->ik", A, B, combine="max")
    out = np.empty((5, 11))
    return {
        "einsum": lambda: mdt.einsum("ij,jk->ik", A, B),
        "einsum out": lambda: mdt.einsum("ij,jk->ik", A, B, out=out),
        "reduce": lambda: mdt.reduce("ij,jk->ik", A, B, combine="max"),
        "plan": lambda: plan(A, B),
        "plan out": lambda: plan(A, B, out=out),
        "plan of reduce": lambda: of_function(A, B),
    }


@pytest.mark.parametrize("name", calls())
@pytest.mark.parametrize("mode", MODES)
def test_what_calls_keep_outlives_a_mode(name: str, mode: str, chosen: list[bool]) -> None:
    call = calls()[name]
    call()
    generation = invalidation.generation()
    chosen.clear()
    with tuning(mode):
        pass
    call()
    assert not chosen
    assert invalidation.generation() == generation


@pytest.mark.parametrize("name", calls())
def test_without_the_store_calls_keep_others(name: str, chosen: list[bool]) -> None:
    call = calls()[name]
    call()
    with tuning("off"):
        invalidation.clear()
        chosen.clear()
        call()
        call()
        assert len(chosen) <= 1
        assert not any(chosen)
    call()


@pytest.mark.parametrize("name", calls())
def test_every_call_is_recorded(name: str) -> None:
    call = calls()[name]
    wanted = call()
    with tuning("record") as seen:
        for _ in range(3):
            np.testing.assert_array_equal(call(), wanted)
    call()
    assert [item.calls for item in seen] == [3]


def test_modes_end_in_another_order_than_they_began() -> None:
    off, record = tuning("off"), tuning("record")
    off.__enter__()
    record.__enter__()
    off.__exit__(None, None, None)
    assert current_mode() == "record"
    record.__exit__(None, None, None)
    assert current_mode() == "cached"


@pytest.mark.parametrize("seed", range(10))
def test_modes_end_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        entered: list[tuple[str, Any]] = []
        for _ in range(rng.randrange(1, 12)):
            if entered and rng.random() < 0.4:
                _, manager = entered.pop(rng.randrange(len(entered)))
                manager.__exit__(None, None, None)
            else:
                entered.append((mode := rng.choice(MODES), manager := tuning(mode)))
                manager.__enter__()
            assert current_mode() == (entered[-1][0] if entered else "cached")
        rng.shuffle(entered)
        for _, manager in entered:
            manager.__exit__(None, None, None)
        assert current_mode() == "cached"
        assert not invalidation.watchers


def in_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_begins_without_a_mode() -> None:
    with tuning("off"):
        assert in_thread(current_mode) == "cached"
        context = contextvars.copy_context()
        assert in_thread(lambda: context.run(current_mode)) == "off"
    assert context.run(current_mode) == "cached"


def test_calls_of_other_threads_are_not_recorded() -> None:
    with tuning("record") as seen:
        in_thread(lambda: mdt.einsum("ij,jk->ik", A, B))
        assert len(seen) == 0
        mdt.einsum("ij,jk->ik", A, B)
    assert len(seen) == 1


def test_a_mode_ends_in_another_thread() -> None:
    mode = tuning("off")
    mode.__enter__()
    in_thread(lambda: mode.__exit__(None, None, None))
    assert current_mode() == "cached"
    assert not invalidation.watchers


def test_no_mode_is_left_where_threads_interleave() -> None:
    def enters_and_leaves(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(200):
            mode = rng.choice(MODES)
            with tuning(mode):
                assert current_mode() == mode
            assert current_mode() == "cached"

    at_once(*(partial(enters_and_leaves, n) for n in range(8)))
    assert current_mode() == "cached"
    assert not invalidation.watchers


def test_tasks_have_modes_of_their_own() -> None:
    async def has(mode: str, steps: int) -> None:
        for _ in range(steps):
            with tuning(mode):
                await asyncio.sleep(0)
                assert current_mode() == mode
                await asyncio.sleep(0)
                assert current_mode() == mode
            assert current_mode() == "record"

    async def all_of_them() -> None:
        with tuning("record"):
            await asyncio.gather(*[has(mode, n + 1) for n, mode in enumerate(MODES * 3)])
            assert current_mode() == "record"

    asyncio.run(all_of_them())
    assert not invalidation.watchers


def test_generators_end_their_modes_when_they_end() -> None:
    def within(mode: str) -> Generator[str]:
        with tuning(mode):
            yield current_mode()

    off, record = within("off"), within("record")
    assert (next(off), next(record)) == ("off", "record")
    off.close()
    assert current_mode() == "record"
    in_thread(record.close)
    assert current_mode() == "cached"


@pytest.mark.parametrize("name", calls())
@pytest.mark.parametrize("mode", MODES)
def test_calls_in_a_mode_are_traced(name: str, mode: str) -> None:
    call = calls()[name]
    wanted = call()
    with tuning(mode, budget=0.0):
        call()
        call()
        with mdt.trace() as traced:
            np.testing.assert_array_equal(call(), wanted)
        call()
    with mdt.trace() as around, tuning(mode, budget=0.0):
        call()
    assert len(traced.calls) == 1
    assert len(around.calls) == 1


@pytest.mark.parametrize("name", ["einsum", "einsum out", "plan", "plan out"])
@pytest.mark.parametrize("mode", ["off", "cached", "online"])
def test_a_repeated_call_in_a_mode_is_looked_up_at_once(
    name: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = calls()[name]
    with tuning(mode):
        call()
        call()
        monkeypatch.setattr(call_key, "_describe", None)
        monkeypatch.setattr(call_trace, "traced_launch", None)
        monkeypatch.setattr(call_trace, "record_run", None)
        call()
