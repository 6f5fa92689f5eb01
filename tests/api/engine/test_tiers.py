"""The table of what runs on a device: its entries rise, and some are dropped."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mdtensor.api.arrays import invalidation
from mdtensor.api.calls.statistics import tally
from mdtensor.api.engine import registry, tiers
from mdtensor.api.engine.evaluated import Evaluated
from mdtensor.api.engine.kernel_choice import GENERAL, KernelChoice, replaced
from mdtensor.api.engine.tiers import CompiledKernel, Tiers
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom


@pytest.fixture
def told() -> list[None]:
    return []


@pytest.fixture
def found(told: list[None]) -> Tiers:
    engine = registry.engine_for()
    return Tiers(engine.device, engine._winners, lambda _: told.append(None))


def md_hom(extent: int) -> MDHom:
    return md_hom_from_einsum("i->", [TensorSpec.of((extent,))])


def problem(extent: int) -> Problem:
    return problem_from_md_hom(md_hom(extent))


def choice(extent: int, origin: str) -> KernelChoice:
    of: Any = problem(extent)
    nothing: Any = SimpleNamespace()
    return KernelChoice(of, plain(of), origin, 1e-6, nothing, nothing)


def keep(found: Tiers, extent: int) -> None:
    found.keep(md_hom(extent), choice(extent, GENERAL), invalidation.generation(), use_store=True)


def test_no_problem_falls_to_a_tier_below(found: Tiers) -> None:
    general, own = choice(5, GENERAL), choice(5, "cost model")
    code: Any = SimpleNamespace()
    made = CompiledKernel(1e-6, general.schedule, code)
    for reached in (general, made, own):
        found.rise(problem(5), reached)
        assert found.reached(problem(5)) is reached
        assert (found.own(problem(5)) is reached) == (reached is own)
    for late in (general, made):
        found.rise(problem(5), late)
        assert found.reached(problem(5)) is own


def test_new_kernels_end_choices_for_programs_and_leave_problems_theirs(found: Tiers) -> None:
    found.rise(problem(5), choice(5, "cost model"))
    keep(found, 5)
    assert found.known(md_hom(5), use_store=True) is not None
    assert found.known(md_hom(5), use_store=False) is None, "which may be another one"
    invalidation.clear()
    assert found.known(md_hom(5), use_store=True) is None
    assert found.own(problem(5)) is not None


def test_a_better_kernel_replaces_those_of_its_problem_alone(found: Tiers) -> None:
    keep(found, 5)
    keep(found, 6)
    invalidation.drop(replaced(problem(5)))
    assert found.known(md_hom(5), use_store=True) is None
    assert found.known(md_hom(6), use_store=True) is not None


def test_a_better_general_kernel_replaces_no_kernel_with_constants(found: Tiers) -> None:
    general, own = choice(5, GENERAL), choice(6, "cost model")
    evaluated = Evaluated(md_hom(7), general.program, general.shapes)
    is_stale = replaced(structure=GENERALISE(problem(9))[0])
    assert [is_stale((each,)) for each in (general, own, evaluated)] == [True, False, True]
    assert is_stale((own, general)), "a launch of several steps"
    assert is_stale((replace(evaluated, shapes=None),)), "evaluated without a device"
    assert is_stale(None), "nobody knows what serves it"
    assert not is_stale(()), "no kernel serves it"
    assert not is_stale((tally("NumPy", np.dtype("f4")),)), "nor a tally"
    products = md_hom_from_einsum("i,i->", [TensorSpec.of((5,))] * 2)
    other = GENERALISE(problem_from_md_hom(products))[0]
    assert not replaced(structure=other)((general,))


def test_what_was_chosen_before_new_kernels_came_is_not_kept(found: Tiers) -> None:
    before = invalidation.generation()
    invalidation.clear()
    found.keep(md_hom(5), choice(5, GENERAL), before, use_store=True)
    assert found.known(md_hom(5), use_store=True) is None


def test_a_full_table_keeps_problems_and_has_calls_let_go_of_programs(
    found: Tiers, told: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "MOST_CHOICES", 4)
    for extent in range(5, 9):
        keep(found, extent)
    assert not told
    keep(found, 9)
    assert told
    found.table.most = 4
    for extent in range(5, 9):
        found.rise(problem(extent), choice(extent, "cost model"))
    assert found.choices
    found.rise(problem(9), choice(9, "cost model"))
    assert list(found.table) == [problem(extent) for extent in range(6, 10)]
    assert not found.choices
