"""Settings of calls and of `with` blocks leave nothing behind, wherever an interrupt comes."""

from __future__ import annotations

import _thread
import itertools
import os
import re
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import scoped
from mdtensor.api.arrays import invalidation
from mdtensor.scoped import ContextSettings
from tests.interrupts import comes_at, interrupt

PACKAGE = Path(mdt.__file__).parent
X = np.array([1.0, 2, 3])


def test_what_raises_is_still_taken_back() -> None:
    level: ContextVar[int] = ContextVar("level", default=0)
    with pytest.raises(ZeroDivisionError):
        scoped.scoped([(level, 1)], lambda: level.get() / 0)
    assert level.get() == 0


def test_blocks_end_in_any_order_and_where_they_are_dropped() -> None:
    blocks = ContextSettings[str]("blocks")
    outer, inner = blocks.enter("outer"), blocks.enter("inner")
    assert blocks.values == ["outer", "inner"]
    del outer
    assert blocks.values == ["inner"]
    assert copy_context().run(lambda: blocks.values) == ["inner"]
    del inner
    assert blocks.values == []


def test_threads_of_others_take_what_was_entered_last() -> None:
    blocks, found = ContextSettings[str]("blocks"), list[list[str]]()

    def seen_by(start: Callable[[Callable[[], None]], object]) -> list[str]:
        done = threading.Event()

        def look() -> None:
            found.append(blocks.values)
            done.set()

        start(look)
        assert done.wait(60)
        return found[-1]

    def foreign(look: Callable[[], None]) -> None:
        _thread.start_new_thread(look, ())

    block = blocks.enter("outer")
    assert seen_by(foreign) == ["outer"]
    assert seen_by(lambda look: threading.Thread(target=look).start()) == []
    del block
    assert seen_by(foreign) == []


def test_an_error_that_is_kept_keeps_nothing_set() -> None:
    """As a shell does, with its traceback and the variables of all functions in that."""
    with pytest.raises(KeyboardInterrupt) as kept:
        mdt.grad(lambda _: interrupt())(X)
    assert not invalidation.watchers
    assert kept.traceback


def gradient() -> Any:
    return mdt.grad(lambda x: np.sum(np.tanh(mdt.einsum("i,i->i", x, x)) * x))(X)


def gradient_of_a_gradient() -> Any:
    return mdt.grad(lambda x: mdt.grad(lambda y: (y * y * y).sum())(x).sum())(X)


def call_with_a_function() -> Any:
    return mdt.reduce("i,i->", X, X, f=lambda a, b: a if a > b else a * b)


def within_blocks() -> Any:
    with mdt.tuning("record"), mdt.trace():
        return mdt.einsum("i,i->", X, X)


def plan() -> Any:
    return mdt.compile(mdt.conv, np.ones((1, 5, 5, 2)), np.ones((3, 3, 3, 2)), padding=1)


@pytest.mark.parametrize(
    ("work", "step"),
    [
        (gradient, 37),
        (gradient_of_a_gradient, 61),
        (call_with_a_function, 1),
        (within_blocks, 11),
        (plan, 41),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_no_interrupt_leaves_a_state(work: Callable[[], Any], step: int) -> None:
    """Ctrl-C comes at each place of the package, or at every so many."""
    for _ in range(2):
        work()
    before, places = dict(copy_context().items()), 0
    for places in itertools.count(step=step):
        if not comes_at(places, interrupt, work, f"{PACKAGE}{os.sep}"):
            break
        left = {k.name for k, v in copy_context().items() if before.get(k) is not v}
        assert left <= {"tuning", "traces"}, places  # whose blocks have ended:
        assert not invalidation.watchers, places
    assert places > 10 * step
    np.testing.assert_allclose(mdt.grad(lambda x: (x * x).sum())(X), 2 * X)


def test_variables_of_contexts_are_set_in_one_place() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    names = {
        name
        for text in sources.values()
        for name in re.findall(
            r"^\s*(?:self\.)?(\w+)(?:: [^\n=]+)? = ContextVar\(", text, re.MULTILINE
        )
    }
    assert {"planner", "tracer", "TRACED", "recorder"} <= names
    is_set = re.compile(rf"\b({'|'.join(names)})\.(?:set|reset)\(")
    found = [path.name for path, text in sources.items() if is_set.search(text)]
    assert found == ["scoped.py"]
