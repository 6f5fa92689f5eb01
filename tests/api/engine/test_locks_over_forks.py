"""Every lock that another thread may hold while the process forks is kept over forks."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import forks
from mdtensor.api.engine import registry
from mdtensor.api.engine.background_worker import Background
from mdtensor.api.engine.compiler_process import CompilerApart
from tests import children
from tests.api.survival.interrupts import LOCKS

# Those that a child of a fork never waits for.
NOT_NEEDED = {
    "forks._forking": "forks themselves",
    "function_source._parsing": "a child has a new one",
}
NEEDED = {
    "Background._changed",
    "Background._lock",
    "CompilerApart._lock",
    "Engine._lock",
    "JitCompiler._lock",
    "MemoryPool.lock",
    "Tiers._first",
    "Tiers._lock",
    "registry._opening",
    "sqlite_backend._in_sqlite",
}


def locks_of(name: str, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for attribute, value in values.items():
        inner: Any = value
        if isinstance(inner, threading.Event):
            inner = vars(inner)["_cond"]
        if isinstance(inner, threading.Condition):
            inner = vars(inner)["_lock"]
        if isinstance(inner, LOCKS):
            yield f"{name}.{attribute}", inner


def attributes_of(value: object) -> dict[str, Any]:
    slots = [n for kind in type(value).__mro__ for n in vars(kind).get("__slots__", ())]
    return {n: getattr(value, n) for n in slots if hasattr(value, n)} | getattr(
        value, "__dict__", {}
    )


def locks() -> Iterator[tuple[str, Any]]:
    """All locks of mdtensor's modules and objects, by their names."""
    for module in [m for name, m in sys.modules.items() if name.split(".")[0] == "mdtensor"]:
        yield from locks_of(module.__name__.rpartition(".")[2], vars(module))
    for value in gc.get_objects():
        if str(type(value).__module__).split(".")[0] == "mdtensor":  # of some it is a descriptor
            yield from locks_of(type(value).__name__, attributes_of(value))


@pytest.mark.process
def test_all_locks_are_kept_but_those_that_no_child_needs() -> None:
    """In a process that has no objects of other tests."""
    children.run("-c", f"from {__name__} import check; check()")


def check() -> None:
    a = np.ones((3, 4))
    mdt.reduce("ij->i", a, f=lambda x: x * 1.25)
    made = Background[int](print), CompilerApart(registry.engine_for().device)
    kept = {id(lock) for lock in forks._kept}
    found = {name: id(lock) in kept for name, lock in locks()}
    assert {name for name, is_kept in found.items() if not is_kept} <= NOT_NEEDED.keys()
    assert NEEDED - {name for name, is_kept in found.items() if is_kept} == set()
    assert made
