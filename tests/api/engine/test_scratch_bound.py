"""Scratch memory of calls: bounded by operands and results, whichever kernel serves them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.generic_selection import decide, without_parts
from mdtensor.api.engine.kernel_choice import add_general
from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.store.store import Store
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule

ALLOWED = 64 << 20
Axes = tuple[list[int], list[int]]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes of scratch memory of all programs that are launched for the first time."""
    launches, found = registry.engine_for().device.launches, [0]
    launcher = launches.launcher

    def noted(*given: Any, scratch: int, **options: Any) -> object:
        found.append(scratch)
        return launcher(*given, scratch=scratch, **options)

    monkeypatch.setattr(launches, "launcher", noted)
    return found


@pytest.fixture
def engine() -> Engine:
    """An engine of its own, with an empty store."""
    store = Store.in_memory()
    return Engine(registry.engine_for().device, lambda: store)


def problem_of(engine: Engine, text: str, *arrays: np.ndarray) -> Problem:
    (md_hom,) = mdt.compile(text, *arrays).md_homs
    return engine.problem_of(md_hom)


def test_arrays_of_many_short_dims_are_contracted(taken: list[int]) -> None:
    axes = (1, 2, 4, 6, 7, 9, 10), (0, 2, 5, 8, 4, 6, 1)
    result = mdt.tensordot(np.ones((3,) * 12), np.ones((3,) * 10), axes)
    assert result.shape == (3,) * 8
    assert (result == 3**7).all()
    assert max(taken) <= ALLOWED + 2 * 8 * (3**12 + 3**10 + 3**8)


def random_axes(rng: Random, extent: int) -> tuple[int, int, Axes]:
    """Numbers of dims of two tensors, and those that they share, in any order."""
    first = rng.randint(10, 24 if extent == 2 else 13)
    second = rng.randint(10, min(first, 13))
    shared = rng.randint(second - 6, second - 3)
    while extent ** (first + second - shared) > 1 << 26:
        shared += 1
    return first, second, (rng.sample(range(first), shared), rng.sample(range(second), shared))


@pytest.mark.parametrize("extent", [2, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_random_contractions_of_many_short_dims(extent: int, seed: int, taken: list[int]) -> None:
    rng, values = Random(10 * extent + seed), np.random.default_rng(seed)
    first, second, axes = random_axes(rng, extent)
    a, b = (values.random((extent,) * dims, np.float32) for dims in (first, second))
    result = mdt.tensordot(a, b, axes)
    exact = np.tensordot(a.astype(float), b.astype(float), axes)
    np.testing.assert_allclose(result, exact, rtol=1e-5)
    assert max(taken) <= ALLOWED + 2 * (a.nbytes + b.nbytes + result.nbytes)


def bound_of(problem: Problem, *arrays: np.ndarray) -> int:
    results = 4 * int(np.prod([problem.extent(d) for d in problem.kept]))
    return ALLOWED + 2 * (sum(array.nbytes for array in arrays) + results)


def test_a_general_kernel_serves_no_shape_for_which_it_takes_too_much(
    engine: Engine, taken: list[int]
) -> None:
    text = "xaybzc,xpyqzr->abcpqr"
    few, many = (np.ones((2, *(n,) * 6), np.float32) for n in (3, 4))
    problems = [problem_of(engine, text, *arrays) for arrays in (few, many)]
    (structure, sizes), (same, others) = map(generalised, problems)
    assert same == structure
    base, found = plain(problems[0]), engine.structure(structure)
    labels = problems[0].labels
    tiles = tuple({"a": 512, "x": 256}.get(label, 0) for label in labels)
    staged = replace(base, tiles=tiles, staged=("scratch", ""))
    variant = without_parts(problems[0], staged)
    add_general(found, variant, engine.device)
    decision = decide(found, sizes, problems[0], engine.target)
    assert decision is not None, "tiles are as wide as they are, and take 42 MB"
    found.decide(sizes, replace(decision, groups=1, seconds=1e-9))
    near = found.decided(others, 1e-3, 1.0)
    assert near is not None, "the other shape is near"
    assert near.variant == variant
    assert decide(found, others, problems[1], engine.target) is None
    assert engine.policy.at_once(found, others, lambda: problems[1], use_store=False) is None
    choice = engine.untuned(problems[1])
    result = np.empty((4,) * 6, np.float32)
    choice.program(*many, result)
    assert (result == 64).all()
    assert max(taken) <= bound_of(problems[1], *many)
    assert engine.policy.at_once(found, others, lambda: problems[1], use_store=False) is not None


@pytest.fixture
def product(engine: Engine) -> tuple[np.ndarray, np.ndarray, Problem, Schedule]:
    """Two matrices, and a schedule by which groups leave half a gigabyte of partial results."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1024, 256), np.float32)
    problem = problem_of(engine, "ki,kj->ij", a, b)
    parts = tuple(1024 if problem.reduced[d] else 1 for d in problem.dims)
    return a, b, problem, replace(plain(problem), parts=parts)


def test_a_stored_winner_that_takes_too_much_is_dropped(
    engine: Engine,
    product: tuple[np.ndarray, np.ndarray, Problem, Schedule],
    taken: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mdtensor.lower.schedule.rules import valid

    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    a, b, problem, schedule = product
    key = problem_key(problem)
    row = WinnerRow(key, engine.environment, schedule.to_json(), 1e-9, 1 << 62, 0.0, True)
    engine.store._shelf.add([row])
    (md_hom,) = mdt.compile("ki,kj->ij", a, b).md_homs
    with monkeypatch.context() as without:
        others = tuple(rule for rule in valid.RULES if rule is not valid.validate_scratch)
        without.setattr(valid, "RULES", others)
        assert engine.choose(md_hom).origin == "tuned", "its program is kept on disk"
    choice = engine.choose(md_hom)
    assert choice.origin != "tuned"
    assert engine.store.winner(key, engine.environment) is None, "a search can replace it"
    choice.program(a, b, result := np.empty((256, 256), np.float32))
    np.testing.assert_allclose(result, a.T.astype(float) @ b, rtol=1e-5)
    assert max(taken) <= bound_of(problem, a, b)
