"""Steps of compiled graphs: what runs, where results lie, and what is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.engine import registry
from mdtensor.api.frameworks.torch_graphs import planned_step
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


def seen_by_python(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One element for each run of steps that Python makes."""
    found: list[None] = []
    run = planned_step.run

    def seen(*arguments: Any, **options: Any) -> Any:
        found.append(None)
        return run(*arguments, **options)

    monkeypatch.setattr(planned_step, "run", seen)
    return found


@pytest.mark.parametrize("has_buffer", [False, True])
def test_known_calls_make_no_views(monkeypatch: pytest.MonkeyPatch, has_buffer: bool) -> None:
    """Two operands are parts of one tensor, the second transposed."""
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("torch before 2.10 has no exchange interface")
    monkeypatch.setenv("MDTENSOR_TIER0", "0")
    graph = Graph()
    whole = graph.given(12, 8)
    first = graph.call("slice", whole, 0, 0, 4, shape=(4, 8))
    second = graph.call("slice", whole, 0, 6, 11, shape=(5, 8))
    turned = graph.call("t", second, shape=(8, 5))
    graph.returns(graph.call("mm", first, turned, shape=(4, 5)))
    (planned,), _ = planned_calls(graph.nodes)
    step = PlannedStep(planned, lambda x: x[:4] @ x[6:11].T)
    step.by = True
    step.buffer = 0 if has_buffer else None
    buffers: list[Any] = [None]
    x = torch.arange(96.0).reshape(12, 8)
    registry.engine_for()
    for _ in range(3):
        step(buffers, x)
    registry.engine_for().settle()
    for _ in range(3):
        step(buffers, x)
    seen = seen_by_python(monkeypatch)
    larger = torch.arange(200.0).reshape(25, 8)[7:19]
    for each in (x, 2 * x, larger):
        torch.testing.assert_close(step(buffers, each), each[:4] @ each[6:11].T)
    assert not seen
    other = torch.arange(192.0).reshape(12, 16)[:, ::2]  # lies otherwise
    torch.testing.assert_close(step(buffers, other), other[:4] @ other[6:11].T)
    assert len(seen) == 1
    invalidation.clear()
    torch.testing.assert_close(step(buffers, x), x[:4] @ x[6:11].T)
    assert len(seen) == 2


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
