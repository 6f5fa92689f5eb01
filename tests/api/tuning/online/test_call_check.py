"""Checks of candidates on a user's arrays: right ones pass, wrong ones do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning.harness import output_span
from mdtensor.api.tuning.online.call_check import CallCheck, flat_of, written_bytes
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain

Run = Callable[..., None]
RNG = np.random.default_rng(0)
A, B = RNG.random((24, 40), np.float32), RNG.random((40, 16), np.float32)


def case(expression: str, *operands: Any) -> tuple[Problem, Run, Run]:
    """A problem, the kernel that calls run, and one by another schedule."""
    (md_hom,) = mdt.compile(expression, *operands).md_homs
    engine = registry.engine_for()
    problem = engine.problem_of(md_hom)
    other = engine.specialised(problem, plain(problem), "plain", 0.0)
    return problem, registry.choice_for(md_hom).program.launcher(), other.program.launcher()


def out_of(problem: Problem) -> np.ndarray:
    """Memory of one output, without gaps."""
    low, high = output_span(problem, 0)
    return np.zeros(high - low + 1, problem.outputs[0])


def then(run: Run, change: Callable[[np.ndarray], None], last: int = 1) -> Run:
    """A kernel that does what another one does, and then something else to its last output."""

    def changed(*arrays: np.ndarray) -> None:
        run(*arrays)
        change(arrays[-last])

    return changed


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8", "f2"])
def test_a_kernel_by_another_schedule_is_right(dtype: str, scale: float) -> None:
    values = [(x * (scale if dtype in ("f4", "f8", "c8") else 8)).astype(dtype) for x in (A, B)]
    problem, trusted, other = case("ij,jk->ik", *values)
    out = out_of(problem)
    assert CallCheck(problem).wrong(trusted, other, (*values, out)) == ""
    assert not out.any()  # which belongs to the caller


def test_nothing_and_everything_may_be_in_the_operands() -> None:
    a = A.copy()
    a[0], a[1, 1], a[2, 2] = 0.0, np.inf, np.nan
    problem, trusted, other = case("ij,jk->ik", a, B)
    with np.errstate(all="raise"):
        assert CallCheck(problem).wrong(trusted, other, (a, B, out_of(problem))) == ""
        for factor, is_right in ((1 + 2**-22, True), (1.01, False)):
            row = slice(5 * B.shape[1], 6 * B.shape[1])  # one of finite results

            def change(out: np.ndarray, row: slice = row, factor: float = factor) -> None:
                out.reshape(-1)[row] *= np.float32(factor)

            changed = then(trusted, change)
            wrong = CallCheck(problem).wrong(trusted, changed, (a, B, out_of(problem)))
            assert (wrong == "") == is_right


def test_operands_lie_as_they_lie() -> None:
    memory = RNG.random((80, 48)).astype("f4")
    a, b = memory[::-2, ::-3].T[:16], B[::-1]
    problem, trusted, other = case("ij,jk->ik", a, b)
    assert CallCheck(problem).wrong(trusted, other, (a, b, out_of(problem))) == ""
    low, high = -16 * 2, 5
    flat = flat_of(memory[::-1, ::-2], memory.dtype, low, high)
    assert flat.array[0] == memory[-1, -1]
    assert flat.memory[flat.origin - 4] == memory[-1, -5]


def a_gap(out: np.ndarray) -> None:
    out.view(np.uint8)[40:44] = 0xFF


def another_value(out: np.ndarray) -> None:
    out[37] *= np.float32(1.001)


def zeros(out: np.ndarray) -> None:
    out[: 24 * 16] = 0


def too_far(out: np.ndarray) -> None:
    out[24 * 16] = 1


@pytest.mark.parametrize("change", [a_gap, another_value, zeros, too_far])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e8])
def test_what_is_wrong_is_seen(change: Callable[[np.ndarray], None], scale: float) -> None:
    a = A * np.float32(scale)
    problem, trusted, other = case("ij,jk->ik", a, B)
    check = CallCheck(problem)
    wrong = check.wrong(trusted, then(other, change), (a, B, out_of(problem)))
    assert ("outside" in wrong) == (change is too_far)
    assert wrong
    # What it left is not taken for what the next one computes.
    assert check.wrong(trusted, lambda *_: None, (a, B, out_of(problem)))
    assert check.wrong(trusted, other, (a, B, out_of(problem))) == ""


def test_integers_are_compared_exactly() -> None:
    a, b = (A * 100).astype("i4"), (B * 100).astype("i4")
    problem, trusted, other = case("ij,jk->ik", a, b)

    def by_one(out: np.ndarray) -> None:
        out[3] += 1

    arrays = (a, b, out_of(problem))
    assert "differ" in CallCheck(problem).wrong(trusted, then(other, by_one), arrays)


def test_what_a_kernel_leaves_alone_must_stay() -> None:
    smooth = mdt.stencil(lambda u: u[0, -1] + u[0, 1], border="fixed")
    (md_hom, *_) = mdt.compile(smooth, A).md_homs
    engine = registry.engine_for()
    problem = engine.problem_of(md_hom)
    trusted = registry.choice_for(md_hom).program.launcher()
    other = engine.specialised(problem, plain(problem), "plain", 0.0).program.launcher()
    assert CallCheck(problem).wrong(trusted, other, (A, out_of(problem))) == ""
    assert CallCheck(problem).wrong(trusted, then(other, zeros), (A, out_of(problem)))


def test_bytes_of_results_are_those_from_the_first_to_the_last() -> None:
    problem, _, _ = case("ij,jk->ik", A, B)
    assert written_bytes(problem) == 24 * 16 * 4
