"""Chains by rows on GPUs: the groups of one kernel compute all steps, as NumPy does in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import fused_calls, registry
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.store import Store
from mdtensor.translate.md_hom_program import FusedStep, Program, Step
from tests.api.engine.fuzz_row_chains import TOLERANCE, Drawn
from tests.api.engine.test_row_chains import CASES, wide_softmax
from tests.api.gpu_family import GpuOnProcessor


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(GpuOnProcessor(), Store.open)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Program, Any]]:
    """The programs of several steps that calls run, and what runs them step by step."""
    seen: list[tuple[Program, Any]] = []

    def counted(program: Program, _: str, run: Callable[..., None], **__: bool) -> Any:
        def noted(*arrays: Any) -> None:
            run(*arrays)
            seen.append((program, arrays))

        return noted

    monkeypatch.setattr(fused_calls, "is_worth_joining", lambda *_: True)
    monkeypatch.setattr(registry, "counted", counted)
    monkeypatch.setattr(registry, "fused", lambda *_: None)
    monkeypatch.setenv("MDTENSOR_TIER0", "0")
    registry.forget()
    return seen


def check(engine: Engine, program: Program, arrays: Any, rtol: float, atol: float) -> list[int]:
    """Compares what the kernels on rows give with what steps gave; how many steps each has."""
    joined = engine.joined
    joined._make((program, False), False)
    fusion = joined.fused(program, use_store=False)
    if fusion is None:
        return []
    slots = [np.array(array) for array in arrays]
    for slot in program.result_slots:
        slots[slot] = np.full_like(slots[slot], 77)
    slots += [np.full(spec.shape, 77, spec.dtype) for spec in fusion.temporaries]
    for step in fusion.steps:
        given = [slots[n] for n in (*step.operands, *step.results)]
        if isinstance(step, FusedStep):
            fusion.kernels[step.program].program(*given)
        else:
            engine.choose(step.md_hom, use_store=False).program(*given)
    for slot in program.result_slots:
        np.testing.assert_allclose(slots[slot], arrays[slot], rtol=rtol, atol=atol)
    return [len(step.program.steps) for step in fusion.steps if isinstance(step, FusedStep)]


@pytest.mark.parametrize("name", [n for n in CASES if "attention" not in n])
def test_a_chain_that_shares_rows_is_one_kernel(
    name: str, engine: Engine, programs: list[tuple[Program, Any]]
) -> None:
    call, expected = CASES[name]
    np.testing.assert_allclose(call(), expected(), rtol=2e-4, atol=2e-4)
    (found,) = programs
    assert check(engine, *found, rtol=2e-4, atol=2e-4) == [len(found[0].steps)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(40))
def test_random_chains(seed: int, engine: Engine, programs: list[tuple[Program, Any]]) -> None:
    chain = Drawn(np.random.default_rng(seed))
    due = chain(*[array.astype("f8") for array in chain.arrays])
    atol = TOLERANCE * max(1, np.abs(due).max())
    found = chain(*map(mdt.lazy, chain.arrays)).evaluate()
    np.testing.assert_allclose(found, due, rtol=TOLERANCE, atol=atol)
    for each in programs:
        check(engine, *each, rtol=TOLERANCE, atol=atol)


def test_products_have_kernels_of_their_own(
    engine: Engine, programs: list[tuple[Program, Any]]
) -> None:
    """What lies between two products is one kernel, whose slots go on as the program's."""
    call, expected = CASES["causal attention of ragged blocks"]
    np.testing.assert_allclose(call(), expected(), rtol=2e-4, atol=2e-5)
    (found,) = programs
    assert check(engine, *found, rtol=2e-4, atol=2e-5) == [3]


def test_a_result_that_later_steps_read_is_one_of_the_kernel(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_calls, "is_worth_joining", lambda *_: True)
    x = np.random.default_rng(3).standard_normal((41, 300), dtype=np.float32)
    softmax = mdt.compile(mdt.softmax, x).program
    largest, sums = softmax.temporaries
    both = Program(1, (*softmax.results, largest), (sums,), softmax.steps)
    wide = x.astype("f8")
    due = wide_softmax(x).astype("f4"), wide.max(-1).astype("f4")
    assert check(engine, both, (x, *due), rtol=2e-5, atol=1e-7) == [3]


@pytest.mark.parametrize("columns", [300, 20000])
def test_a_step_of_one_element_of_each_row_is_one_of_the_kernel(
    columns: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all work-items share a row, one of them does that step."""
    monkeypatch.setattr(fused_calls, "is_worth_joining", lambda *_: True)
    x = np.random.default_rng(3).standard_normal((6, columns), dtype=np.float32)
    (largest,) = mdt.compile(mdt.reduce, "ij->i", x, combine="max").md_homs
    (squares,) = mdt.compile("i,i->i", x[:, 0].copy(), x[:, 0].copy()).md_homs
    (scaled,) = mdt.compile("ij,i->ij", x, x[:, 0].copy()).md_homs
    steps = Step(largest, (0,), (2,)), Step(squares, (2, 2), (3,)), Step(scaled, (0, 3), (1,))
    spec, row = (mdt.spec(shape, "f4") for shape in (x.shape, (6,)))
    due = x.astype("f8") * x.astype("f8").max(-1, keepdims=True) ** 2
    chain = Program(1, (spec,), (row, row), steps)
    assert check(engine, chain, (x, due.astype("f4")), rtol=1e-6, atol=0) == [3]


@pytest.mark.parametrize("shape", [(1, 70), (1, 7)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_small_steps_without_rows_are_one_kernel_of_one_group(
    axis: int | None,
    shape: tuple[int, int],
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fused_calls, "is_worth_joining", lambda *_: True)
    x = np.random.default_rng(3).standard_normal(shape, dtype=np.float32)
    softmax = mdt.compile(mdt.softmax, x, axis=axis)
    powers = np.exp(x.astype("f8") - x.max(axis, keepdims=True))
    due = (powers / powers.sum(axis, keepdims=True)).astype("f4")
    found = check(engine, softmax.program, (x, due), rtol=2e-5, atol=1e-7)
    assert found == [len(softmax.md_homs)]
