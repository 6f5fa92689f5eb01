"""A few thousand malformed calls, and what makes their verdicts ones that can fail."""

from __future__ import annotations

import gc
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import ndimage
from tests.api import fuzz_malformed
from tests.api.fuzz_malformed import (
    LEVELS,
    LONGEST,
    LONGEST_RIGHT,
    LONGEST_WAIT,
    MEMORY,
    OWN,
    REFUSED,
    RIGHT,
    SIGNATURE,
    SLOW,
    TRIES,
    UNTYPED,
    Outcome,
    checked,
    drawn,
    kind_of,
)
from tests.api.malformed import calls, odd, watches
from tests.api.malformed.calls import Call
from tests.api.malformed.watches import FullCollections

COUNT = 3000


def test_malformed_calls_are_refused_by_typed_errors() -> None:
    report = checked(11, range(COUNT))
    assert not report.failures, str(report)
    assert report.kinds[REFUSED] > COUNT / 2
    assert report.kinds[RIGHT] > COUNT / 20
    wanted = {*mdt.__all__, *(f"ndimage.{name}" for name in ndimage.__all__)}
    assert wanted - report.functions.keys() <= {
        *(
            "Plan",
            "Ragged",
            "ShardedArray",
            "errors",
            "host",
            "ndimage",
            "tuner",
        ),  # classes, and modules
        *("cc", "inp_view", "md_hom", "out_view"),  # parts of programs
        "trace",  # takes no arguments
    }


def test_a_case_is_known_by_its_name() -> None:
    first, again = (drawn("3/17")[0] for _ in range(2))
    shown, shown_again = (re.sub("0x[0-9a-f]+", "", repr(call.args)) for call in (first, again))
    assert (first.name, shown) == (again.name, shown_again)


def raised(function: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever it is
        function()
    return caught.value


def within_mdtensor(error: BaseException) -> Any:
    """An error that is raised while a call is made."""

    class Raising:
        shape = (2,)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise error

    return mdt.reduce("i->", Raising())


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda: mdt.einsum("ij,jk->ik", 1, 2), REFUSED),
        (lambda: mdt.einsum("i->i", [1], unknown=3), SIGNATURE),  # type: ignore[call-arg]
        (lambda: mdt.reduce("i->", [1.0], f=odd.raising), REFUSED),
        (lambda: mdt.reduce("i->", [1.0], f=odd.deep), REFUSED),
        (lambda: mdt.reduce("i->", odd.Refusing()), OWN),
        (lambda: mdt.einsum("i,i->", [None, 2], [1, 2]), OWN),  # NumPy adds objects up
        (lambda: np.ones(2) + np.ones(3), OWN),  # without mdtensor
        (lambda: mdt.reduce("i,j->ij", *[np.broadcast_to(1.0, 2**22)] * 2), MEMORY),
        (lambda: within_mdtensor(IndexError("x")), UNTYPED),
        (lambda: within_mdtensor(AssertionError("x")), UNTYPED),
    ],
)
def test_whose_error_it_is(function: Callable[[], Any], kind: str) -> None:
    assert kind_of(raised(function)) == kind


def outcome_of(
    monkeypatch: pytest.MonkeyPatch, function: Callable[[], Any], name: str = "made up"
) -> Outcome:
    call = Call(name, function)
    monkeypatch.setattr(fuzz_malformed, "drawn", lambda _: (call, False))
    return fuzz_malformed.made("0/0")


def test_what_is_untyped_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome_of(monkeypatch, lambda: within_mdtensor(IndexError("x")))
    assert found.kind == UNTYPED
    assert "IndexError: x (test_fuzz_malformed.py:" in found.words
    assert outcome_of(monkeypatch, lambda: NotImplemented).kind == UNTYPED
    assert outcome_of(monkeypatch, lambda: mdt.spec((3,))).kind == RIGHT


@pytest.mark.parametrize(
    ("found", "is_slow"),
    [
        (Outcome("", REFUSED, LONGEST, LONGEST, compiled=False), False),
        (Outcome("", REFUSED, 1.01 * LONGEST, LONGEST, compiled=False), True),
        (Outcome("", REFUSED, 1.01 * LONGEST, LONGEST, compiled=True), False),
        (Outcome("", REFUSED, 0.0, 1.01 * LONGEST_WAIT, compiled=False), True),
        (Outcome("", OWN, 4.9 * LONGEST, 0.0, compiled=False, levels=5 * LEVELS), False),
        (Outcome("", OWN, 5.1 * LONGEST, 0.0, compiled=False, levels=5 * LEVELS), True),
        (Outcome("", RIGHT, LONGEST_RIGHT, 9 * LONGEST_WAIT, compiled=False), False),
        (Outcome("", RIGHT, 1.01 * LONGEST_RIGHT, 0.0, compiled=False), True),
        (Outcome("", UNTYPED, 9.0, 9.0, compiled=False), False),
    ],
)
def test_what_is_slow(found: Outcome, is_slow: bool) -> None:
    assert fuzz_malformed.is_slow(found) == is_slow


def test_what_is_slow_each_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(fuzz_malformed, "time", SimpleNamespace(sleep=slept.append))
    slow = Outcome("made up", REFUSED, 2 * LONGEST, 3 * LONGEST, compiled=False)
    made = [slow] * (TRIES + 1)
    monkeypatch.setattr(fuzz_malformed, "made", lambda _: made.pop())
    assert fuzz_malformed.outcome("0/0").kind == SLOW
    assert len(slept) == TRIES
    made[:] = [replace(slow, seconds=0.0), slow]
    assert fuzz_malformed.outcome("0/0").kind == REFUSED


@pytest.mark.parametrize(
    "function",
    [
        lambda: mdt.layer_norm(np.ones((2, 3)), eps="same"),  # type: ignore[arg-type]
        lambda: mdt.layer_norm(np.ones((2, 3)), eps=10**400),
        lambda: mdt.logsumexp(np.ones((2, 3)), memoryview(np.ones((2, 3)))),  # type: ignore[arg-type]
        lambda: mdt.vdot(np.ones(3, "f2"), np.ones(3, ml_dtypes.bfloat16)),
        lambda: mdt.matmul(np.ones((3, 3), ml_dtypes.bfloat16), np.ones(3, "f2")),
        lambda: mdt.einsum("ij->i", np.ones((2, 3)), out=np.empty(2, "S32")),
        lambda: mdt.ndimage.minimum_filter(np.ones((2, 3)), (memoryview(b"12345678"), 2)),
    ],
)
def test_what_campaigns_found_is_refused(function: Callable[[], Any]) -> None:
    assert kind_of(raised(function)) == REFUSED


def test_what_is_large_is_long() -> None:
    few = np.broadcast_to(np.int8(1), (2**40,))
    itself: list[Any] = []
    itself.append(itself)
    for long in (few, [few], (2, [3, 10**6])):
        assert calls.is_long(Call("made up", mdt.var, (long,)))
    for short in (np.ones(3), itself, "long", [2, (3, 4)]):
        assert not calls.is_long(Call("made up", mdt.var, (short,)))


def test_levels_of_a_function_that_calls_itself_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = outcome_of(monkeypatch, lambda: mdt.grad(odd.deep)(np.ones(2)), "grad")
    assert found.kind == OWN
    assert found.levels > 5 * LEVELS


def test_collections_of_all_garbage_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count()
    monkeypatch.setattr(watches, "time", SimpleNamespace(thread_time=lambda: next(now)))
    gc.disable()
    try:
        with FullCollections() as seen:
            gc.collect(0)
            gc.collect()
            gc.collect(1)
            gc.collect()
        gc.collect()
    finally:
        gc.enable()
    assert seen.seconds == 2
    assert next(now) == 4
