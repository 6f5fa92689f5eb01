"""Improvement: shapes that get kernels of their own, for long work and for frequent work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import cpu_tier, kernel_choice, registry
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.store import Store
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests.problems import einsum_problem


def test_long_work_gets_a_kernel_of_its_own_in_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = registry.engine_for()
    monkeypatch.setattr(made.tiers, "texts", set[str]())
    monkeypatch.setattr(cpu_tier, "WORTH_OWN_KERNEL", 0.0)
    monkeypatch.setattr(cpu_tier, "WORTH_COMPILING", 0.0)
    rng = np.random.default_rng(0)
    a, b = rng.random((13, 14), np.float32), rng.random((14, 15), np.float32)
    problem = problem_from_md_hom(
        md_hom_from_einsum("ij,jk->ik", (TensorSpec.of(a.shape), TensorSpec.of(b.shape)))
    )
    assert "general" in made.untuned(problem).origin
    made.settle(timeout=600)
    own = made.untuned(problem)
    assert own.origin == "cost model"
    assert not own.source.sizes, "its extents are constants"
    result = np.empty((13, 15), np.float32)
    own.program(a, b, result)
    np.testing.assert_allclose(result, a @ b, rtol=1e-4)


@pytest.mark.usefixtures("device_chosen_here")
@pytest.mark.parametrize("device", ["llvm", "opencl"])
def test_gradients_of_padded_convolutions_get_kernels_of_their_own(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among them kernels that write zeros, and read nothing."""
    monkeypatch.setattr(cpu_tier, "WORTH_OWN_KERNEL", 0.0)
    monkeypatch.setattr(cpu_tier, "WORTH_COMPILING", 0.0)
    mdt.device(device)
    made = registry.engine_for()
    monkeypatch.setattr(made.tiers, "texts", set[str]())
    images, taps = np.ones((2, 9, 9, 16), "f4"), np.ones((32, 3, 3, 16), "f4")

    def total(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return mdt.conv(x, w, padding=1, stride=3).sum()

    gradients = mdt.grad(total, (0, 1))(images, taps)
    made.settle(timeout=600)
    assert made.tiers.texts
    for found, again in zip(gradients, mdt.grad(total, (0, 1))(images, taps), strict=True):
        np.testing.assert_allclose(found, again, rtol=1e-5)


def test_a_later_process_loads_a_kernel_of_a_problem_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its first call."""
    store = Store.in_memory()
    monkeypatch.setattr(cpu_tier, "WORTH_OWN_KERNEL", 0.0)
    monkeypatch.setattr(cpu_tier, "WORTH_COMPILING", 0.0)
    device, problem = registry.engine_for().device, product(43, 26, 53)
    earlier, later = (Engine(device, lambda: store) for _ in range(2))
    earlier.untuned(problem)
    earlier.settle(timeout=600)
    monkeypatch.setattr(later.policy, "_best", None)  # nothing is ranked
    monkeypatch.setattr(later.tiers, "begin", None)  # and no general kernel is made
    own, kept = earlier.untuned(problem), later.untuned(problem)
    assert (own.origin, kept.origin) == ("cost model", kernel_choice.KEPT)
    assert (own.schedule, own.source) == (kept.schedule, kept.source)
    rng = np.random.default_rng(0)
    a, b = rng.random((43, 26), np.float32), rng.random((26, 53), np.float32)
    result = np.empty((43, 53), np.float32)
    kept.program(a, b, result)
    np.testing.assert_allclose(result, a.astype(float) @ b, rtol=1e-5)


def test_an_untuned_shape_gets_the_winner_of_a_near_one_in_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store.in_memory()
    made = Engine(registry.engine_for().device, lambda: store)
    monkeypatch.setattr(cpu_tier, "WORTH_OWN_KERNEL", 0.0)
    monkeypatch.setattr(cpu_tier, "WORTH_COMPILING", 0.0)
    problem, near = product(41, 23, 50), product(40, 24, 56)
    _, schedule = ranked(near, made.target, most=1)[0]
    odd = replace(schedule, registers=(5, *schedule.registers[1:]))
    store.set_winner(
        problem_key(near), made.environment, odd.to_json(), seconds=1e-6, confirmed=True
    )
    asked = list[object]()
    of_near = made._seen_winners.near

    def noted(*given: Any) -> Schedule | None:
        asked.append(given)
        return of_near(*given)

    monkeypatch.setattr(made._seen_winners, "near", noted)
    assert "general" in made.untuned(problem).origin
    assert not asked, "no call waits for it"
    made.settle(timeout=600)
    own = made.untuned(problem)
    assert (own.origin, own.schedule.registers) == (kernel_choice.NEAR_WINNER, odd.registers)
    assert asked
    rng = np.random.default_rng(0)
    a, b = rng.random((41, 23), np.float32), rng.random((23, 50), np.float32)
    result = np.empty((41, 50), np.float32)
    own.program(a, b, result)
    np.testing.assert_allclose(result, a.astype(float) @ b, rtol=1e-5)


def product(m: int, k: int, n: int) -> Problem:
    return einsum_problem("ij,jk->ik", (m, k), (k, n))


def test_a_shape_that_is_launched_often_gets_a_kernel_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = registry.engine_for()
    monkeypatch.setattr(made.tiers, "texts", set[str]())
    monkeypatch.setattr(cpu_tier, "SLOWER", 1e9)
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) for shape in ((17, 9), (9, 11)))
    specs = TensorSpec.of(a.shape), TensorSpec.of(b.shape)
    problem = problem_from_md_hom(md_hom_from_einsum("ij,jk->ik", specs))
    made.untuned(problem)
    made.settle(timeout=600)
    seconds = made.untuned(problem).seconds
    monkeypatch.setattr(cpu_tier, "WORTH_OFTEN", 2.5 * seconds)
    general = made.untuned(problem)
    launch, result = general.program.launcher(), np.empty((17, 11), np.float32)
    for _ in range(2):
        launch(a, b, result)
    made.settle(timeout=600)
    assert "general" in made.untuned(problem).origin, "two launches are not often"
    launch(a, b, result)
    made.settle(timeout=600)
    own = made.untuned(problem)
    assert own.origin == "cost model"
    assert not own.source.sizes, "its extents are constants"
    result[:] = np.nan
    own.program(a, b, result)
    np.testing.assert_allclose(result, a @ b, rtol=1e-5)


def test_what_was_ranked_for_the_first_kernel_is_not_ranked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = registry.engine_for()
    monkeypatch.setattr(made, "structures", {})
    extents: list[tuple[int | None, ...]] = []

    def ranking_in(compiler: Any, problem: Problem, **options: Any) -> list[tuple[float, Schedule]]:
        extents.append(tuple(extent.constant for extent in problem.extents))
        return kernel_choice.ranking_in(compiler, problem, **options)

    monkeypatch.setattr(cpu_tier, "ranking_in", ranking_in)
    for m in (5, 6, 300):
        specs = TensorSpec.of((m, 9)), TensorSpec.of((9, 7)), TensorSpec.of((7,))
        made.untuned(problem_from_md_hom(md_hom_from_einsum("ij,jk,k->ik", specs)))
        made.settle(timeout=600)
    assert extents == [(300, 9, 7)]
