"""Families of calls: what is multiplied is what a translation says."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays.operands import ordered_allocator, spec_of
from mdtensor.api.engine import engine as engine_module
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.frontends.einsum import einsum as einsum_module
from mdtensor.api.frontends.einsum.einsum_families import Family, order_of
from mdtensor.api.frontends.einsum.einsum_planner import prepare
from mdtensor.autotune.store.store import Store
from mdtensor.bounded import Bounded
from mdtensor.errors import SubscriptError
from mdtensor.lower.problem import generic_problem as generalised_module
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain

TEXTS = ("ij,jk->ik", "ik,kj->ji", "bij,bjk->bik", "abcd,dce->abe", "gdab,efcg->abcdef", "ij->j")
OTHERS = ("ij,ij->", "i,j->ij", "ijk->kji", "...ij,...jk", "ab,ab->ba", "ij,j")


@pytest.fixture
def engine() -> Engine:
    return registry.engine_for()


def arrays(text: str, rng: random.Random, dtype: str = "f4", orders: str = "CCC") -> list[Any]:
    """Extents from 3 on: where complex numbers lie closer, that is a structure of its own."""
    terms = text.partition("->")[0].replace("...", "xy").split(",")
    extents = {name: rng.randrange(3, 12) for name in sorted(set("".join(terms)))}
    shapes = [[extents[name] for name in term] for term in terms]
    given: Any = zip(shapes, orders, strict=False)
    return [np.ones(shape, dtype, order=order) for shape, order in given]


@pytest.mark.parametrize("dtype", ["f4", "c16", "i1", "?"])
@pytest.mark.parametrize("orders", ["CC", "FC", "CF", "FF"])
@pytest.mark.parametrize("text", [*TEXTS, *OTHERS])
def test_sizes_and_results_are_those_of_the_translation(
    text: str, orders: str, dtype: str, engine: Engine
) -> None:
    rng = random.Random(text)
    family = Family.of(text, arrays(text, rng, dtype, orders), engine)
    assert family is not None
    for _ in range(8):
        operands = arrays(text, rng, dtype, orders)
        values = family.values_of([a.shape for a in operands])
        assert values is not None
        prepared = prepare(text, [spec_of(array) for array in operands])
        problem = problem_from_md_hom(prepared.steps[0].md_hom)
        general, sizes = generalised(problem)
        assert family.structure() is engine.structure(general)
        assert values[: family.sized] == sizes
        made = ordered_allocator(values[family.sized :], family.axes, family.dtype)()
        assert spec_of(made) == prepared.result
        pattern = family.structure().pattern
        assert pattern is not None
        assert pattern.format(*sizes) == problem_key(problem)


@pytest.mark.parametrize("text", ["ii->i", "ij,jj->i", "i,i,i->i"])
def test_some_calls_have_no_family(text: str, engine: Engine) -> None:
    assert Family.of(text, arrays(text, random.Random(0)), engine) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8-i,i->i", [8, 7, 6, 5, 4]),
        ("i+1,i->i", [1, 2, 3, 4, 5]),
        ("2i,i->i", [0, 2, 4, 6, 8]),
        ("i+j,j->i", [10, 15, 20, 25, 30]),
        ("3,i->i", [3, 3, 3, 3, 3]),
    ],
)
def test_sums_as_indices_have_no_family(text: str, expected: list[int], engine: Engine) -> None:
    """What such strings leave over of an axis is no product of extents."""
    operands = np.arange(9.0), np.ones(5)
    assert Family.of(text, operands, engine) is None
    for _ in range(2):
        np.testing.assert_array_equal(mdt.einsum(text, *operands), expected)


@pytest.mark.parametrize(
    ("array", "order"),
    [
        (np.ones((3, 1)), None),
        (np.ones((3, 0)), None),
        (np.ones((3, 8))[:, ::2], None),
        (np.ones((3, 4, 5)).swapaxes(0, 1), None),
        (np.ones((3, 4, 5)).T, "F"),
        (np.ones((3, 4)), "C"),
        (np.ones(()), "C"),
    ],
)
def test_arrays_and_their_orders(array: np.ndarray, order: str | None) -> None:
    assert order_of(array) == order


@pytest.mark.parametrize("orders", ["CC", "FC", "CF", "FF"])
def test_new_shapes_are_not_translated(
    orders: str, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(engine, "structures", {})  # which other tests may have made
    monkeypatch.setattr(einsum_module, "_families", Bounded(64))
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

    monkeypatch.setattr(einsum_module, "lookup_or_prepare", refuse)
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
    """It is written when the thread in the background knows of none, or before that looked."""
    store = Store.open(tmp_path)
    other = Store.open(tmp_path) if by_another else store
    monkeypatch.setattr(engine, "_open_store", lambda: store)
    monkeypatch.setattr(engine, "structures", {})  # which other tests may have made
    registry.forget()
    a, b = np.ones((34, 35), "f4"), np.ones((35, 36), "f4")
    known = [(rows, mdt.compile("vx,xy->vy", a[:rows], b)) for rows in (31, 32, 33)]
    mdt.einsum("vx,xy->vy", a, b)
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


def test_calls_that_are_too_large_or_wrong_have_no_launch(engine: Engine) -> None:
    family = Family.of("i,j->ij", [np.ones(4), np.ones(5)], engine)
    assert family is not None
    huge = np.lib.stride_tricks.as_strided(np.ones(1), (2**30,), (8,), writeable=False)
    assert family.launch([huge, huge]) is None
    family = Family.of("ij,jk->ik", [np.ones((4, 5)), np.ones((5, 6))], engine)
    assert family is not None
    assert family.launch([np.ones((4, 5)), np.ones((6, 5))]) is None


def test_programs_that_never_call_alike_grow_no_tables(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    monkeypatch.setattr(engine, "structures", {})
    monkeypatch.setattr(einsum_module, "_families", families := Bounded(2))
    monkeypatch.setattr(generalised_module, "_known", known := Bounded(2))
    monkeypatch.setattr(engine_module, "MOST_STRUCTURES", 2)
    for text in ("ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ik", "ij,jk->ki"):
        assert mdt.einsum(text, A := np.ones((9, 9), "f4"), A)[0, 0] == 9
    engine.settle(timeout=600)
    assert len(engine.structures) <= 2
    assert len(families) <= 2
    assert len(known) <= 2
