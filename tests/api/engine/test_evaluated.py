"""The lowest tier: what has no kernel yet is evaluated, and gets one when it comes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import cpu_tier, evaluated, launch_counter, registry
from mdtensor.api.engine.launch_counter import Repeated
from mdtensor.autotune.store.store import Store
from mdtensor.errors import CompileError
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests import children
from tests.api.told_background import ToldBackground

A, B = np.random.default_rng(0).random((2, 31, 31))


@pytest.fixture(autouse=True)
def _evaluating(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Engines of tests evaluate, and none knows a kernel; what comes again is worth one."""
    monkeypatch.setenv(evaluated.VARIABLE, "1")
    monkeypatch.setattr(evaluated, "WORTH_KERNEL", 0)
    monkeypatch.setattr(Repeated, "spent", 0.0)
    for name in ("_engines", "_named"):
        monkeypatch.setattr(registry, name, {})
    monkeypatch.setattr(registry, "store", Store.in_memory)
    monkeypatch.setattr(registry, "_opener", ToldBackground(lambda work: work()))
    monkeypatch.setattr(registry, "_spent", launch_counter.TimeSpent())
    registry.forget()
    mdt.stats(reset=True)
    yield
    registry.forget()


def tiers(trace: mdt.Trace) -> list[str]:
    return [kernel.tier for call in trace.calls for kernel in call.kernels]


def compute(**options: object) -> np.ndarray:
    found = mdt.einsum("ij,jk->ki", A, B, **options)
    np.testing.assert_allclose(found, (A @ B).T, rtol=1e-12)
    return found


def test_a_first_call_is_evaluated_and_statistics_and_traces_say_so() -> None:
    registry.engine_for()
    with mdt.trace() as trace:
        compute()
    assert tiers(trace) == ["evaluated"]
    assert dict(mdt.stats().evaluated) == {"float": 1}
    assert not mdt.stats().generated
    assert (
        not registry.engine_for().structures[next(iter(registry.engine_for().structures))].variants
    )


def test_what_comes_again_gets_a_kernel_from_the_background() -> None:
    engine = registry.engine_for()
    compute()
    engine.settle(600)
    with mdt.trace() as trace:
        compute()
    assert tiers(trace) == ["evaluated"], "once is not again"
    engine.settle(600)
    with mdt.trace() as trace:
        compute()
    assert "evaluated" not in tiers(trace)
    assert mdt.stats().generated["float"] == 1


def test_what_came_twice_is_looked_for_on_disk_and_not_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluated, "WORTH_KERNEL", 1000)
    engine = registry.engine_for()
    looked = list[Any]()
    monkeypatch.setattr(engine.tiers, "load", looked.append)
    for _ in range(3):
        compute()
        engine.settle(600)
    assert looked == [*engine.structures.values()]
    assert not looked[0].variants


def test_other_shapes_of_a_structure_count_together() -> None:
    engine = registry.engine_for()
    for extent in (20, 21):
        a = np.ones((extent, extent + 5))
        np.testing.assert_array_equal(mdt.einsum("ij,kj->ik", a, a), a @ a.T)
    engine.settle(600)
    a = np.ones((30, 33))
    with mdt.trace() as trace:
        np.testing.assert_array_equal(mdt.einsum("ij,kj->ik", a, a), a @ a.T)
    assert "evaluated" not in tiers(trace)


def test_what_takes_long_gets_a_kernel_of_its_own_and_no_general_one_before() -> None:
    engine = registry.engine_for()

    def product(extent: int) -> str:
        a = np.random.default_rng(1).random((extent, extent))
        with mdt.trace() as trace:
            np.testing.assert_allclose(mdt.einsum("ij,kj->ik", a, a), a @ a.T, rtol=1e-12)
        engine.settle(600)
        [tier] = tiers(trace)
        return tier

    found = [product(extent) for extent in (300, 300, 300, 320)]
    assert found == ["evaluated", "evaluated", "own", "evaluated"]
    [structure] = engine.structures.values()
    assert not structure.variants


def test_a_kernel_that_others_had_compiled_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that is repeated computes by NumPy until somebody tells of the kernel."""
    engine = registry.engine_for()
    asked: list[Callable[[], None]] = []
    monkeypatch.setattr(engine.tiers.background, "ask", lambda _, work, **__: asked.append(work))
    compute()
    compute()
    [work] = asked
    spec = TensorSpec.of(A.shape)
    problem = engine.problem_of(md_hom_from_einsum("ij,jk->ki", (spec, spec)))
    [structure] = engine.structures.values()
    engine.tiers.add(structure, GENERALISE(problem)[1], problem, waits=False)
    with mdt.trace() as trace:
        compute()
    assert tiers(trace) == ["evaluated"], "nobody told"
    work()
    with mdt.trace() as trace:
        compute()
    assert "evaluated" not in tiers(trace)


def test_of_many_shapes_the_structure_gets_a_general_kernel() -> None:
    engine = registry.engine_for()
    extents = range(300, 300 + cpu_tier._MAX_ALONE + 2)
    for extent in extents:
        a = np.ones((extent, extent))
        for _ in range(2):
            np.testing.assert_array_equal(mdt.einsum("ij,kj->ik", a, a), a @ a.T)
        engine.settle(600)
    [structure] = engine.structures.values()
    assert len([sizes for sizes in structure.evaluations if sizes]) == cpu_tier._MAX_ALONE
    assert len(structure.variants) == 1


def test_first_calls_on_many_shapes_are_worth_a_general_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shapes that never come again cost more than their evaluation, which a kernel would save."""
    monkeypatch.setattr(evaluated, "WORTH_KERNEL", 1)
    engine = registry.engine_for()
    shapes = int(evaluated.COMPILING / evaluated.FIRST_CALL)
    found = list[str]()
    for extent in range(20, 30 + shapes):
        a = np.ones((extent, 5))
        with mdt.trace() as trace:
            mdt.einsum("ij,kj->ik", a, a)
        found += tiers(trace)
    assert set(found[: shapes // 2]) == {"evaluated"}
    engine.settle(600)
    with mdt.trace() as trace:
        mdt.einsum("ij,kj->ik", a := np.ones((19, 5)), a)
    assert "evaluated" not in tiers(trace)


def test_without_an_engine_the_background_opens_one_for_what_comes_again() -> None:
    compute()
    assert not registry.has_engine()
    mdt.einsum("ij,jk->ki", A[1:], B)
    assert not registry.has_engine()
    registry._opener.settle(600)
    assert registry.has_engine()


def test_what_takes_longer_than_a_compiler_gets_a_kernel_at_once() -> None:
    with mdt.trace() as trace:
        mdt.reduce("i,j->", np.ones(9000), np.ones(9000), f=lambda a, b: np.exp(a * b))
    assert "evaluated" not in tiers(trace)


def test_a_large_shape_of_what_was_evaluated_gets_a_kernel_at_once() -> None:
    def product(a: float, b: float) -> float:
        return np.exp(a * b)

    with mdt.trace() as trace:
        for extent in (9, 9000):
            mdt.reduce("i,j->", np.ones(extent), np.ones(extent), f=product)
    assert [tier == "evaluated" for tier in tiers(trace)] == [True, False]


def test_several_steps_are_evaluated_one_after_the_other() -> None:
    with mdt.trace() as trace:
        found = mdt.softmax(A)
    expected = np.exp(A) / np.exp(A).sum(-1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert set(tiers(trace)) == {"evaluated"}


def test_a_call_of_several_programs_waits_for_no_compiler() -> None:
    labels = np.arange(31)
    with mdt.trace() as trace:
        found = mdt.cross_entropy(A, labels)
        mdt.cross_entropy(A, labels)
    powers = np.exp(A)
    expected = -np.log(powers[labels, labels] / powers.sum(1)).mean()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert set(tiers(trace)) == {"evaluated"}


def test_plans_have_kernels() -> None:
    plan = mdt.compile("ij,jk->ki", A, B)
    with mdt.trace() as trace:
        np.testing.assert_allclose(plan(A, B), (A @ B).T, rtol=1e-12)
    assert "evaluated" not in tiers(trace)


def test_the_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(evaluated.VARIABLE, "0")
    with mdt.trace() as trace:
        compute()
    assert "evaluated" not in tiers(trace)


def test_what_is_tuned_runs_its_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = registry.engine_for()
    with mdt.tuning("record") as seen:
        compute()
    assert dict(mdt.stats(reset=True).evaluated) == {"float": 1}, "recording compiles nothing"
    [item] = seen
    monkeypatch.setattr(engine, "winner", lambda problem: 1)
    kernel = object()
    monkeypatch.setattr(engine, "chosen", lambda md_hom, *, use_store: kernel)
    assert engine.serving(item.md_hom) is kernel
    assert isinstance(engine.serving(item.md_hom, use_store=False), evaluated.Evaluated)


def test_a_compiler_that_refuses_leaves_calls_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = registry.engine_for()

    def refuse(*given: object, **options: object) -> None:
        raise CompileError("refused")

    monkeypatch.setattr(engine.tiers, "add", refuse)
    for _ in range(2):
        compute()
    with pytest.raises(CompileError):
        engine.settle(600)  # which the thread of the background reports
    compute()
    assert dict(mdt.stats().evaluated) == {"float": 3}


def asked_at(launches: int) -> tuple[list[tuple[int, bool]], float]:
    """The launches of a small product at which a kernel is asked for, and its expected seconds.

    With each whether it is to be compiled.
    """
    asked: list[tuple[int, bool]] = []
    worths = set[float]()
    specs = TensorSpec.of((4, 4)), TensorSpec.of((4, 4))

    def ask(*, worth: float, often: bool) -> None:
        asked.append((len(launched), often))
        worths.add(worth)

    found = evaluated.evaluated(md_hom_from_einsum("ij,jk->ik", specs), ask)
    assert found is not None
    run, result = found.program.launcher(), np.empty((4, 4), np.float32)
    launched = list[None]()
    for _ in range(launches):
        launched.append(None)
        run(*np.ones((2, 4, 4), np.float32), result)
    [worth] = worths
    return asked, worth


def test_what_has_come_to_nothing_is_asked_for_again() -> None:
    assert asked_at(9)[0] == [(2, True), (4, True), (8, True)]


def test_a_kernel_is_compiled_once_launches_took_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seconds = asked_at(2)
    monkeypatch.setattr(evaluated, "WORTH_KERNEL", 11.5 * seconds / evaluated.COMPILING)
    assert asked_at(40)[0] == [(2, False), (12, True), (16, True), (32, True)]


def test_a_process_that_runs_long_gets_kernels_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seconds = asked_at(2)
    monkeypatch.setattr(evaluated, "WORTH_KERNEL", 1000)
    monkeypatch.setattr(launch_counter, "LONG_RUN", 11.5 * seconds)
    monkeypatch.setattr(Repeated, "spent", 0.0)
    assert asked_at(40)[0] == [(2, False), (16, True), (32, True)]


@pytest.mark.process
def test_a_first_call_loads_no_compiler_and_opens_no_store(tmp_path: Path) -> None:
    program = (
        "import sys, numpy, mdtensor; a = numpy.ones((5, 5));"
        " print(mdtensor.einsum('ij,jk->ik', a, a).sum());"
        " print([name for name in ('llvmlite', 'sqlite3', 'pyopencl') if name in sys.modules])"
    )
    environment = {evaluated.VARIABLE: "1", "MDTENSOR_CACHE_DIR": str(tmp_path / "none")}
    assert children.run("-c", program, env=environment).out == "125.0\n[]\n"


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_kernel_that_was_kept_is_loaded_where_that_is_sooner(
    is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = TensorSpec.of((4, 4)), TensorSpec.of((4, 4))
    md_hom = md_hom_from_einsum("ij,jk->ik", specs)

    def found() -> evaluated.Evaluated | None:
        return evaluated.evaluated(md_hom, lambda: None, lambda: is_kept)

    assert found() is not None
    monkeypatch.setattr(evaluated, "LOADING", 0.0)
    assert (found() is None) == is_kept
