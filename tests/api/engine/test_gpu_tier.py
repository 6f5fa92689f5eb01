"""New shapes of a known structure on GPUs begin at once by a general kernel.

A processor stands for the GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdtensor.api.engine import gpu_tier
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import KernelChoice
from mdtensor.api.engine.launch_counter import StandIn
from mdtensor.autotune.store.store import Store
from mdtensor.errors import CompileError
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from tests.api.gpu_family import GpuOnProcessor
from tests.hurried import at_once

KNOWN, NEW, OTHER = (64, 64, 64), (65, 70, 67), (71, 51, 90)


def product(shape: tuple[int, int, int]) -> MDHom:
    m, n, k = shape
    return md_hom_from_einsum("ik,kj->ij", [TensorSpec.of((m, k)), TensorSpec.of((k, n))])


class Made:
    """An engine, how often calls waited for a compiler, and how often it told of better kernels."""

    def __init__(self, store: Store | None = None) -> None:
        known = Store.open() if store is None else store
        self.engine = Engine(GpuOnProcessor(), lambda: known)
        self.waited, self.told = 0, 0
        self._is_settling = False
        self.refused: set[bool] = set()  # kernels that do not compile: general ones, or others
        compiled = self.engine.device.compiled

        def counted(source: Any) -> Any:
            self.waited += not self._is_settling
            if bool(source.sizes) in self.refused:
                raise CompileError("refused")
            return compiled(source)

        self.engine.device.compiled = counted  # type: ignore[method-assign]
        self.engine.changed.append(self._tell)

    def _tell(self, is_stale: object) -> None:
        self.told += 1

    def settle(self) -> None:
        """Has the background do what it was asked for."""
        self._is_settling = True
        self.engine.settle(timeout=600)
        self._is_settling = False

    def call(self, shape: tuple[int, int, int], launches: int = 1) -> KernelChoice:
        """Launches what is chosen for a product, and compares it."""
        choice = self.engine.choose(product(shape))
        m, n, k = shape
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
        launch, out = choice.program.launcher(), np.empty((m, n), np.float32)
        for _ in range(launches):
            out[:] = np.nan
            launch(a, b, out)
            np.testing.assert_array_equal(out, a @ b)
        return choice

    def is_general(self, shape: tuple[int, int, int], launches: int = 1) -> bool:
        return "general" in self.call(shape, launches).origin


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """An engine that knows a structure, from an empty cache on."""
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gpu_tier, "COMPILING", 1e9)  # no launches take as long
    monkeypatch.setattr(gpu_tier, "SHORT", 1.0)
    found = Made()
    assert not found.is_general(KNOWN), "the first call of a structure waits for its own kernel"
    found.settle()
    assert (found.waited, found.told) == (1, 0)
    return found


def test_a_new_shape_waits_for_no_compiler_and_has_its_own_kernel_when_it_comes_again(
    made: Made,
) -> None:
    first = made.call(NEW)
    assert isinstance(first.program, StandIn)
    made.settle()
    assert made.is_general(NEW), "one launch is not again; this one is the second"
    made.settle()
    assert made.told == 1, "so that calls and plans choose anew"
    own = made.call(NEW)
    assert (own.origin, own.source.sizes) == ("cost model", ())
    assert made.call(NEW) is own
    assert made.waited == 1
    assert made.is_general(OTHER)
    assert not made.is_general(KNOWN)


def test_a_shape_has_one_stand_in_until_then(made: Made) -> None:
    assert made.call(NEW) is made.call(NEW)


def test_launches_that_took_as_long_as_a_compiler_wait_for_it(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = made.call(OTHER).seconds
    monkeypatch.setattr(gpu_tier, "COMPILING", 4.5 * seconds)
    made.engine.tiers.table.pop(made.engine.problem_of(product(OTHER)))
    assert made.is_general(OTHER, launches=4)
    assert made.is_general(OTHER), "the fifth launch waits, and tells"
    assert (made.waited, made.told) == (2, 1)
    assert not made.is_general(OTHER)
    assert made.waited == 2


def test_a_general_kernel_that_takes_long_serves_nothing(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_tier, "SHORT", 0.0)
    assert not made.is_general(NEW)


def test_searches_and_what_asks_for_it_wait_for_the_own_kernel(made: Made) -> None:
    problem = made.engine.problem_of(product(NEW))
    assert made.is_general(NEW)
    own = made.engine.untuned(problem)
    assert own.origin == "cost model"
    assert made.call(NEW) is own


def test_what_others_had_compiled_replaces_a_stand_in_too(made: Made) -> None:
    stand_in = made.call(NEW).program
    made.engine.untuned(made.engine.problem_of(product(NEW)))
    rng = np.random.default_rng(0)
    a, b = (rng.random(s, np.float32) for s in ((65, 67), (67, 70)))
    stand_in(a, b, np.empty((65, 70), np.float32))
    made.settle()
    assert made.told == 1


def test_machine_code_that_a_device_refuses_is_compiled_anew(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Made()
    load, refused = later.engine.device.load, list[Any]()

    def refusing(code: Any, sizes: Any = ()) -> Any:
        if len(refused) < 2:
            refused.append(code)
            raise CompileError("refused")
        return load(code, sizes)

    monkeypatch.setattr(later.engine.device, "load", refusing)
    assert not later.is_general(KNOWN)
    assert (len(refused), later.waited) == (2, 1)


def test_later_processes_load_general_kernels_and_those_of_shapes(made: Made) -> None:
    later = Made()
    assert later.is_general(NEW)
    assert not later.is_general(KNOWN)
    assert later.waited == 0


def test_a_general_kernel_serves_for_good_where_no_other_compiles(made: Made) -> None:
    made.refused.add(False)
    for _ in range(3):
        assert made.is_general(NEW, launches=2)
        made.settle()
    assert made.told == 0


def test_shapes_wait_for_their_own_where_no_general_kernel_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    found = Made()
    found.refused.add(True)
    for shape in (KNOWN, NEW):
        assert not found.is_general(shape)
        found.settle()


def test_a_full_disk_costs_nothing_but_what_it_would_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", "/proc/nothing")
    found = Made(Store.in_memory())
    assert not found.is_general(KNOWN)
    found.settle()
    assert found.is_general(NEW, launches=2)
    found.settle()
    assert not found.is_general(NEW)
    assert found.waited == 1


def test_threads_that_meet_a_new_shape_together_all_get_results(made: Made) -> None:
    def calls() -> None:
        for _ in range(3):
            made.call(NEW)

    at_once(*[calls] * 4)
    made.settle()
    assert not made.is_general(NEW)
