"""Operators of torch on tensors in a GPU's memory: on their device and stream, with gradients."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls.hot_calls import MISSED
from mdtensor.api.frameworks.call_text import held_call
from mdtensor.api.frameworks.torch_operators import register

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    import mdtensor.torch  # noqa: F401

    return torch


def randn(torch: Any, *shape: int, dtype: str = "float64", grad: bool = True) -> Any:
    made = torch.randn(shape, dtype=getattr(torch, dtype), device="cuda")
    return made.requires_grad_(grad)


def product(a: Any, b: Any) -> Any:
    return mdt.einsum("ij,jk->ik", a, b)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_results_and_gradients_stay_on_the_device(torch: Any, dtype: str) -> None:
    a, b = randn(torch, 48, 32, dtype=dtype), randn(torch, 32, 40, dtype=dtype)
    found = product(a, b)
    assert (found.device, found.dtype) == (a.device, a.dtype)
    due = a.double() @ b.double()
    bound = 1e-5 if found.element_size() > 2 else 5e-2
    torch.testing.assert_close(found.double(), due, rtol=bound, atol=10 * bound)
    cotangent = torch.ones_like(found)
    for_a, for_b = torch.autograd.grad(found, (a, b), cotangent)
    assert for_a.dtype == a.dtype
    expected = torch.autograd.grad(due, (a, b), cotangent.double())
    torch.testing.assert_close(for_a.double(), expected[0].double(), rtol=bound, atol=10 * bound)
    torch.testing.assert_close(for_b.double(), expected[1].double(), rtol=bound, atol=10 * bound)


def test_kernels_run_on_the_current_stream(torch: Any) -> None:
    a, b = randn(torch, 512, 512, grad=False), randn(torch, 512, 512, grad=False)
    due = product(a, b)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        later = a
        for _ in range(20):
            later = later + 1.0
        found = product(later - 20.0, b)
    stream.synchronize()
    torch.testing.assert_close(found, due)
    event = torch.cuda.Event()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        product(a, b)
        event.record(stream)
    assert not event.query()  # it waits behind what the stream does
    stream.synchronize()


def test_gradients_are_those_of_differences(torch: Any) -> None:
    import mdtensor.torch as ours

    assert torch.autograd.gradcheck(product, (randn(torch, 3, 4), randn(torch, 4, 2)))
    assert torch.autograd.gradgradcheck(product, (randn(torch, 3, 4), randn(torch, 4, 2)))
    convolution = (randn(torch, 1, 2, 5, 4), randn(torch, 2, 2, 3, 2), randn(torch, 2))
    assert torch.autograd.gradcheck(lambda *given: ours.conv(*given, padding=1), convolution)
    for combine in ("add", "max", "logaddexp"):
        assert torch.autograd.gradcheck(
            lambda a, combine=combine: ours.reduce("ij->i", a, combine=combine),
            (randn(torch, 3, 4),),
        )
        assert torch.autograd.gradcheck(
            lambda a, combine=combine: ours.scan("ij->ij", a, dim="j", combine=combine),
            (randn(torch, 3, 4),),
        )


def test_the_operator_is_what_torch_asks_for(torch: Any) -> None:
    a, b = randn(torch, 3, 4), randn(torch, 4, 2)
    first, second = mdt.spec((3, 4), "f8"), mdt.spec((4, 2), "f8")
    for held, operands in (
        (held_call(mdt.einsum, "ij,jk->ik", first, second), [a, b]),
        (held_call(mdt.reduce, "ij->i", first, combine="max"), [a]),
    ):
        torch.library.opcheck(register().call.default, (held.text, operands))


def test_graphs_hold_calls(torch: Any) -> None:
    import mdtensor.torch as ours

    @mdt.stencil
    def difference(u: Any) -> Any:
        return u[1] - u[-1]

    operator = ours.operator(difference)
    compiled = torch.compile(
        lambda a, b: operator(product(a * 2, b).sum(0)).sum(), fullgraph=True, backend="aot_eager"
    )
    a, b = randn(torch, 6, 4), randn(torch, 4, 9)
    found, due = compiled(a, b), (a * 2 @ b).sum(0)
    torch.testing.assert_close(found, (due[2:] - due[:-2]).sum())
    found.backward()
    assert a.grad.is_cuda


def test_known_calls_are_launched_wherever_torch_is(torch: Any) -> None:
    a, b = (randn(torch, 64, 64, dtype="float32", grad=False) for _ in range(2))

    def check(found: Any) -> None:
        torch.testing.assert_close(found.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-3)

    for _ in range(11):
        found = product(a, b)
    check(found)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(100):
            found = product(a, b)
    stream.synchronize()
    check(found)
    with torch.cuda.graph(graph):
        found = product(a, b)
    a.normal_()
    graph.replay()
    check(found)
    results: list[Any] = []

    def calls() -> None:
        results.append([product(a, b) for _ in range(50)])
        torch.cuda.synchronize()

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for several in results:
        for found in several:
            check(found)


def test_plans_take_better_kernels(torch: Any) -> None:
    a, b = (randn(torch, 256, 256, dtype="float16", grad=False) for _ in range(2))
    plan = mdt.compile("ij,jk->ik", a, b)
    for _ in range(3):
        plan(a, b)
    plan.tune(3.0, quiet=True)
    for _ in range(3):
        found = plan(a, b)
    torch.testing.assert_close(found, a @ b, rtol=1e-2, atol=1e-1)
    assert plan._hot.call(a, b) is not MISSED
    invalidation.clear()
    assert plan._hot.call(a, b) is MISSED


def test_graphs_of_torch_record_calls_of_several_kernels(torch: Any) -> None:
    a = randn(torch, 64, 48, dtype="float32", grad=False)
    for _ in range(11):
        mdt.softmax(a, axis=1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = mdt.softmax(a, axis=1)
    others = [torch.randn_like(a) for _ in range(50)]  # in memory that is free
    for _ in range(3):
        a.normal_()
        graph.replay()
        torch.testing.assert_close(found, a.softmax(1))
    assert all(bool(torch.isfinite(each).all()) for each in others)
