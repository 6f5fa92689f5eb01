"""First calls on GPUs: what was chosen is kept, and several programs are compiled side by side.

A processor stands for the GPU.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import KernelChoice
from mdtensor.autotune.store.store import Store
from mdtensor.errors import LoweringError
from mdtensor.lower.search import candidates
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from tests.api.gpu_family import GpuOnProcessor

A, B = np.random.default_rng(0).random((2, 64, 64), np.float32)


def product(text: str = "ik,kj->ij") -> MDHom:
    return md_hom_from_einsum(text, [TensorSpec.of((64, 64), "f4")] * 2)


@pytest.fixture
def ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The problems whose candidates were ranked, from an empty cache on."""
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    found: list[Any] = []
    rank = candidates.ranked

    def noted(problem: Any, *arguments: Any, **options: Any) -> Any:
        found.append(problem)
        return rank(problem, *arguments, **options)

    monkeypatch.setattr(candidates, "ranked", noted)
    return found


def of_a_process() -> Engine:
    """An engine on the store that other processes have, too."""
    store = Store.open()
    return Engine(GpuOnProcessor(), lambda: store)


def chosen(engine: Engine, text: str = "ik,kj->ij") -> KernelChoice:
    choice = engine.choose(product(text))
    choice.program(A, B, out := np.empty_like(A))
    np.testing.assert_allclose(out, np.einsum(text, A, B), rtol=1e-5)
    return choice


def test_what_was_chosen_is_not_ranked_again(ranked: list[Any]) -> None:
    first = chosen(of_a_process())
    assert (first.origin, len(ranked)) == ("cost model", 1)
    second = chosen(of_a_process())
    assert (second.schedule, second.seconds) == (first.schedule, first.seconds)
    assert len(ranked) == 1
    chosen(of_a_process(), "ik,jk->ij")
    assert len(ranked) == 2


def test_the_second_choice_is_kept_where_the_first_does_not_compile(
    ranked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = of_a_process()
    refused: list[Any] = []
    source = engine.source

    def refusing(problem: Any, schedule: Any) -> Any:
        if not refused:
            refused.append(schedule)
            raise LoweringError("refused")
        return source(problem, schedule)

    monkeypatch.setattr(engine, "source", refusing)
    first = chosen(engine)
    assert first.schedule not in refused
    assert chosen(of_a_process()).schedule == first.schedule


@pytest.mark.parametrize(
    ("shape", "scanned", "own"),
    [
        ((4096,), True, True),
        ((8, 2000), True, False),
        ((3, 2100), False, True),
        ((500, 20), False, False),
        ((5000,), False, False),
    ],
)
def test_work_items_with_much_to_walk_through_share_it(
    ranked: list[Any], shape: tuple[int, ...], scanned: bool, own: bool
) -> None:
    labels = "ij"[-len(shape) :]
    text = f"{labels}->{labels}" if scanned else f"{labels}->{labels[:-1]}"
    combine: Any = {"j": "add"} if scanned else "add"
    said = Reduction(text, combine=combine, scans=scanned)
    md_hom = md_hom_from_reduction(said, [TensorSpec.of(shape, "f4")])
    engine = of_a_process()
    choice = engine.choose(md_hom)
    assert (choice.origin == "cost model") == own
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    found = np.empty(shape if scanned else shape[:-1], np.float32)
    choice.program(x, found)
    np.testing.assert_array_equal(found, x.cumsum(-1) if scanned else x.sum(-1))


def test_kernels_of_a_call_are_chosen_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = of_a_process()
    texts = ("ik,kj->ij", "ik,jk->ij", "ki,kj->ij")
    both = threading.Barrier(3, timeout=60)

    def choose(md_hom: MDHom, *, use_store: bool) -> Any:
        both.wait()  # which no thread alone passes
        if md_hom == product(texts[2]):
            raise LoweringError("refused")
        return SimpleNamespace(problem=md_hom, origin="cost model")

    monkeypatch.setattr(engine, "choose", choose)
    monkeypatch.setattr(registry, "engine_for", lambda arrays: engine)
    registry.choose_ahead([product(text) for text in (*texts, texts[0])], "cupy")
    found = [registry.choice_for(product(text), "cupy") for text in texts[:2]]
    assert [choice.problem for choice in found] == [product(text) for text in texts[:2]]
    assert len(engine.tiers.choices) == 2
