"""First calls on new shapes: einsum strings, the engine and the store."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.calls import program_calls, shape_families
from mdtensor.api.calls.shape_families import Families
from mdtensor.api.engine import engine as engine_module
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.store import Store
from mdtensor.backends.host.result_pool import POOL
from mdtensor.bounded import Bounded
from mdtensor.errors import ShapeError, SubscriptError
from mdtensor.lower.problem import generic_problem as generalised_module
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain


@pytest.fixture
def engine() -> Engine:
    return registry.engine_for()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8-i,i->i", lambda count: [8, 7, 6, 5, 4]),
        ("i+1,i->i", lambda count: [1, 2, 3, 4, 5]),
        ("2i,i->i", lambda count: [0, 2, 4, 6, 8]),
        ("i+j,j->i", lambda count: [10 + 5 * i for i in range(count - 4)]),
        ("3,i->i", lambda count: [3, 3, 3, 3, 3]),
    ],
)
def test_sums_as_indices_are_right_on_new_shapes(
    text: str, expected: Callable[[int], list[int]]
) -> None:
    for count in range(9, 14):
        found = mdt.einsum(text, np.arange(float(count)), np.ones(5))
        np.testing.assert_array_equal(found, expected(count))


@pytest.mark.parametrize("orders", ["CC", "FC", "CF", "FF"])
def test_new_shapes_are_not_translated(
    orders: str, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(engine, "structures", {})  # which other tests may have made
    monkeypatch.setattr(program_calls, "families", Families(registry.engine_for))
    registry.forget()

    def call(m: int, k: int, n: int) -> None:
        a = np.asarray(rng.random((m, k)), order=orders[0])
        b = np.asarray(rng.random((k, n)), order=orders[1])
        np.testing.assert_allclose(mdt.einsum("pq,qr->pr", a, b), a @ b, rtol=1e-12)

    for extents in ((20, 21, 22), (21, 22, 23)):
        call(*extents)
        engine.settle(timeout=600)

    def refuse(*_: object) -> None:
        raise AssertionError("a call of a known family was translated")

    monkeypatch.setattr(program_calls, "_member_or_built", refuse)
    call(23, 17, 29)
    call(29, 31, 18)


def test_operands_that_do_not_fit_are_refused_as_ever() -> None:
    for k in (11, 12):
        mdt.einsum("uv,vw->uw", np.ones((10, k)), np.ones((k, 13)))
    with pytest.raises(SubscriptError, match="index 'v' has extent 12 in operand 0 but 14"):
        mdt.einsum("uv,vw->uw", np.ones((10, 12)), np.ones((14, 13)))


def test_the_store_is_asked_by_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.ones((24, 25), "f4"), np.ones((25, 26), "f4")
    mdt.einsum("xy,yz->xz", a, b)
    asked: list[str] = []
    store = registry.engine_for().store

    def winner(self: object, key: str, environment: str) -> None:
        asked.append(key)

    monkeypatch.setattr(type(store), "state", lambda self: None)
    monkeypatch.setattr(type(store), "winner", winner)
    mdt.einsum("xy,yz->xz", a[:23], b)
    assert asked
    assert asked[0].startswith("mul/add 23,25+,26 float32(25,1,0) ")


@pytest.mark.parametrize("by_another", [False, True])
def test_a_winner_is_found_where_the_store_was_seen_before_and_after(
    by_another: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    """It is written when the background knows of none, or before that looked."""
    store = Store.open(tmp_path)
    other = Store.open(tmp_path) if by_another else store
    monkeypatch.setattr(engine, "_open_store", lambda: store)
    monkeypatch.setattr(engine, "structures", {})  # which other tests may have made
    registry.forget()
    a, b = np.ones((34, 35), "f4"), np.ones((35, 36), "f4")
    known = [(rows, mdt.compile("vx,xy->vy", a[:rows], b)) for rows in (31, 32, 33)]
    for rows in (34, 30):
        mdt.einsum("vx,xy->vy", a[:rows], b)
        engine.settle(timeout=600)
    made: list[Problem] = []
    tuned = engine.tuned
    monkeypatch.setattr(engine, "tuned", lambda problem: (made.append(problem), tuned(problem))[1])
    for number, (rows, plan) in enumerate(known):
        problem = engine.problem_of(plan.md_homs[0])
        if number:
            schedule = plain(problem).to_json()
            key = problem_key(problem), engine.environment
            other.set_winner(*key, schedule, seconds=1e-6, trials=1)
        if number == 2:
            engine._seen_winners.look()
            assert problem_key(problem) in engine._seen_winners._seen[1]
        assert mdt.einsum("vx,xy->vy", a[:rows], b)[0, 0] == 35
        assert len(made) == number
        engine.settle(timeout=600)
    registry.forget()


def test_results_that_are_too_large_are_refused_as_ever() -> None:
    for count in (4, 5, 6):
        assert mdt.einsum("i,j->ij", np.ones(count), np.ones(count)).shape == (count, count)
    huge = np.lib.stride_tricks.as_strided(np.ones(1), (2**40,), (8,), writeable=False)
    with pytest.raises(ShapeError, match="is larger than any memory"):
        mdt.einsum("i,j->ij", huge, huge)


def test_programs_that_never_call_alike_grow_no_tables(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    monkeypatch.setattr(engine, "structures", {})
    monkeypatch.setattr(shape_families, "_MOST_KINDS", 2)
    families: Families = Families(registry.engine_for)
    monkeypatch.setattr(program_calls, "families", families)
    monkeypatch.setattr(generalised_module, "_known", known := Bounded(2))
    monkeypatch.setattr(engine_module, "MOST_STRUCTURES", 2)
    for text in ("ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ik", "ij,jk->ki"):
        assert mdt.einsum(text, A := np.ones((9, 9), "f4"), A)[0, 0] == 9
    engine.settle(timeout=600)
    assert len(engine.structures) <= 2
    assert len(families) <= 2
    assert len(known) <= 2


def test_arrays_between_contractions_are_dropped_after_their_last_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So there are the result, and what one step reads and writes, and no more at once."""
    n = 1024
    matrices = [np.full((n, n), 1 / n, "f4") for _ in range(9)]
    path = ["einsum_path", (0, 1), *[(0, k) for k in range(7, 0, -1)]]
    taken, counts, take = list[weakref.ref[np.ndarray]](), list[int](), POOL.array

    def noted(nbytes: int, layout: Any) -> Any:
        array = take(nbytes, layout)
        if layout["shape"] == (n, n):  # and no memory that kernels compute in
            taken.append(weakref.ref(array))
            counts.append(sum(each() is not None for each in taken))
        return array

    monkeypatch.setattr(POOL, "array", noted)
    result = mdt.einsum("ab,bc,cd,de,ef,fg,gh,hi,ij->aj", *matrices, optimize=path)
    np.testing.assert_allclose(result, 1 / n, rtol=1e-5)
    assert len(counts) == 8
    assert max(counts) == 3
