"""Tensors of torch in a GPU's memory: operands that are not copied, and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdtensor as mdt

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    return torch


class OfCuda:
    """An array of a library that knows CUDA's interface alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.array.__cuda_array_interface__


@mdt.stencil(border="nearest")
def mean(u: Any) -> Any:
    return 0.25 * u[-1] + 0.5 * u[0] + 0.25 * u[1]


def tensors(torch: Any, *shapes: tuple[int, ...]) -> list[Any]:
    torch.manual_seed(3)
    return [torch.randn(shape, device="cuda") for shape in shapes]


def test_tensors_are_operands(torch: Any, cupy: Any) -> None:
    a, b = tensors(torch, (37, 41), (41, 29))
    expected = (a.double() @ b.double()).cpu().numpy()
    for left, right in ((a, b), (a, cupy.from_dlpack(b)), (OfCuda(a), b)):
        for _ in range(2):
            found = mdt.einsum("ij,jk->ik", left, right)
            assert found.is_cuda
            np.testing.assert_allclose(found.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert isinstance(mdt.einsum("ij->i", cupy.from_dlpack(a)), cupy.ndarray)
    assert torch.equal(mdt.reduce("ij->i", a, combine="max"), a.amax(1))
    near = np.pad(a[0].cpu().numpy(), 1, mode="edge")
    means = 0.25 * near[:-2] + 0.5 * near[1:-1] + 0.25 * near[2:]
    np.testing.assert_allclose(mean(a[0]).cpu(), means, rtol=1e-5, atol=1e-6)


def test_results_are_written_to_tensors(torch: Any) -> None:
    a, b = tensors(torch, (37, 41), (41, 29))
    expected = (a.double() @ b.double()).float()
    out = torch.full((37, 29), torch.nan, device="cuda")
    assert mdt.einsum("ij,jk->ik", a, b, out=out) is out
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    out = torch.full((37,), torch.nan, device="cuda")
    assert mdt.reduce("ij->i", a, combine="max", out=out) is out
    assert torch.equal(out, a.amax(1))


def test_plans_take_tensors(torch: Any) -> None:
    a, b = tensors(torch, (37, 41), (41, 29))
    expected = (a.double() @ b.double()).float()
    plan = mdt.compile("ij,jk->ik", a, b)
    for _ in range(3):
        torch.testing.assert_close(plan(a, b), expected, rtol=1e-4, atol=1e-4)
    out = torch.full((37, 29), torch.nan, device="cuda")
    assert plan(a, b, out=out) is out
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


def test_convolutions_are_planned_for_tensors(torch: Any) -> None:
    image, taps = tensors(torch, (2, 16, 16, 8), (8, 3, 3, 8))
    plan = mdt.compile(mdt.conv, image, taps)
    swapped = image.permute(0, 3, 1, 2).double(), taps.permute(0, 3, 1, 2).double()
    expected = torch.nn.functional.conv2d(*swapped).permute(0, 2, 3, 1).float()
    for _ in range(4):
        found = plan(image, taps)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_tensors_that_are_freed_and_made_anew(torch: Any) -> None:
    for n in range(50):
        a, b = tensors(torch, (37, 41), (41, 29))
        a += n
        expected = (a.double() @ b.double()).float()
        out = torch.full((37, 29), torch.nan, device="cuda")
        assert mdt.einsum("ij,jk->ik", a, b, out=out) is out
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-2)
        view = mdt.einsum("ij->ji", a)
        del a
        assert view.shape == (41, 37)


def test_views_are_read_in_place(torch: Any) -> None:
    (a,) = tensors(torch, (40, 60))
    view = a.T[3:50:2, 5:]
    found = mdt.einsum("ij->i", view)
    torch.testing.assert_close(found, view.double().sum(1).float(), rtol=1e-4, atol=1e-4)


def test_what_another_stream_of_torch_fills_is_waited_for(torch: Any) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        a = torch.zeros(1 << 20, device="cuda")
        for _ in range(40):
            a += 1
        assert float(mdt.einsum("i->", a)) == 40 * a.numel()


def test_plans_on_tensors_that_want_gradients(torch: Any) -> None:
    a, b = tensors(torch, (37, 41), (41, 29))
    a.requires_grad_()
    plan = mdt.compile("ij,jk->ik", a.detach(), b)
    with torch.no_grad():
        torch.testing.assert_close(plan(a, b), a @ b, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        *(torch.autograd.grad(f(a, b).sum(), a)[0] for f in (plan, torch.mm))
    )
