"""What a process keeps of the structures that its calls had: so many, and not more."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import engine as engine_module
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.backends.llvm.llvm_device import LLVMDevice
from mdtensor.backends.opencl import opencl_program

MOST = 4
x = np.arange(1.0, 10.0)


def scaled(factor: int) -> Any:
    """A call of a structure of its own, since the constant is part of the function."""
    return mdt.reduce("i->", x, f=eval(f"lambda x: x * {factor}"))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    found = registry.engine_for()
    monkeypatch.setattr(found, "structures", {})
    monkeypatch.setattr(engine_module, "MOST_STRUCTURES", MOST)
    return found


@pytest.fixture
def loaded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> weakref.WeakSet[Any]:
    """The machine code that is loaded from now on, as long as somebody has it."""
    code: weakref.WeakSet[Any] = weakref.WeakSet()
    if isinstance(engine.device, LLVMDevice):
        link = engine.device.jit.addresses

        def linked(*arguments: Any) -> Any:
            addresses, library = link(*arguments)
            code.add(library)
            return addresses, library

        monkeypatch.setattr(engine.device.jit, "addresses", linked)
        return code
    made = opencl_program.Kernels.__init__

    def noted(self: Any, *arguments: Any) -> None:
        made(self, *arguments)
        code.add(self)

    monkeypatch.setattr(opencl_program.Kernels, "__init__", noted)
    return code


def test_programs_of_structures_that_nobody_calls_are_released(
    engine: Engine, loaded: weakref.WeakSet[Any]
) -> None:
    for factor in range(101, 101 + 4 * MOST):
        assert scaled(factor) == factor * 45
    engine.settle()
    gc.collect()
    assert len(engine.structures) <= MOST
    assert 0 < len(loaded) <= MOST


def test_a_structure_that_is_called_again_stays(
    engine: Engine, loaded: weakref.WeakSet[Any]
) -> None:
    assert scaled(200) == 200 * 45
    (first,) = engine.structures
    for factor in range(201, 201 + 4 * MOST):
        assert scaled(factor) == factor * 45
        assert scaled(200) == 200 * 45
        assert first in engine.structures


def test_a_call_of_a_structure_that_was_let_go_of(
    engine: Engine, loaded: weakref.WeakSet[Any]
) -> None:
    assert scaled(300) == 300 * 45
    for factor in range(301, 301 + 4 * MOST):
        scaled(factor)
    assert scaled(300) == 300 * 45


def test_a_plan_whose_structure_was_let_go_of(engine: Engine) -> None:
    plan = mdt.compile(mdt.reduce, "i->", x, f=lambda x: x * 400)
    assert plan(x) == 400 * 45
    for factor in range(401, 401 + 4 * MOST):
        scaled(factor)
    assert plan(x) == 400 * 45


def test_other_shapes_of_a_structure_that_was_let_go_of(engine: Engine) -> None:
    def product(n: int) -> Any:
        return mdt.einsum("ij,jk->ik", np.ones((n, 9)), np.ones((9, n)))[0, 0]

    assert [product(n) for n in (5, 6, 7)] == [9.0] * 3
    for factor in range(501, 501 + 4 * MOST):
        scaled(factor)
    assert [product(n) for n in (8, 9, 10)] == [9.0] * 3
    assert len(engine.structures) <= MOST
