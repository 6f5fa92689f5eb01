"""Steps of compiled graphs: what runs, where results lie, and what is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.frameworks.torch_graphs.graph_groups import planned_calls
from mdtensor.api.frameworks.torch_graphs.planned_step import PlannedStep
from tests.api.frameworks.torch_graphs.graph_stand_in import Graph

torch: Any = pytest.importorskip("torch")
Tensor = Any


def product(*shape: int) -> Any:
    graph = Graph()
    rows, inner, columns = shape
    a, b = graph.given(rows, inner), graph.given(inner, columns)
    graph.returns(graph.call("mm", a, b, shape=(rows, columns)))
    (planned,), _ = planned_calls(graph.nodes)
    return planned


def tensors(*shape: int) -> tuple[Tensor, Tensor]:
    rows, inner, columns = shape
    random = np.random.default_rng(3)
    return (
        torch.from_numpy(random.standard_normal((rows, inner)).astype("f4")),
        torch.from_numpy(random.standard_normal((inner, columns)).astype("f4")),
    )


class ByTorch:
    """torch's way, which takes so long as it is told."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.calls = seconds, 0
        self.of: Callable[..., Any] = torch.mm

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        self.calls += 1
        time.sleep(self.seconds)
        return self.of(a, b)


@pytest.mark.parametrize(("seconds", "is_ours"), [(0.05, True), (0.0, False)])
def test_what_takes_less_time_is_kept(seconds: float, is_ours: bool) -> None:
    # Where torch takes no time at all, our product is large enough to take some.
    shape = (8, 9, 7) if is_ours else (256, 256, 256)
    by_torch = ByTorch(seconds)
    a, b = tensors(*shape)
    if not is_ours:
        due = torch.from_numpy(a.numpy() @ b.numpy())
        by_torch = lambda a, b: due  # noqa: E731
    step = PlannedStep(product(*shape), by_torch)
    for _ in range(3):
        found = step([], a, b)
        np.testing.assert_allclose(found.numpy(), a.numpy() @ b.numpy(), rtol=1e-4, atol=1e-4)
    (timing,) = step.timings.values()
    assert timing.is_ours is is_ours
    if is_ours:
        assert (timing.torch or 0) >= seconds
        count = by_torch.calls
        step([], a, b)
        assert by_torch.calls == count


def test_buffers_hold_results_of_one_run() -> None:
    step = PlannedStep(product(8, 9, 7), ByTorch(0.01))
    step.buffer = 1
    a, b = tensors(8, 9, 7)
    buffers: list[Any] = [None, None]
    first = step(buffers, a, b)
    assert step(buffers, a, b) is first is buffers[1]
    assert step([None, None], a, b) is not first
    np.testing.assert_allclose(first.numpy(), a.numpy() @ b.numpy(), rtol=1e-5, atol=1e-5)


def test_kernels_that_are_the_same_are_not_timed_again() -> None:
    by_torch = ByTorch(0.01)
    step = PlannedStep(product(8, 9, 7), by_torch)
    a, b = tensors(8, 9, 7)
    step([], a, b)
    (timing,) = step.timings.values()
    invalidation.clear()
    count, kernels = by_torch.calls, timing.kernels
    step([], a, b)
    # A better program may have come meanwhile.
    assert by_torch.calls == count or timing.kernels != kernels


def test_other_layouts_than_those_of_the_graph() -> None:
    step = PlannedStep(product(8, 9, 7), ByTorch(0.01))
    a, b = tensors(8, 9, 7)
    turned = torch.from_numpy(np.asfortranarray(a.numpy()))
    np.testing.assert_allclose(
        step([], turned, b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5, atol=1e-5
    )
    wanting = torch.from_numpy(a.numpy()).requires_grad_()
    assert not step([], wanting, b).requires_grad


def test_tensors_without_arrays_are_torchs() -> None:
    class Ours(torch.Tensor):
        def numpy(self, *, force: bool = False) -> np.ndarray:
            raise RuntimeError("it is more than its memory")

    by_torch = ByTorch(0)
    by_torch.of = lambda a, b: torch.zeros(8, 7)
    a, b = tensors(8, 9, 7)
    step = PlannedStep(product(8, 9, 7), by_torch)
    assert not step([], a.as_subclass(Ours), b).any()
    assert by_torch.calls == 1


def test_recordings_see_every_step() -> None:
    by_torch = ByTorch(0)
    step = PlannedStep(product(8, 9, 7), by_torch)
    a, b = tensors(8, 9, 7)
    with mdt.tuning("record") as seen:
        found = step([], a, b)
    np.testing.assert_allclose(found.numpy(), a.numpy() @ b.numpy(), rtol=1e-5, atol=1e-5)
    assert [item.md_hom.extents for item in seen] == [{"i0": 8, "i1": 7, "i2": 9}]
    assert by_torch.calls == 0
