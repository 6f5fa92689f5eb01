"""First kernels on LLVM's device: compiled in haste, and again in the background."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mdtensor.api.engine import tiers
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import KernelChoice
from mdtensor.autotune.store.store import Store
from mdtensor.backends.llvm.llvm_device import open_device
from mdtensor.backends.protocol import CompiledProgram
from mdtensor.errors import CompileError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

SHAPES = (7, 45, 33), (7, 33, 50)
PRODUCTS = md_hom_from_einsum("bij,bjk->bik", tuple(TensorSpec.of(shape) for shape in SHAPES))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine whose cache is empty."""
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    return _engine()


def _engine() -> Engine:
    return Engine(open_device(), Store.in_memory)


def _computed(choice: KernelChoice) -> np.ndarray:
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) for shape in SHAPES)
    result = np.full((7, 45, 50), np.nan, np.float32)
    choice.program(a, b, result)
    np.testing.assert_allclose(result, a.astype(np.float64) @ b, rtol=1e-5)
    return result


def test_a_first_kernel_is_compiled_in_haste_and_replaced(made: Engine) -> None:
    told: list[None] = []
    made.changed.append(lambda _: told.append(None))
    first = made.choose(PRODUCTS)
    assert first.source.hasty
    made.settle(600)
    later = made.choose(PRODUCTS)
    assert told, "calls that keep the first kernel are told"
    assert not later.source.hasty
    assert later.source.text == first.source.text
    np.testing.assert_array_equal(_computed(first), _computed(later))


def test_the_next_process_takes_what_was_compiled_in_the_background(made: Engine) -> None:
    made.choose(PRODUCTS)
    made.settle(600)
    assert not _engine().choose(PRODUCTS).source.hasty


def test_what_runs_for_long_is_compiled_thoroughly_at_once(
    made: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "WORTH_NO_HASTE", 0.0)
    assert not made.choose(PRODUCTS).source.hasty


def test_what_is_refused_when_compiled_thoroughly_runs_as_it_is(
    made: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_here = made.device.compile

    def refuse(source: KernelSource, sizes: Sequence[int] = ()) -> CompiledProgram:
        if source.hasty:
            return compile_here(source, sizes)
        raise CompileError("refused")

    monkeypatch.setattr(made.device, "compile", refuse)
    first = made.choose(PRODUCTS)
    made.settle(600)
    later = made.choose(PRODUCTS)
    np.testing.assert_array_equal(_computed(first), _computed(later))


def test_a_long_call_waits_for_what_was_compiled_in_haste(
    made: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made.policy, "_ask", lambda served: None)
    first = made.choose(PRODUCTS)
    assert first.source.hasty
    monkeypatch.setattr(tiers, "WORTH_NO_HASTE", 0.0)
    later = made.choose(PRODUCTS)
    assert not later.source.hasty
    np.testing.assert_array_equal(_computed(first), _computed(later))
