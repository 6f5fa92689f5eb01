"""Calls of several small programs become one program, which computes the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import fused_calls, registry
from mdtensor.lower.schedule.default_schedule import plain

RNG = np.random.default_rng(5)
ndimage = mdt.ndimage
# Calls until a program is asked for, however many steps there are.
CALLS = 3


def drawn(*shape: int, dtype: str = "f8") -> np.ndarray:
    return RNG.integers(1, 5, shape).astype(dtype)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are asked for after a few calls."""
    monkeypatch.setattr(registry.engine_for().joined, "made", {})
    monkeypatch.setattr(fused_calls, "WORTH_OFTEN", 1e-12)
    registry.forget()


def programs() -> list[Any]:
    engine = registry.engine_for()
    engine.settle(timeout=600)
    found = [[*made.kernels.values()] for made in engine.joined.made.values()]
    return [kernels[0].program if kernels else None for kernels in found]


A, B, C, D = drawn(7, 30), drawn(30, 8), drawn(8, 40), drawn(40, 9)
SIGNAL, TAPS, IMAGE = drawn(40), drawn(5), drawn(1, 9, 11, 3)
CROSS = np.array([[0.0, 1, 0], [1, 2, 1], [0, 1, 0]])


@mdt.stencil(border="constant", cval=2.0)
def mean(u: Any) -> Any:
    return (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]) / 4


def means(u: np.ndarray) -> np.ndarray:
    v = np.pad(u, 1, constant_values=2.0)
    return (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:]) / 4


ORDERS = {"j": "add", "i": mdt.ps("add")}
# Calls, and what they must give.
CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "a chain of four": (
        lambda: mdt.einsum("ij,jk,kl,lm->im", A, B, C, D),
        lambda: A @ B @ C @ D,
    ),
    "into the caller's array": (
        lambda: mdt.einsum("ij,jk,kl,lm->im", A, B, C, D, out=np.empty((7, 9))),
        lambda: A @ B @ C @ D,
    ),
    "to a number": (
        lambda: mdt.einsum("ij,jk,kl,lm->", A, B, C, D),
        (A @ B @ C @ D).sum,
    ),
    "of converted operands": (
        lambda: mdt.einsum("ij,jk,kl,lm->im", A, B, C, D, dtype="f4", casting="unsafe"),
        lambda: A @ B @ C @ D,
    ),
    "complex numbers": (
        lambda: mdt.einsum("ij,jk,kl,lm->im", A * 1j, B, C, D * 1j),
        lambda: -A @ B @ C @ D,
    ),
    "the ends of a convolution": (
        lambda: mdt.convolve(SIGNAL, TAPS),
        lambda: np.convolve(SIGNAL, TAPS),
    ),
    "a stencil with a border": (lambda: mean(A), lambda: means(A)),
    "several operators": (
        lambda: mdt.reduce("ij->i", A, combine=ORDERS),
        lambda: A.sum(1).cumsum(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_frequent_call_of_several_programs_becomes_one(name: str) -> None:
    call, expected = CASES[name]
    for _ in range(CALLS):
        np.testing.assert_allclose(call(), expected(), rtol=1e-6)
    (program,) = programs()
    assert program is not None
    assert len(program.source.entries) == 1
    seen: list[int] = []
    launcher = program.launcher

    def counted() -> Callable[..., None]:
        launch = launcher()
        return lambda *arrays: (seen.append(len(arrays)), launch(*arrays))[1]

    program.launcher = counted
    for _ in range(CALLS):
        np.testing.assert_allclose(call(), expected(), rtol=1e-6)
    assert seen, "calls run the one program"


def test_arrays_that_share_memory_with_a_result_are_read_first() -> None:
    square = drawn(9, 9)
    expected = square @ square @ square @ square
    for _ in range(CALLS + 2):
        given = square.copy()
        mdt.einsum("ij,jk,kl,lm->im", given, square, square, square, out=given)
        np.testing.assert_allclose(given, expected)
        programs()


def test_plans_run_the_one_program_too() -> None:
    text = "ij,jk,kl,lm->im"
    plan = mdt.compile(text, A, B, C, D)
    out = np.empty((7, 9))
    for _ in range(CALLS):
        np.testing.assert_allclose(plan(A, B, C, D), A @ B @ C @ D)
    (program,) = programs()
    assert program is not None
    np.testing.assert_allclose(plan(A, B, C, D), A @ B @ C @ D)
    np.testing.assert_allclose(plan(A, B, C, D, out=out), A @ B @ C @ D)


def test_work_for_several_threads_stays_in_programs_of_its_own() -> None:
    a, b = drawn(300, 400), drawn(400, 300)
    for _ in range(CALLS):
        np.testing.assert_allclose(mdt.einsum("ij,jk,kl->il", a, b, a), a @ b @ a)
    assert not [program for program in programs() if program is not None]


def test_what_was_tuned_since_is_joined_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = registry.engine_for()
    call, expected = CASES["a chain of four"]
    for _ in range(CALLS):
        call()
    (before,) = programs()
    steps = next(iter(engine.joined.made))[0].steps
    problems = [engine.problem_of(step.md_hom) for step in steps]
    found = {problems[0]: replace(plain(problems[0]), inline=True)}
    monkeypatch.setattr(engine.joined, "_winner", found.get)
    registry.forget()
    for _ in range(CALLS):
        np.testing.assert_allclose(call(), expected(), rtol=1e-6)
    (since,) = programs()
    assert since is not before
    np.testing.assert_allclose(call(), expected(), rtol=1e-6)
