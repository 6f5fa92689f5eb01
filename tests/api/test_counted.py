"""Programs that count their launches, and the kernels that frequent shapes get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from mdtensor.api import engine, pipeline
from mdtensor.api.counted import Counted
from mdtensor.backends.protocol import Program
from mdtensor.lower.problem import problem_from_md_hom
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum


class Noted:
    """A program that writes down what it is launched on."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __call__(self, *arrays: Any) -> None:
        self.seen.append(arrays)

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> Program:
        return Noted([])

    def launcher(self) -> Callable[..., None]:
        return self

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        return self, lambda: self.seen.append("waited")

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        return self


def test_the_launch_of_a_number_tells_once_whoever_makes_it() -> None:
    seen: list[Any] = []
    told: list[int] = []
    program = Counted(Noted(seen), 5, lambda: told.append(len(seen)))
    begin, wait = program.beginner()
    assert wait is not None
    ways = [program, program.launcher(), begin, program.remembering_launcher(lambda *_: None)]
    for number in range(12):
        ways[number % 4]("a", number)
    wait()
    assert seen == [*(("a", number) for number in range(12)), "waited"]
    assert told == [5], "after the fifth launch, and never again"


def test_a_program_for_other_sizes_counts_nothing() -> None:
    told: list[int] = []
    bound = Counted(Noted([]), 1, lambda: told.append(1)).bound((3, 4))
    bound("a")
    assert not told


def test_a_shape_that_is_launched_often_gets_a_kernel_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = pipeline.engine_for()
    made.settle(timeout=600)  # or what other tests asked for gets all kernels that there may be
    monkeypatch.setattr(made, "own", {})
    monkeypatch.setattr(engine, "GENERAL", 1e9)
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) for shape in ((17, 9), (9, 11)))
    specs = TensorSpec.of(a.shape), TensorSpec.of(b.shape)
    problem = problem_from_md_hom(md_hom_from_einsum("ij,jk->ik", specs))
    made.untuned(problem)
    made.settle(timeout=600)
    seconds = made.untuned(problem).seconds
    monkeypatch.setattr(engine, "WORTH_OFTEN", 2.5 * seconds)
    general = made.untuned(problem)
    launch, result = general.program.launcher(), np.empty((17, 11), np.float32)
    for _ in range(2):
        launch(a, b, result)
    made.settle(timeout=600)
    assert "general" in made.untuned(problem).origin, "two launches are not often"
    launch(a, b, result)
    made.settle(timeout=600)
    own = made.untuned(problem)
    assert own.origin == "cost model"
    assert not own.source.sizes, "its extents are constants"
    result[:] = np.nan
    own.program(a, b, result)
    np.testing.assert_allclose(result, a @ b, rtol=1e-5)
