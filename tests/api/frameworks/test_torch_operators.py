"""Operators of torch: what they register, on what stands for torch, and on torch where it is."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frameworks import tensor_calls, torch_operators
from mdtensor.errors import DeviceError, DTypeError, ShapeError
from tests import children
from tests.api.frameworks.torch_stand_in import Batched, Context, Tensor, torch  # noqa: F401 — a fixture

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
RANDOM = np.random.default_rng(5)


def tensor(*shape: int, dtype: str = "f8") -> Tensor:
    return Tensor(RANDOM.standard_normal(shape).astype(dtype))


def gradient(
    operator: Any, arguments: tuple[Any, ...], needs: tuple[Any, ...], grad: Tensor
) -> Any:
    """What an operator's gradient gives for its arguments."""
    ctx = Context()
    operator.parts["setup"](ctx, arguments, operator(*arguments))
    ctx.needs_input_grad = needs
    return operator.parts["backward"](ctx, grad)


def test_results_are_computed_into_new_tensors(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    a, b = tensor(3, 4), tensor(5, 4)
    found = ops.einsum("ij,kj->ik", [a, b])
    assert type(found) is Tensor
    np.testing.assert_allclose(found.host, a.host @ b.host.T, rtol=1e-13)
    found = ops.reduce("ij->i", [a], "max")
    np.testing.assert_array_equal(found.host, a.host.max(1))
    found = ops.scan("ij->ij", [a], "i", "add", True, True)
    expected = np.cumsum(a.host[::-1], 0)[::-1] - a.host
    np.testing.assert_allclose(found.host, expected, atol=1e-13)
    assert ops.reduce("ij->i", [a], "argmax").dtype == "torch.int64"


def test_bfloat16_is_computed_in_float32(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    a, b, c = (tensor(*shape, dtype="bfloat16") for shape in ((3, 4), (4, 5), (5, 6)))
    exact = a.host.astype(float) @ b.host.astype(float)
    found = ops.einsum("ij,jk->ik", [a, b])
    assert found.dtype == "torch.bfloat16"
    np.testing.assert_array_equal(found.host, exact.astype("f4").astype(BFLOAT16))
    wide = Tensor(b.host.astype("f4"))
    found = ops.einsum("ij,jk->ik", [a, wide])
    assert found.dtype == "torch.float32"
    np.testing.assert_allclose(found.host, exact, rtol=1e-5)
    found = ops.einsum("ij,jk,kl->il", [a, b, c])
    np.testing.assert_array_equal(
        found.host, (exact @ c.host.astype(float)).astype("f4").astype(BFLOAT16)
    )
    assert ops.reduce("ij->i", [a], "argmax").dtype == "torch.int64"


def test_bfloat16_is_read_where_it_lies(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def copied(self: Tensor) -> Tensor:
        raise AssertionError("a copy in float32")

    monkeypatch.setattr(Tensor, "float", copied)
    ops = torch_operators.register()
    a = tensor(3, 4, dtype="bfloat16")
    for _ in range(2):
        assert ops.einsum("ij,ij->i", [a, a]).dtype == "torch.bfloat16"


def test_bfloat16_beside_other_types_is_copied(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    a, counts = tensor(3, 4, dtype="bfloat16"), Tensor(np.arange(12).reshape(3, 4))
    found = ops.einsum("ij,ij->i", [a, counts])
    np.testing.assert_allclose(
        found.host, (a.host.astype(float) * counts.host).sum(1), rtol=2.0**-8
    )


def test_shapes_are_known_without_elements(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    image, filters = tensor(2, 3, 8, 7), tensor(4, 3, 3, 3)
    arguments = (image, filters, None, [2, 1], [1, 0], [1, 1], 1, "NCHW,KCRS->NKPQ", False, [0, 0])
    found = ops.conv.parts["fake"](*arguments)
    assert found.shape == ops.conv(*arguments).shape == (2, 4, 4, 5)
    (found,) = ops.call.parts["fake"]('["einsum",["i,j->ij"],{},false]', [tensor(2), tensor(3)])
    assert found.shape == (2, 3)


def test_gradients_are_calls(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    a, b, grad = tensor(3, 4), tensor(4, 5), tensor(3, 5)
    equation, (for_a, for_b) = gradient(
        ops.einsum, ("ij,jk->ik", [a, b]), (False, [True, True]), grad
    )
    assert equation is None
    np.testing.assert_allclose(for_a.host, grad.host @ b.host.T, rtol=1e-13)
    np.testing.assert_allclose(for_b.host, a.host.T @ grad.host, rtol=1e-13)
    _, (for_a, for_b) = gradient(ops.einsum, ("ij,jk->ik", [a, b]), (False, [False, True]), grad)
    assert for_a is None
    assert for_b.shape == (4, 5)


def test_results_are_kept_where_a_gradient_reads_them(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    a = tensor(3, 4)
    kept = {}
    for combine in ("add", "mul"):
        ctx = Context()
        arguments = ("ij->ij", [a], "j", combine)
        ops.scan.parts["setup"](ctx, arguments, ops.scan(*arguments))
        kept[combine] = len(ctx.saved_tensors)
    assert kept == {"add": 1, "mul": 2}
    grad = tensor(3)
    _, (found,), _ = gradient(ops.reduce, ("ij->i", [a], "logaddexp"), (False, [True], False), grad)
    weights = np.exp(a.host) / np.exp(a.host).sum(1, keepdims=True)
    np.testing.assert_allclose(found.host, weights * grad.host[:, None], rtol=1e-12)


def test_defaults_that_are_left_out_have_no_gradient(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    found = gradient(ops.reduce, ("ij->i", [tensor(3, 4)], "add"), (False, [True]), tensor(3))
    assert len(found) == 2


def test_streams_are_passed_by_their_protocol() -> None:
    made = tensor_calls._stream_at(
        SimpleNamespace(cuda=SimpleNamespace(Stream=SimpleNamespace(from_external=lambda s: s))),
        7,
        0,
    )
    assert made.__cuda_stream__() == (0, 7)
    old = SimpleNamespace(cuda=SimpleNamespace(Stream=object, ExternalStream=lambda *given: given))
    assert tensor_calls._stream_at(old, 7, 1) == (7, 1)


def test_gradients_of_a_convolution_stand_where_its_tensors_do(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    rest = ([1], [0], [1], 1, "NCW,KCS->NKQ", False, [0])
    needs = (True, True, False, *(False for _ in rest))
    image, filters = tensor(1, 1, 5), tensor(1, 1, 2)
    found = gradient(ops.conv, (image, filters, None, *rest), needs, tensor(1, 1, 4))
    assert [each.shape for each in found[:2]] == [(1, 1, 5), (1, 1, 2)]
    assert found[2:] == (None,) * 8
    needs = (False, False, True, *(False for _ in rest))
    grad = tensor(1, 1, 4)
    found = gradient(ops.conv, (image, filters, tensor(1), *rest), needs, grad)
    assert found[:2] == (None, None)
    np.testing.assert_allclose(found[2].host, grad.host.sum((0, 2)), rtol=1e-12)


def test_batches_are_one_call(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    a, b = tensor(3, 7, 4), tensor(4, 5)
    found, at = ops.einsum.parts["batch"](None, (None, [1, None]), "ij,jk->ik", [a, b])
    assert at == 0
    np.testing.assert_allclose(found.host, np.einsum("ivj,jk->vik", a.host, b.host), atol=1e-13)
    rest = ([1], [0], [1], 1, "NCW,KCS->NKQ", False, [0])
    image, filters = tensor(6, 1, 1, 5), tensor(1, 1, 2)
    dims = (0, None, None, *(None for _ in rest))
    found, at = ops.conv.parts["batch"](None, dims, image, filters, None, *rest)
    assert (at, found.shape) == (0, (6, 1, 1, 4))
    found, at = ops.call.parts["batch"](
        None, (None, [0]), '["einsum",["i->"],{},false]', [tensor(2, 3)]
    )
    assert (at, [each.shape for each in found]) == ([0], [(2,)])


def test_batches_of_gradients_are_one_call(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    a, b = Batched(RANDOM.standard_normal((3, 7, 4)), axis=1), tensor(4, 5)
    found = ops.einsum.parts["Batched"]("ij,jk->ik", [a, b])
    assert (type(found), found.axis) == (Batched, 0)
    np.testing.assert_allclose(found.host, np.einsum("ivj,jk->vik", a.host, b.host), atol=1e-13)
    text = '["einsum",["i->"],{},false]'
    [found] = ops.call.parts["Batched"](text, [Batched(np.ones((2, 3)))])
    np.testing.assert_array_equal(found.host, [3, 3])


def test_tensors_that_cannot_be_taken_are_refused(torch: Any) -> None:  # noqa: F811
    ops = torch_operators.register()
    a = tensor(3)
    with pytest.raises(DeviceError, match="tensors on cpu, cuda in one call"):
        ops.einsum("i,i->", [a, Tensor(a.host, "cuda")])
    with pytest.raises(DeviceError, match="a tensor is on mps"):
        ops.einsum("i->", [Tensor(a.host, "mps")])
    with pytest.raises(DeviceError, match="no device"):
        ops.einsum("", [])
    with pytest.raises(DTypeError, match="sparse_coo"):
        ops.einsum("i->", [Tensor(a.host, layout="torch.sparse_coo")])


def test_the_functions_of_the_module(torch: Any) -> None:  # noqa: F811
    import mdtensor.torch as ours

    a, b = tensor(3, 4), tensor(4, 5)
    np.testing.assert_allclose(ours.einsum("ij,jk->ik", a, b).host, a.host @ b.host, rtol=1e-13)
    np.testing.assert_allclose(ours.reduce("ij->j", a).host, a.host.sum(0), rtol=1e-13)
    np.testing.assert_allclose(ours.scan("ij->ij", a, dim="j").host, a.host.cumsum(1), rtol=1e-12)
    image, filters = tensor(1, 1, 6, 6), tensor(1, 1, 3, 3)
    assert ours.conv(image, filters, stride=2, padding=(1, 0)).shape == (1, 1, 3, 2)
    assert ours.conv(image, filters, stride=2, transposed=True).shape == (1, 1, 13, 13)
    with pytest.raises(ShapeError, match="the image has 2 axes"):
        ours.conv(a, b)
    plan = ours.operator(mdt.compile("ij,jk->ik", mdt.spec((3, 4), "f8"), mdt.spec((4, 5), "f8")))
    np.testing.assert_allclose(plan(a, b).host, a.host @ b.host, rtol=1e-13)
    with pytest.raises(ShapeError, match="not what the plan was made for"):
        plan(b, b)

    @mdt.stencil
    def difference(u: Any) -> Any:
        return u[1] - u[0]

    line = tensor(6)
    found = ours.operator(difference)(line)
    np.testing.assert_array_equal(found.host, difference(line.host))


@pytest.mark.process
def test_without_torch_the_module_says_so_when_it_is_used() -> None:
    program = """
import sys
sys.modules["torch"] = None
import mdtensor.torch
try:
    mdtensor.torch.einsum("i->", None)
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert children.run("-c", program).out == "torch\n"


if importlib.util.find_spec("torch") is not None:  # as the benchmarks' machines have it

    @pytest.mark.process
    def test_the_checks_of_torch() -> None:
        assert "0 failed" in children.run("-m", "bench.torch_ops", "--quick").out
