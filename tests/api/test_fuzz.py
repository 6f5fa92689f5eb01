"""A few random calls of every front end, and what makes their comparison one that can fail."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mdtensor.api.calls import statistics
from mdtensor.evaluator.evaluation import Evaluation
from tests.api import fuzz
from tests.api.fronts.drawing import Draw, Outcome, same_outcome, same_values
from tests.workers import COMPILER, RIGHT, MismatchError

COUNT = 4  # of each front end


@pytest.mark.process
def test_random_calls() -> None:
    names = [name for front in fuzz.FRONTS for name in fuzz.names_of(11, front, COUNT)]
    report = fuzz.WORKERS.run(names)
    assert not report.failures, str(report)
    assert report.counts[RIGHT] + report.counts[COMPILER] == len(names)


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("front", fuzz.ON_TIERS)
def test_random_calls_are_right_evaluated_and_by_kernels(front: str, number: int) -> None:
    right, evaluated, by_kernels = fuzz.outcome(f"11/{front}/{number}{fuzz.TIERS}").split()
    assert right == RIGHT
    assert int(evaluated) <= int(by_kernels)


def test_wrong_evaluations_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evaluation, "__call__", lambda *arrays: arrays[-1].fill(77))
    with pytest.raises(MismatchError) as raised:
        fuzz.outcome(f"11/axes/1{fuzz.TIERS}")
    assert raised.value.__notes__[-1] == statistics.EVALUATED


def test_a_case_is_known_by_its_name() -> None:
    first, again = (drawn("7/x/1") for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.strides == again.strides
    assert drawn("7/x/2").shape != first.shape


def drawn(name: str) -> np.ndarray:
    draw = Draw(random.Random(name))
    return draw.array(draw.extents(3, 1000), "f4", odd=1)


def test_stray_writes_are_seen() -> None:
    draw = Draw(random.Random(0))
    array = draw.laid_out(np.zeros((3, 4), "i4"), target=True)
    draw.may_change(array)
    array[...] = 1
    memory = draw.memory_of(array)
    memory.check()
    memory.data[np.flatnonzero(~memory.written)[0]] ^= 1
    with pytest.raises(MismatchError, match="1 bytes were overwritten"):
        draw.finished()


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        (np.zeros(3), np.array([0, 1e-9, 0]), "1 of 3 elements differ"),
        (np.array([np.nan]), np.zeros(1), "1 of 1 elements differ"),
        (np.array([np.inf]), np.array([-np.inf]), "1 of 1 elements differ"),
        (np.zeros(3, "f4"), np.zeros(3), "type float32 where float64"),
        (np.zeros(3), np.zeros((3, 1)), "shape"),
        (np.zeros(()), np.float64(0), "ndarray"),
        (np.zeros(2), (np.zeros(2), np.zeros(2)), "2 results are expected"),
    ],
)
def test_differences_are_seen(found: object, expected: object, words: str) -> None:
    with pytest.raises(MismatchError, match=words):
        same_values(found, expected)


def test_errors_are_compared_too() -> None:
    right, wrong = Outcome(1), Outcome(None, ValueError("no"))
    assert same_outcome(right, right)
    for ours, theirs in ((right, wrong), (wrong, right), (wrong, wrong)):
        with pytest.raises(MismatchError):  # ValueError itself is no error of ours
            same_outcome(ours, theirs)
